"""A small core on a real ledger that dies by SIGKILL at a chosen commit; one fork a run, so that hundreds fit in a test.

Reads lines ``{"folder": …, "kill": [commit, "before" | "after"] | null}`` from standard input and answers each with
``{"status": …, "commits": …}``: the exit status as ``os.waitpid`` gives it, and the commits of a run that ended by itself.

The run leads one alarm through its turn: write, ask, (answer), write, say. The world outside is ``world.txt``: one line for each
effect that happened. ``acknowledged.txt`` holds the duplicate keys whose sender was told that they are safe.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import sqlite3
import sys
import traceback
from pathlib import Path
from typing import Any

from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.admission.recovery import take_over
from appliance.contracts.admission import PRIORITY_ALARM, Admission, Door, Outcome, Request, RequestKind
from appliance.contracts.effect import EffectStatus
from appliance.contracts.plan import Action, ActionState, Plan, Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.foundation.id_source import SystemIds
from appliance.foundation.system_clock import SystemClock
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import actions, confirmations, effects, operations, owners
from appliance.store.database import Database

ALARM = "alarm:gateway:motor_3_hot:17:raised"
PLAN = Plan(
    "alarm_raised",
    "playbook:over_temperature@1",
    (
        Step("cool", "write_tag", {"tag": "motor_3.fan", "value": 100}),
        Step("confirm", "ask", {"question": "shall I?"}),
        Step("stop", "write_tag", {"tag": "motor_3.run", "value": False}, when="confirm"),
        Step("tell", "say", {"text": "done"}),
    ),
)


class Deadly(sqlite3.Connection):
    """Counts commits, migrations included, and dies just before or just after one of them."""

    commits = 0
    kill: tuple[int, str] | None = None

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement; a COMMIT may be the last."""
        if sql != "COMMIT":
            return super().execute(sql, *arguments)
        self._die("before", Deadly.commits + 1)
        cursor = super().execute(sql)
        Deadly.commits += 1
        self._die("after", Deadly.commits)
        return cursor

    def executescript(self, script: str) -> sqlite3.Cursor:
        """Run a migration, which commits once."""
        self._die("before", Deadly.commits + 1)
        cursor = super().executescript(script)
        Deadly.commits += 1
        self._die("after", Deadly.commits)
        return cursor

    @staticmethod
    def _die(when: str, commit: int) -> None:
        if Deadly.kill == (commit, when):
            os.kill(os.getpid(), signal.SIGKILL)


