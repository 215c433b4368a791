"""Write budgets: a busy file is waited for, the write-ahead log stays bounded, and whoever is in the way is named."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Transaction
from appliance.foundation.system_clock import SystemClock
from appliance.store import write_ahead_log, writer
from appliance.store.database import Database
from appliance.store.faults import StorageFault
from tests.support.foreign import holding
from tests.support.waiting import until


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "ledger.db", SystemClock())
    await opened.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)
    yield opened
    await opened.close()


def put(text: str, times: int = 1) -> Callable[[Transaction], None]:
    def work(tx: Transaction) -> None:
        tx.executemany("INSERT INTO note VALUES (?)", [(text,)] * times)

    return work


async def count(database: Database) -> int:
    return int((await database.fetch("SELECT count(*) AS n FROM note"))[0]["n"])


def log_bytes(database: Database) -> int:
    return database.path.with_name(f"{database.path.name}-wal").stat().st_size


@pytest.mark.req("R9")
@pytest.mark.field("FC-R05", "FC-R06")
async def test_everything_waits_for_a_foreign_writer_and_nobody_hears_of_a_lock(database: Database) -> None:
    told: list[str] = []
    database.on_trouble = told.append
    with holding(database.path, "BEGIN IMMEDIATE") as let_go:
        tasks = [asyncio.create_task(database.transaction(put(f"{n}"))) for n in range(100)]
        await until(lambda: database.waiting == 100, "all handed in")
        assert await count(database) == 0  # reading goes on meanwhile
        for _ in range(3):
            # Another connection in this very process comes and goes, as a look at the file does: the locks must stay.
            sqlite3.connect(f"{database.path.as_uri()}?mode=ro", uri=True).close()
        assert not any(task.done() for task in tasks)
        let_go()
        await asyncio.gather(*tasks)
    assert await count(database) == 100
    assert told == []


@pytest.mark.req("R9")
async def test_only_after_its_patience_a_write_is_given_back_and_the_next_one_gets_through(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert writer.FOREGROUND_PATIENCE_S == 20.0
    monkeypatch.setattr(writer, "FOREGROUND_PATIENCE_S", 0.3)
    with holding(database.path, "BEGIN IMMEDIATE") as let_go:
        tasks = [asyncio.create_task(database.transaction(put("x"))) for _ in range(3)]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, Unavailable) for answer in answers)
        assert all("being written by another program" in str(answer) and "locked" not in str(answer) for answer in answers)
        assert all("python" in str(answer) and "(pid " in str(answer) for answer in answers)  # whom to ask is named
        assert database.fault is StorageFault.HELD
        let_go()
        await database.transaction(put("y"))
    assert await count(database) == 1
    assert database.fault is None


@pytest.mark.req("R9")
async def test_the_log_is_folded_in_by_itself_and_cut_after_a_burst(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead_log, "BOUND_BYTES", 1024 * 1024)
    monkeypatch.setattr(write_ahead_log, "_TRY_EVERY_NS", 0)
    longest = 0
    for _ in range(40):
        await database.transaction(put("x" * 1000, 1000))
        longest = max(longest, log_bytes(database))
    assert longest < 4 * 1024 * 1024
    assert log_bytes(database) <= 1024 * 1024
    assert await count(database) == 40_000


@pytest.mark.req("R9")
async def test_a_foreign_reader_cannot_grow_the_log_silently(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead_log, "BOUND_BYTES", 256 * 1024)
    monkeypatch.setattr(write_ahead_log, "TOO_LONG_BYTES", 512 * 1024)
    monkeypatch.setattr(write_ahead_log, "CHECKPOINT_PATIENCE_S", 0.01)
    monkeypatch.setattr(write_ahead_log, "_TRY_EVERY_NS", 0)
    told: list[str] = []
    database.on_trouble = told.append
    with holding(database.path, "BEGIN") as let_go:
        for _ in range(4):
            await database.transaction(put("x" * 1000, 500))
        assert database.fault is StorageFault.LOG_TOO_LONG
        assert len(told) == 1
        assert "python" in told[0] and "(pid " in told[0], told
        let_go()
    await database.transaction(put("y"))
    assert log_bytes(database) <= 256 * 1024
    assert told[1:] == [""]
    assert await count(database) == 2001


@pytest.mark.req("R9")
async def test_closing_does_not_wait_for_ever_for_a_foreign_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_CLOSING_PATIENCE_S", 0.2)
    database = await Database.open(tmp_path / "ledger.db", SystemClock())
    with holding(database.path, "BEGIN IMMEDIATE"):
        task = asyncio.create_task(database.transaction(lambda tx: None))
        await until(lambda: database.waiting == 1, "handed in")
        async with asyncio.timeout(20):
            await database.close()
        with pytest.raises(Unavailable):
            await task
