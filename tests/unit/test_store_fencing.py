"""Fencing: who was overtaken writes nothing more, whatever it wants to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.admission.gate import Gate
from appliance.alarms.floods import Floods
from appliance.contracts.errors import FloorhandError, OwnedElsewhere
from appliance.contracts.store import Transaction
from appliance.store import audit, deliveries, memories, owners
from appliance.store.database import Database
from tests.support.alarms import event, rooms_of
from tests.support.clock import CountingIds
from tests.support.hall import QUICK
from tests.support.ledger import Bench, open_bench, request


async def overtaken(bench: Bench) -> Database:
    """A second core on the same file, as if somebody had removed the lock's file under the first."""
    bench.database.own(bench.epoch)
    path = bench.database.path
    path.with_name(f"{path.name}.lock").unlink()
    other = await Database.open(path, bench.clock)
    epoch = (await other.transaction(lambda tx: owners.take_ownership(tx, bench.clock, "newer"))).epoch
    other.own(epoch)
    return other


def _say(bench: Bench) -> Callable[[Transaction], object]:
    return lambda tx: deliveries.queue(tx, bench.clock, bench.ids, turn_id=None, language="en", text="Here I am.", priority=5)


async def content(database: Database) -> dict[str, int]:
    """Rows of every table."""
    return {name: (await database.fetch(f"SELECT count(*) FROM {name}"))[0][0] for name in await database.tables()}


@pytest.mark.req("R2")
async def test_the_older_of_two_cores_can_write_nothing_at_all(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await bench.database.transaction(_say(bench))
        other = await overtaken(bench)
        before = await content(other)
        told: list[FloorhandError] = []
        bench.database.on_fatal = told.append
        gate = Gate(bench.database, bench.clock, CountingIds())
        floods = Floods(bench.database, bench.clock, bench.ids, QUICK, wake=lambda: None)
        works: list[Callable[[Transaction], object]] = [
            _say(bench),
            lambda tx: deliveries.begin_next(tx, bench.clock),
            lambda tx: audit.note(tx, bench.clock, "noted", "x", {}),
            lambda tx: memories.drop_before(tx, bench.clock.utc(), 10),
            lambda tx: owners.release(tx, bench.clock, bench.epoch),
            lambda tx: tx.execute("SELECT 1").fetchone(),
            floods._look,
        ]
        for work in works:
            with pytest.raises(OwnedElsewhere, match=f"epoch {bench.epoch} has ended"):
                await bench.database.transaction(work)
        with pytest.raises(OwnedElsewhere):
            await gate.admit(request("late"))
        with pytest.raises(OwnedElsewhere):
            await rooms_of(bench).door.admit(event(bench))
        assert await content(other) == before
        assert [type(error) for error in told] == [OwnedElsewhere]
        assert bench.database.fatal is told[0]
        await other.transaction(_say(bench))
        await other.close()


@pytest.mark.req("R2")
async def test_whoever_owns_the_ledger_writes_on(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        bench.database.own(bench.epoch)
        await bench.database.transaction(_say(bench))
        assert bench.database.fatal is None
