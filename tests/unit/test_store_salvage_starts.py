"""Damage that is found while the ledger is in use, and what the next start makes of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from appliance.contracts.errors import Corrupt, Refused
from appliance.contracts.plan import Step
from appliance.foundation.system_clock import SystemClock
from appliance.store import damage, effects, salvage, salvages
from appliance.store.columns import to_json
from appliance.store.database import Database
from appliance.store.faults import StorageFault
from tests.support.ledger import ORIGIN, given_turn, open_bench
from tests.support.old_ledger import root_of, rows_of, spoil, write_history

CLOCK = SystemClock()


@pytest.fixture
async def ledger(tmp_path: Path) -> Path:
    return await write_history(tmp_path, 30)


@pytest.mark.parametrize("by", ["write", "read", "housekeeping"])
async def test_damage_found_while_running_ends_the_ledger_and_the_next_start_salvages(ledger: Path, by: str) -> None:
    memories = rows_of(ledger)["memory"]
    spoil(ledger, [root_of(ledger, "memory")], 8)
    database = await Database.open(ledger, CLOCK)
    ended: list[Exception] = []
    database.on_fatal = ended.append
    sql = "SELECT sum(length(text)), (SELECT sum(length(payload)) FROM operation) FROM memory"
    if by == "housekeeping":
        for table in await database.tables():
            with suppress(Corrupt):
                await database.look_at(table, 5.0)
    else:
        with pytest.raises(Corrupt):
            if by == "read":
                await database.fetch(sql)
            else:
                await database.transaction(lambda tx: tx.execute(sql).fetchone())
    assert [type(error) for error in ended] == [Corrupt]
    assert database.fault is StorageFault.ENDED
    with pytest.raises(Corrupt):
        await database.transaction(lambda tx: tx.execute("UPDATE appliance SET machine = 'x'"))
    await database.close()
    database = await Database.open(ledger, CLOCK, prepare=lambda path: salvage.mend(path, CLOCK, ORIGIN))
    account = to_json((await database.fetch("SELECT account FROM salvage"))[0]["account"])
    await database.transaction(lambda tx: tx.execute("UPDATE appliance SET machine = 'x'") and None)
    await database.close()
    assert (account["tables"], rows_of(ledger)["memory"]) == ({}, memories)  # its leaves were whole


async def test_damage_behind_an_unclean_end_is_found_at_the_start(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as db:
        db.execute("UPDATE owner SET ended_utc = NULL")
        db.commit()
    assert damage.examine(ledger, CLOCK) == ""
    spoil(ledger, [root_of(ledger, "turn")], 6)
    assert damage.examine(ledger, CLOCK) != ""


async def test_what_was_under_way_is_stopped_when_rows_of_work_are_missing(tmp_path: Path) -> None:
    """A step whose effect was on a lost page would be done a second time."""
    async with open_bench(tmp_path) as bench:
        steps = (Step(id="write", tool="write_tag", arguments={"tag": "motor_3.fan_speed", "value": 80}),)
        turn = await given_turn(bench, "under-way", steps)
        (action,) = await bench.rows("SELECT id FROM action")
        await bench.database.transaction(
            lambda tx: effects.intend(
                tx, bench.clock, action_id=action["id"], turn_id=turn.id, tool="write_tag", arguments={}, epoch=bench.epoch
            )
        )
        path = bench.database.path
    spoil(path, [root_of(path, "effect")], 7)
    damage.suspect(path, "a test said so")
    salvage.mend(path, CLOCK, ORIGIN)
    with closing(sqlite3.connect(path)) as db:
        account = to_json(db.execute("SELECT account FROM salvage").fetchone()[0])
    assert account["tables"]["effect"] == {"before": 1, "after": 0}
    async with open_bench(tmp_path) as bench:
        stopped = await bench.database.transaction(lambda tx: salvages.stop_what_was_under_way(tx, bench.clock))
        assert [(each.id, each.state, each.failure) for each in stopped] == [(turn.id, "failed", salvages.STOPPED)]
        assert await bench.database.transaction(lambda tx: salvages.take_untold(tx, bench.clock))
        assert not await bench.database.transaction(lambda tx: salvages.take_untold(tx, bench.clock))
        assert await bench.database.transaction(lambda tx: salvages.stop_what_was_under_way(tx, bench.clock)) == []
        named = salvages.named(await bench.database.fetch(salvages.OPEN))
        assert "floorhand ledger settle 1" in named and "effect" in named
        await bench.database.transaction(lambda tx: salvages.settle(tx, bench.clock, 1, by="anna", note="looked at the machine"))
        assert salvages.named(await bench.database.fetch(salvages.OPEN)) == ""
        with pytest.raises(Refused, match="settled by anna"):
            await bench.database.transaction(lambda tx: salvages.settle(tx, bench.clock, 1, by="bert", note="again"))


async def test_of_damaged_files_the_newest_three_are_kept(ledger: Path) -> None:
    for number in range(1, 6):
        ledger.with_name(f"{ledger.name}-wal").touch()
        damage.suspect(ledger, f"a test said so, {number}")
        salvage.mend(ledger, CLOCK, ORIGIN)
    assert sorted(path.name for path in ledger.parent.glob("*.damaged-*") if not path.name.endswith(("-wal", "-shm"))) == [
        f"{ledger.name}.damaged-{number}" for number in (3, 4, 5)
    ]
    assert not list(ledger.parent.glob("*.damaged-[12]-*"))
    with closing(sqlite3.connect(ledger)) as db:
        assert db.execute("SELECT count(*) FROM salvage").fetchone()[0] == 5  # what is known of the others stays
