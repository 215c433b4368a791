"""The work under way when the power fails: inputs admitted through the real gate, turns led, effects and audit entries recorded.

It is one life of a process on a ledger: open, take over, work, close. Whoever is told something is told by ``tell``, and
what was told must be found after any power cut.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.admission.recovery import take_over
from appliance.contracts.admission import PRIORITY_ALARM, PRIORITY_UTTERANCE, Admission, Door, Outcome, Request, RequestKind
from appliance.contracts.effect import EffectStatus
from appliance.contracts.errors import StorageFullError
from appliance.contracts.plan import ActionState, Plan, Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import TurnEvent, TurnState
from appliance.foundation.id_source import SystemIds
from appliance.foundation.system_clock import SystemClock
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import actions, audit, deliveries, effects, identities, operations, salvage, salvages, witness
from appliance.store.database import Database

DATABASE = "ledger.sqlite"
ORIGIN, MACHINE = "line-3", "board=1f0c2d4e5a6b7c8d"
STEPS = (Step("write", "write_tag", {"tag": "motor_3.fan", "value": 80}), Step("tell", "say", {}))
PLAN = Plan("set_tag", "phrase:set_tag", STEPS)
RESERVE_BYTES = 64 * 1024  # enough to be made, spent and made again; the appliance's own would only be slow to copy
_NO_LIMIT = 1_000_000
_LONGEST_TEXT = 6_000  # letters: an overflow page and more

Tell = Callable[[str, Any], None]
"""Told to somebody outside: ``("key", duplicate key)`` of an input, or ``("heads", {lane: [seq, hash]})`` of the log."""


class BootClock(SystemClock):
    """The clock of a machine that has just been switched on: what was stamped before the power failed is of another boot."""

    def __init__(self, boot: str) -> None:
        self._boot, self._began_ns = boot, super().monotonic_ns()

    @property
    def boot_id(self) -> str:
        """The name of this boot."""
        return self._boot

    def monotonic_ns(self) -> int:
        """Nanoseconds since it was switched on."""
        return super().monotonic_ns() - self._began_ns


class Life:
    """One process' work."""

    def __init__(self, database: Database, clock: BootClock, epoch: int, dice: Random, name: str, tell: Tell) -> None:
        ids = SystemIds(clock)
        self._database, self._clock, self._ids, self._epoch = database, clock, ids, epoch
        self._dice, self._name, self._tell = dice, name, tell
        self._gate = Gate(
            database, clock, ids, _NO_LIMIT, lane_limit=_NO_LIMIT, session_limit=_NO_LIMIT, refuses_talk=database.refuses_talk
        )
        self._queue = AdmissionQueue(database, clock)
        self._turns = Turns(database, clock, ids, epoch, SessionSettings())
        self._offered = 0

    async def step(self) -> None:
        """Do one thing, or some at once. A full disk refuses them, alarms last of all, and the next step tries again."""
        dice = self._dice
        match dice.choice(("inputs", "inputs", "turn", "turns", "note")):
            case "inputs":
                works = [self._offer() for _ in range(dice.choice((1, 1, 2, 8)))]
            case "turn":
                works = [self._lead()]
            case "turns":
                works = [self._lead(), self._offer(), self._offer()]
            case "note":
                works = [self._database.transaction(lambda tx: audit.note(tx, self._clock, "looked", self._name, {}))]
        for outcome in await asyncio.gather(*works, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, StorageFullError):
                raise outcome
        await self.tell_heads()

    async def tell_heads(self) -> None:
        """Show the newest entry of each lane, as the coordinator would get it."""
        rows = await self._database.fetch("SELECT lane, seq, hash FROM operation_head")
        self._tell("heads", {row["lane"]: [row["seq"], row["hash"]] for row in rows})

    async def _offer(self) -> None:
        self._offered += 1
        key, is_alarm = f"{self._name}:{self._offered}", self._dice.random() < 0.5
        text = "x" * self._dice.choice((20, 300, self._dice.randrange(_LONGEST_TEXT)))
        request = Request(
            Door.MQTT if is_alarm else Door.CONSOLE,
            RequestKind.ALARM if is_alarm else RequestKind.UTTERANCE,
            f"lane:{self._dice.randrange(50)}",
            key,
            {"text": text},
            PRIORITY_ALARM if is_alarm else PRIORITY_UTTERANCE,
        )
        await self._gate.admit(request)
        self._tell("key", key)

    async def _lead(self) -> None:
        admission = await self._queue.look(set())
        if admission is None:
            await self._offer()
            return
        if admission.kind is RequestKind.RESUME:
            turn = await self._turns.resume(admission)
        else:
            turn = await self._turns.open(admission, language="en", intent="set_tag", context={}, offline=True)
        if turn.state is TurnState.PLANNING:
            turn = await self._turns.plan(turn, PLAN)
        if self._dice.random() < 0.2:
            return  # left as it is: the next life finds it started
        if turn.state is TurnState.EXECUTING:
            await self._execute(turn.id)
            await self._turns.end(turn.id, TurnEvent.FINISHED, admission.id, Outcome.DONE)
        else:
            await self._leave(admission)

    async def _leave(self, admission: Admission) -> None:
        await self._database.transaction(lambda tx: audit.note(tx, self._clock, "left", admission.id, {}))

    async def _execute(self, turn_id: str) -> None:
        for action in await self._database.transaction(lambda tx: actions.of_turn(tx, turn_id)):
            if action.state is not ActionState.PENDING:
                continue
            if action.tool == "say":
                await self._database.transaction(partial(self._say, turn_id, action.id))
                continue
            await self._database.transaction(partial(self._intend, turn_id, action.id))
            await self._database.transaction(partial(self._conclude, action.id))

    def _intend(self, turn_id: str, action_id: str, tx: Transaction) -> None:
        step = STEPS[0]
        effects.intend(
            tx, self._clock, action_id=action_id, turn_id=turn_id, tool=step.tool, arguments=step.arguments, epoch=self._epoch
        )
        actions.change(tx, action_id, ActionState.STARTED)

    def _conclude(self, action_id: str, tx: Transaction) -> None:
        effects.conclude(tx, self._clock, action_id, EffectStatus.APPLIED, settled_by="reply", result={"value": 80})
        actions.change(tx, action_id, ActionState.DONE)

    def _say(self, turn_id: str, action_id: str, tx: Transaction) -> None:
        deliveries.queue(tx, self._clock, self._ids, turn_id=turn_id, language="en", text="done", priority=6)
        actions.change(tx, action_id, ActionState.DONE)


