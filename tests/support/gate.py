"""The gate with everything round it: phrases, plans, questions and answers, a runner, the real ledger. The field is a table, or
whatever bus is given; the conductor is left out, so that a test can come by any way and stop anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.contracts.admission import Admission, Door, Outcome
from appliance.contracts.effect import Confirmation
from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, Intent, Plan, Step
from appliance.contracts.planning import Asked
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus
from appliance.contracts.principal import PRINCIPAL, UNATTENDED, AccessLevel, Identification, Principal
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.execution.approval.approvals import Approvals
from appliance.execution.approval.settings import ApprovalRules, ApprovalSettings, WriteRule
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.read_tags import ReadTags
from appliance.execution.tools.say import Say
from appliance.execution.tools.shelve_alarm import ShelveAlarm
from appliance.execution.tools.write_tag import WriteTag
from appliance.planning.planner import Planner
from appliance.session.questions import Questions
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import actions, deliveries
from tests.support.bus import TableBus
from tests.support.clock import ManualClock
from tests.support.ledger import Bench, given_admission, open_bench
from tests.support.planning import shipped_phrasebook, shipped_plant, shipped_playbooks
from tests.support.plans import phrasing
from tests.support.runner_ports import runner_ports

FAN = "motor_3.fan_speed"
SET_FAN = "set the fan speed of motor three to eighty percent"


def principal(level: str = "operator", *, by: str = "ana", identified: Identification = Identification.TOKEN) -> Principal:
    """A person of that level."""
    return Principal(by, identified, "engineer" if level == "critical" else level, AccessLevel.of_word(level))


def rules(**changes: Any) -> ApprovalSettings:
    """What ``policies.yaml`` says: the lists of ``approvals`` by name, and ``writes``."""
    writes = [WriteRule.model_validate(rule) for rule in changes.pop("writes", [])]
    return ApprovalSettings(ApprovalRules.model_validate(changes), writes)


class Shelf:
    """Shelves nothing, and says it did."""

    def shelve_in(self, tx: Any, alarm_id: str, for_s: float, *, by: str, reason: str) -> object:
        return None

    def end_in(self, tx: Any, alarm_id: str, kind: Any, *, by: str) -> int:
        return 0


@dataclass
class Gate:
    """One appliance, without a conductor."""

    bench: Bench
    bus: Any
    plant: Plant
    settings: ApprovalSettings
    folder: Path
    more: Sequence[AnyTool] = ()
    count: int = 0

    def build(self) -> None:
        """Build the rooms for the bench's epoch."""
        bench, wording = self.bench, phrasing(self.plant)
        ledger, clock, ids = bench.database, bench.clock, bench.ids
        tools: list[AnyTool] = [
            ReadTags(self.bus, self.plant, clock), WriteTag(self.bus, self.plant, clock, self.settings.level_of), Say(clock, ids),
            Ask(clock, ids, wording), CreateWorkOrder(clock), ShelveAlarm(Shelf()), *self.more,
        ]  # fmt: skip
        self.toolbox = Toolbox(tools)
        self.approvals = Approvals(self.settings, self.toolbox, self.plant, self.bus, ledger, wording, clock)
        ports = runner_ports(self.folder, clock) | {"approvals": self.approvals}
        self.runner = Runner(ledger, self.toolbox, clock, ids, bench.epoch, wording, settle_waits=lambda: [0.0] * 3, **ports)
        self.turns = Turns(ledger, clock, ids, bench.epoch, SessionSettings())
        self.questions = Questions(ledger, clock)
        self.planner = Planner(shipped_phrasebook(), shipped_playbooks(), self.plant, {})

    # asking ---------------------------------------------------------------------------------------------------------
    async def admission(self, text: str, who: Principal, lane: str, **payload: Any) -> Admission:
        """Something said or typed."""
        self.count += 1
        door = Door.VOICE if who.identified is Identification.VOICE else Door.CONSOLE
        told = {"text": text, "language": "en", "by": who.by, PRINCIPAL: who.to_json(), **payload}
        if door is Door.VOICE:
            now_ns = self.bench.clock.monotonic_ns()
            told |= {"speech_ended_mono_ns": now_ns}
        return await given_admission(self.bench, f"said:{self.count}", door=door, lane=lane, payload=told)

    async def planned(self, plan: Plan, who: Principal, *, lane: str = "speaker:floor", **context: Any) -> Turn:
        """Prepare and store a plan in a turn of its own. Raises Refused: it was refused while it was prepared."""
        admission = await self.admission("something", who, lane)
        around = {PRINCIPAL: who.to_json(), "slots": {}, **context}
        turn = await self.turns.open(admission, language="en", intent=plan.intent, context=around, offline=False)
        try:
            prepared = await self.approvals.prepare(
                plan, self.asked(plan, who, turn, is_unattended=bool(context.get(UNATTENDED)))
            )
        except Refused as refused:
            await self.turns.end(turn.id, TurnEvent.FAILED, admission.id, Outcome.REFUSED, reason=refused.message)
            raise
        return await self.turns.plan(turn, prepared)

    def asked(self, plan: Plan, who: Principal, turn: Turn, *, is_unattended: bool = False) -> Asked:
        """What ``prepare`` is asked for a turn."""
        intent = Intent(plan.intent, "en", "")
        return Asked(intent, principal=who, session_id=turn.session_id, turn_id=turn.id, is_unattended=is_unattended)

    async def unprepared(
        self, steps: Sequence[Step], who: Principal, *, source: str = "phrase:test", lane: str = "", **context: Any
    ) -> Turn:
        """Store a plan that nobody looked at before: the last line of defence has to hold."""
        admission = await self.admission("something", who, lane or f"console:{self.count}")
        around = {PRINCIPAL: who.to_json(), "slots": {}, **context}
        turn = await self.turns.open(admission, language="en", intent="test", context=around, offline=False)
        return await self.turns.plan(turn, Plan("test", source, tuple(steps), estimate_s=0.0))

    def phrase(self, text: str = SET_FAN) -> Plan:
        """The plan of a sentence."""
        intent = shipped_phrasebook().understand(text, "en")
        assert intent is not None
        return self.planner.plan(intent, {})

    async def run(self, turn: Turn) -> RunOutcome:
        """Run a turn until it ends or asks."""
        outcome = await self.runner.run(turn)
        event = {"waiting": TurnEvent.ASKED, "finished": TurnEvent.FINISHED, "failed": TurnEvent.FAILED}[outcome.kind]
        (row,) = await self.bench.rows("SELECT * FROM turn WHERE id = ?", turn.id)
        if row["state"] == TurnState.EXECUTING:
            (admission,) = await self.bench.rows("SELECT * FROM admission WHERE turn_id = ? AND status = 'started'", turn.id)
            await self.turns.end(turn.id, event, admission["id"], Outcome.DONE, reason=outcome.failure)
        return outcome

    async def ask(self, text: str, who: Principal, *, lane: str = "speaker:floor") -> Turn:
        """Say a sentence and run its plan; what is queued sounds at once."""
        turn = await self.planned(self.phrase(text), who, lane=lane)
        await self.run(turn)
        if isinstance(self.bench.clock, ManualClock):  # else who answers has read it
            await self.speak_all()
        return turn

    async def answer(self, text: str, who: Principal, *, lane: str = "speaker:floor") -> str:
        """Answer as a person does; return the name of the reply, or the turn's outcome when it was taken for an answer."""
        intent = shipped_phrasebook().understand(text, "en")
        assert intent is not None, text
        admission = await self.admission(text, who, lane)
        meant = await self.questions.meant_by(intent, admission)
        if isinstance(meant, Intent):
            await self.turns.close_admission(admission, Outcome.DONE)
            return meant.name
        return await self.answered(meant, admission, yes=intent.name == "confirm")

    async def answered(self, question: Confirmation, admission: Admission, *, yes: bool) -> str:
        """Give an answer to a question and go on."""
        turn = await self.turns.answer(question.id, yes, admission)
        outcome = await self.run(turn)
        if isinstance(self.bench.clock, ManualClock):
            await self.speak_all()
        return outcome.kind

    async def speak_all(self) -> None:
        """Be the loudspeaker."""
        bench = self.bench

        def work(tx: Any) -> None:
            while (delivery := deliveries.begin_next(tx, bench.clock)) is not None:
                deliveries.finish(tx, bench.clock, delivery.id, first_audio_mono_ns=bench.clock.monotonic_ns())
                bench.clock.advance(0.001)

        await bench.database.transaction(work)
        bench.clock.advance(0.1)

    # looking --------------------------------------------------------------------------------------------------------
    async def said(self) -> list[str]:
        """Everything queued for the loudspeaker, in order."""
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]

    async def code(self) -> str:
        """The code of the open question."""
        row = await self.bench.one("SELECT code FROM confirmation WHERE status = 'pending'")
        return str(row["code"])

    async def decisions(self) -> list[tuple[str, str, str]]:
        """Tool, decision and rule of every row, in order."""
        rows = await self.bench.rows("SELECT tool, decision, rule FROM approval ORDER BY seq")
        return [(row["tool"], row["decision"], row["rule"]) for row in rows]

    async def steps(self, turn: Turn) -> Mapping[str, Action]:
        """The turn's steps by id."""
        found = await self.bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
        return {action.step_id: action for action in found}


def write_step(value: Any = 80, *, id: str = "write", key: str = FAN, when: str = "") -> Step:
    """A step that writes, as a plan of any source may have it."""
    return Step(id, "write_tag", {"key": key, "value": value, "what": "setting it"}, when)


def plan_of(*steps: Step, source: str = "phrase:test") -> Plan:
    """A plan of steps."""
    return Plan("test", source, steps)


@asynccontextmanager
async def open_gate(
    folder: Path, settings: ApprovalSettings | None = None, *, bus: Callable[[Bench, Plant], FieldBus] | None = None,
    plant: Plant | None = None, more: Callable[[Bench], Sequence[AnyTool]] = lambda bench: (), clock: Any = None,
) -> AsyncIterator[Gate]:  # fmt: skip
    """Open a gate over a ledger of its own."""
    async with open_bench(folder, clock=clock) as bench:
        plant = plant or shipped_plant()
        field = TableBus(plant, bench.clock) if bus is None else bus(bench, plant)
        gate = Gate(bench, field, plant, settings or rules(), folder, more(bench))
        bench.database.own(bench.epoch)
        gate.build()
        yield gate


def other(plan: Plan, **changes: Any) -> Plan:
    """A plan with changes."""
    return replace(plan, **changes)