class SmallCore:
    """Leads turns one after the other, as the conductor does, with the world as a file."""

    def __init__(self, folder: Path, database: Database, epoch: int) -> None:
        clock = SystemClock()
        ids = SystemIds(clock)
        self.folder, self.database, self.clock, self.ids, self.epoch = folder, database, clock, ids, epoch
        self.gate = Gate(database, clock, ids)
        self.queue = AdmissionQueue(database, clock)
        self.turns = Turns(database, clock, ids, epoch, SessionSettings())

    async def run(self) -> None:
        """Offer the alarm, as a broker does again after every cut, and lead until nothing is left to do."""
        await self.admit(RequestKind.ALARM, "asset:motor_3", ALARM, {"alarm_id": "motor_3_hot"}, PRIORITY_ALARM)
        while True:
            admission = await self.queue.look(set())
            if admission is not None:
                await self.lead(admission)
                continue
            pending = await self.database.transaction(confirmations.pending)
            if not pending:
                return
            question = pending[0].id
            await self.admit(RequestKind.UTTERANCE, "speaker", f"answer:{question}", {"question": question}, 6)

    async def admit(self, kind: RequestKind, lane: str, key: str, payload: dict[str, Any], priority: int) -> None:
        """Admit and only then acknowledge."""
        await self.gate.admit(Request(Door.MQTT, kind, lane, key, payload, priority))
        note(self.folder / "acknowledged.txt", key)

    async def lead(self, admission: Admission) -> None:
        """Open, answer or resume, then run."""
        match admission.kind:
            case RequestKind.ALARM:
                turn = await self.turns.open(admission, language="en", intent="alarm_raised", context={}, offline=True)
            case RequestKind.UTTERANCE:
                turn = await self.turns.answer(admission.payload["question"], True, admission)
            case RequestKind.RESUME:
                turn = await self.turns.resume(admission)
        if turn.state is TurnState.PLANNING:
            turn = await self.turns.plan(turn, PLAN)
        await self.execute(turn, admission)

    async def execute(self, turn: Turn, admission: Admission) -> None:
        """Go on with the first action that has not ended."""
        for action in await self.database.transaction(lambda tx: actions.of_turn(tx, turn.id)):
            if action.state in actions.FINAL:
                continue
            match action.tool:
                case "write_tag":
                    await self.write(action)
                case "ask":
                    if action.state is not ActionState.WAITING:
                        await self.database.transaction(functools.partial(self.ask, action))
                    await self.turns.end(turn.id, TurnEvent.ASKED, admission.id, Outcome.DONE)
                    return
                case _:
                    await self.database.transaction(functools.partial(self.tell, action))
        await self.turns.end(turn.id, TurnEvent.FINISHED, admission.id, Outcome.DONE)

    def tell(self, action: Action, tx: Transaction) -> None:
        """Do what is only rows."""
        actions.change(tx, action.id, ActionState.DONE)

    def ask(self, action: Action, tx: Transaction) -> None:
        """Put the question."""
        confirmations.ask(
            tx, self.clock, self.ids, turn_id=action.turn_id, action_id=action.id, question="shall I?", delivery_id=None
        )
        actions.change(tx, action.id, ActionState.WAITING)

    async def write(self, action: Action) -> None:
        """Intent, world, outcome; an unknown one is only looked at."""
        world = self.folder / "world.txt"
        if action.state is ActionState.UNKNOWN:
            happened = world.exists() and action.id in world.read_text().split()
            await self.database.transaction(lambda tx: self.conclude(tx, action, happened, "verify"))
            return
        await self.database.transaction(lambda tx: self.intend(tx, action))
        note(world, action.id)
        await self.database.transaction(lambda tx: self.conclude(tx, action, True, "reply"))

    def intend(self, tx: Transaction, action: Action) -> None:
        """Record what is about to be done."""
        effects.intend(
            tx,
            self.clock,
            action_id=action.id,
            turn_id=action.turn_id,
            tool=action.tool,
            arguments=action.arguments,
            epoch=self.epoch,
        )
        actions.change(tx, action.id, ActionState.STARTED)

    def conclude(self, tx: Transaction, action: Action, happened: bool, by: str) -> None:
        """Record what became of it."""
        status = EffectStatus.APPLIED if happened else EffectStatus.NONE
        effects.conclude(tx, self.clock, action.id, status, settled_by=by, result={})
        actions.change(tx, action.id, ActionState.DONE if happened else ActionState.FAILED)


def note(path: Path, line: str) -> None:
    """Append a line and make it last."""
    with path.open("a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


async def live(folder: Path) -> None:
    """One life of the process: take over, lead, leave a receipt."""
    clock = SystemClock()
    database = await Database.open(folder / "ledger.db", clock)
    await database.transaction(lambda tx: operations.set_origin(tx, clock, "line-3"))
    recovered = await take_over(database, clock, SystemIds(clock), "core", os.getpid())
    epoch = recovered.ownership.epoch
    await SmallCore(folder, database, epoch).run()
    await database.transaction(lambda tx: owners.release(tx, clock, epoch))
    await database.close()
    (folder / "commits").write_text(str(Deadly.commits))


def main() -> None:
    """Serve runs until the input ends."""
    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **k: connect(*a, **({"factory": Deadly} | k))
    for line in sys.stdin:
        order = json.loads(line)
        folder = Path(order["folder"])
        child = os.fork()
        if child == 0:
            Deadly.kill = None if order["kill"] is None else tuple(order["kill"])
            status = 1
            try:
                asyncio.run(live(folder))
                status = 0
            finally:
                if status:
                    traceback.print_exc()
                os._exit(status)  # whatever thread a broken life left behind
        _, status = os.waitpid(child, 0)
        commits = int((folder / "commits").read_text()) if status == 0 else None
        sys.stdout.write(json.dumps({"status": status, "commits": commits}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