async def open_ledger(folder: Path, boot: str) -> tuple[Database, BootClock, int]:
    """Open the ledger in ``folder`` as the product does when it is switched on, and take it over; return its epoch too.

    No two boots have one name. Raises as the product does.
    """
    clock = BootClock(boot)
    database = await Database.open(
        folder / DATABASE, clock, reserve_bytes=RESERVE_BYTES, prepare=lambda file: salvage.mend(file, clock, ORIGIN)
    )

    def look_whose(tx: Transaction) -> None:
        operations.set_origin(tx, clock, ORIGIN)
        salvages.stop_what_was_under_way(tx, clock)
        identities.compare(tx, clock, MACHINE, witness.read(database.path))

    await database.transaction(look_whose)
    recovered = await take_over(database, clock, SystemIds(clock), boot, os.getpid())
    database.own(recovered.ownership.epoch)
    witness.write(database.path, recovered.ownership.epoch)
    return database, clock, recovered.ownership.epoch


async def live(folder: Path, name: str, seed: int, steps: int, tell: Tell) -> None:
    """Open the ledger, work, and close it."""
    database, clock, epoch = await open_ledger(folder, name)
    life = Life(database, clock, epoch, Random(seed), name, tell)
    await life.tell_heads()
    for _ in range(steps):
        await life.step()
    await database.close()
