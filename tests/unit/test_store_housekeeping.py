"""Housekeeping: it runs, checks every table in turn, sees when writing works again, and ends with the ledger."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from appliance.foundation.system_clock import SystemClock
from appliance.store import writer
from appliance.store.database import Database
from appliance.store.faults import StorageFault
from appliance.store.housekeeping import EVERY_S, Housekeeping
from tests.support.foreign import holding
from tests.support.ledger import open_bench
from tests.support.old_ledger import root_of, spoil
from tests.support.waiting import until


@pytest.mark.req("R8")
async def test_it_goes_round_and_looks_at_every_table_without_writing_to_a_quiet_ledger(tmp_path: Path) -> None:
    assert EVERY_S >= 60
    async with open_bench(tmp_path) as bench:
        house = Housekeeping(bench.database, bench.clock, every_s=0.0)
        tables = len(await bench.database.tables())
        changed: list[int] = []
        bench.database.on_commit(lambda: changed.append(1))
        running = asyncio.create_task(house.run())
        await house.started.wait()
        await until(lambda: house.rounds > tables, "every table")
        assert house.facts()["not_checked_in_time"] == []
        assert changed == []
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_it_finds_out_that_writing_works_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FOREGROUND_PATIENCE_S", 0.1)
    async with open_bench(tmp_path) as bench:
        bench.database._writer._clock = SystemClock()
        house = Housekeeping(bench.database, bench.clock, every_s=0.02)
        running = asyncio.create_task(house.run())
        with holding(bench.database.path, "BEGIN IMMEDIATE") as let_go:
            await until(lambda: bench.database.fault is StorageFault.HELD, "trouble")
            let_go()
        await until(lambda: bench.database.fault is None, "trouble over")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_it_finds_damage_nobody_has_touched(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        path = bench.database.path
    with closing(sqlite3.connect(path)) as db:
        root = root_of(path, "work_order")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(path, [root], 1)
    database = await Database.open(path, SystemClock())
    ended: list[Exception] = []
    database.on_fatal = ended.append
    running = asyncio.create_task(Housekeeping(database, SystemClock(), every_s=0.0).run())
    await until(lambda: ended, "the damage is found")
    assert database.fault is StorageFault.ENDED
    assert path.with_name("ledger.db.suspect").exists()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await database.close()
