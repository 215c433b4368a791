"""A real ledger in a folder of its own, with a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.contracts.admission import PRIORITY_UTTERANCE, Admission, Door, Request, RequestKind
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Plan, Step
from appliance.contracts.turn import Turn
from appliance.foundation.canonical import digest
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import admissions, operations, owners
from appliance.store.database import Database
from tests.support.clock import CountingIds, ManualClock

ORIGIN = "line-3"


@dataclass
class Bench:
    """An open database with everything its users are handed. ``epoch`` is a real row of ``owner``."""

    database: Database
    clock: ManualClock
    ids: CountingIds
    epoch: int

    async def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """Read committed rows as dicts."""
        return [dict(row) for row in await self.database.fetch(sql, parameters)]

    async def one(self, sql: str, *parameters: Any) -> dict[str, Any]:
        """Read exactly one row."""
        (row,) = await self.rows(sql, *parameters)
        return row

    async def kinds(self, lane: OperationLane) -> list[str]:
        """Kinds of a lane's operations in order; the chain is verified on the way."""
        await self.database.transaction(lambda tx: operations.verify_chain(tx, lane))
        return [row["kind"] for row in await self.rows("SELECT kind FROM operation WHERE lane = ? ORDER BY seq", lane)]


@asynccontextmanager
async def open_bench(
    folder: Path, *, clock: ManualClock | None = None, ids: CountingIds | None = None, origin: str = ORIGIN
) -> AsyncIterator[Bench]:
    """Open ``folder/ledger.db`` with its origin set and ownership taken; close it afterwards.

    Entering again with the same folder, clock and ids is a restart without a clean shutdown.
    """
    clock, ids = clock or ManualClock(), ids or CountingIds()
    database = await Database.open(folder / "ledger.db", clock)
    try:
        await database.transaction(lambda tx: operations.set_origin(tx, clock, origin))
        ownership = await database.transaction(lambda tx: owners.take_ownership(tx, clock, instance="bench", pid=None))
        yield Bench(database, clock, ids, ownership.epoch)
    finally:
        await database.close()


def request(key: str, **changes: Any) -> Request:
    """A spoken request with the duplicate key ``key``; fields of :class:`Request` may be changed."""
    spoken = Request(
        door=Door.VOICE,
        kind=RequestKind.UTTERANCE,
        lane="speaker:floor",
        dedupe_key=key,
        payload={"text": "what is the temperature of motor three", "language": "en", "by": "voice"},
        priority=PRIORITY_UTTERANCE,
    )
    return replace(spoken, **changes)


async def given_admission(bench: Bench, key: str, **changes: Any) -> Admission:
    """Store a queued admission."""
    asked = request(key, **changes)
    return await bench.database.transaction(
        lambda tx: admissions.insert(tx, bench.clock, bench.ids, asked, digest(asked.payload))
    )


async def given_turn(bench: Bench, key: str, steps: Sequence[Step] = (), *, lane: str = "speaker:floor") -> Turn:
    """Store a turn that executes ``steps``, with its admission started by the bench's epoch."""
    turns = Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())
    admission = await given_admission(bench, key, lane=lane)
    turn = await turns.open(admission, language="en", intent="read_tag", context={"slots": {}}, offline=False)
    return await turns.plan(turn, Plan("read_tag", "phrase:read_tag", tuple(steps), estimate_s=1.0))
