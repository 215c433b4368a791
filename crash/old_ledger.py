"""A ledger with a long history: a hundred thousand rows of alarms, turns, effects and words that ended long ago."""

from __future__ import annotations

import asyncio
from pathlib import Path

from appliance.contracts.admission import PRIORITY_CONSOLE, Door, Outcome, Request, RequestKind
from appliance.contracts.effect import EffectStatus
from appliance.contracts.plan import ActionState, Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import TurnEvent
from appliance.foundation.canonical import digest
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import actions, admissions, deliveries, effects, operations, owners
from appliance.store.database import Database
from crash.rooms import ORIGIN
from crash.virtual_time import CountedIds, VirtualClock

_STEPS = (
    Step("write", "write_tag", {"key": "motor_3.fan_speed", "value": 60, "what": "the fan speed of motor 3 to 60 percent"}),
    Step("tell", "say", {"text": "Done."}),
)
_AT_ONCE = 32  # turns side by side, so that they share commits


async def _write(ledger: Path, rows: int) -> int:
    clock, ids = VirtualClock(), CountedIds()
    database = await Database.open(ledger, clock)
    try:
        await database.transaction(lambda tx: operations.set_origin(tx, clock, ORIGIN))
        owned = await database.transaction(lambda tx: owners.take_ownership(tx, clock, instance="long ago"))
        turns = Turns(database, clock, ids, owned.epoch, SessionSettings())

        async def lead(number: int) -> None:
            request = Request(
                Door.CONSOLE, RequestKind.UTTERANCE, f"console:{number % _AT_ONCE}", f"old:{number}",
                {"text": "set it", "language": "en", "by": "old"}, PRIORITY_CONSOLE,
            )  # fmt: skip
            admission = await database.transaction(lambda tx: admissions.insert(tx, clock, ids, request, digest(request.payload)))
            turn = await turns.open(admission, language="en", intent="set_tag", context={"slots": {}}, offline=False)

            def work(tx: Transaction) -> None:
                actions.insert_plan(tx, ids, turn.id, _STEPS)
                write, tell = actions.of_turn(tx, turn.id)
                effects.intend(
                    tx, clock, action_id=write.id, turn_id=turn.id, tool=write.tool, arguments=write.arguments, epoch=owned.epoch
                )
                effects.conclude(tx, clock, write.id, EffectStatus.APPLIED, settled_by="reply", result={"ok": True})
                said = deliveries.queue(tx, clock, ids, turn_id=turn.id, language="en", text="Done.", priority=5)
                deliveries.begin(tx, said.id)
                deliveries.finish(tx, clock, said.id, first_audio_mono_ns=clock.monotonic_ns())
                for action in (write, tell):
                    actions.change(tx, action.id, ActionState.DONE, {"ok": True})

            await database.transaction(work)
            await turns.end(turn.id, TurnEvent.FINISHED, admission.id, Outcome.DONE)

        number = 0
        while (count := await _count(database)) < rows:
            await asyncio.gather(*(lead(number + each) for each in range(_AT_ONCE)))
            number += _AT_ONCE
        await database.transaction(lambda tx: owners.release(tx, clock, owned.epoch))
        return count
    finally:
        await database.close()


async def _count(database: Database) -> int:
    tables = ("admission", "turn", "action", "effect", "delivery", "operation")
    counted = await database.fetch(" UNION ALL ".join(f"SELECT max(rowid) AS n FROM {t}" for t in tables[:-1]))
    log = await database.fetch("SELECT sum(seq) AS n FROM operation_head")
    return sum(row["n"] or 0 for row in (*counted, *log))


def write_history(ledger: Path, rows: int) -> int:
    """Write at least so many rows to a new ledger; return how many it holds."""
    return asyncio.run(_write(ledger, rows))
