"""The rooms between a request and its steps, on a ledger of their own, as ``app`` builds them: gate, turns, runner."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.admission.gate import Gate
from appliance.admission.recovery import Recovered, take_over
from appliance.contracts.admission import PRIORITY_UTTERANCE, Admission, Door, Outcome, Request, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plan import Plan, Step
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger
from appliance.contracts.turn import Turn, TurnEvent
from appliance.delivery.phrasing import Phrasing
from appliance.execution.approval.approvals import Approvals
from appliance.execution.approval.settings import ApprovalRules, ApprovalSettings
from appliance.execution.runner import Runner
from appliance.execution.spill import Spill
from appliance.execution.tickets.escalation import Escalation
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox
from appliance.foundation.id_source import SystemIds
from appliance.foundation.strict_yaml import read_yaml
from appliance.foundation.system_clock import SystemClock
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import operations
from appliance.store.database import Database
from bench.plants import gateway_plant
from demo.site import CONFIG

LANGUAGE = "en"
_ORIGIN = "bench"
_SESSIONS = 1_000_000  # the appliance's own limit is for its users; here more are opened on purpose
_RULES = ApprovalSettings(ApprovalRules.model_validate({"allow": ["*"], "ask": []}))
"""A site that lets every call be made: each is decided about and noted, and nobody has to be there to say yes."""


@dataclass(frozen=True, slots=True)
class DurableCore:
    """An open ledger with everything that works on it."""

    database: Database
    clock: Clock
    ids: IdSource
    recovered: Recovered
    gate: Gate
    turns: Turns
    wording: Wording

    def runner(self, tools: Sequence[AnyTool], ledger: Ledger | None = None) -> Runner:
        """Return a runner of ``tools`` behind the approvals, on another ``ledger`` than the core's own if one is given."""
        ledger, toolbox = ledger or self.database, Toolbox(tools)
        no_field: Any = None  # none of the tools writes a tag, so nothing of the field is read
        return Runner(
            ledger, toolbox, self.clock, self.ids, self.recovered.ownership.epoch, self.wording,
            approvals=Approvals(_RULES, toolbox, _plant(), no_field, ledger, self.wording, self.clock),
            escalator=Escalation(self.clock, self.ids, self.wording, takers=(), origin=_ORIGIN, language=LANGUAGE),
            spill=Spill(self.database.path.parent / "spill"),
        )  # fmt: skip

    async def admit(self, key: str, lane: str) -> Admission:
        """Admit a sentence under a duplicate key of its own."""
        payload = {"text": "count to twenty for me please", "language": LANGUAGE, "by": "bench"}
        request = Request(Door.CONSOLE, RequestKind.UTTERANCE, lane, key, payload, PRIORITY_UTTERANCE)
        return (await self.gate.admit(request)).admission

    async def open(self, admission: Admission, steps: Sequence[Step]) -> Turn:
        """Open the admission's turn and store its plan."""
        context = {"slots": {}, "said": admission.payload["text"], "by": admission.payload["by"]}
        turn = await self.turns.open(admission, language=LANGUAGE, intent="count", context=context, offline=False)
        return await self.turns.plan(turn, Plan("count", "phrase:count", tuple(steps), estimate_s=1.0))

    async def finish(self, turn: Turn) -> None:
        """End a turn whose steps are done, and its admission."""
        await self.turns.end(turn.id, TurnEvent.FINISHED, turn.admission_id, Outcome.DONE)


@asynccontextmanager
async def durable_core(folder: Path) -> AsyncIterator[DurableCore]:
    """Open ``folder/ledger.sqlite``, take it over and build the rooms; close it afterwards."""
    clock = SystemClock()
    ids = SystemIds(clock)
    database = await Database.open(folder / "ledger.sqlite", clock)
    try:
        await database.transaction(lambda tx: operations.set_origin(tx, clock, _ORIGIN))
        recovered = await take_over(database, clock, ids, ids.mint("in"), os.getpid())
        database.own(recovered.ownership.epoch)
        turns = Turns(database, clock, ids, recovered.ownership.epoch, SessionSettings())
        yield DurableCore(database, clock, ids, recovered, Gate(database, clock, ids, session_limit=_SESSIONS), turns, _wording())
    finally:
        await database.close()


def _wording() -> Phrasing:
    """Return the shipped sentences of the bench's language, on a made-up plant."""
    file = CONFIG / "phrases" / f"{LANGUAGE}.yaml"
    phrases = read_yaml(file.read_text("utf-8"), str(file))
    return Phrasing({LANGUAGE: phrases["replies"]}, _plant())


def _plant() -> Plant:
    return Plant.model_validate(gateway_plant(1, 502))
