"""A ledger whose file is taken away under it, and a writer that fails: nothing is acknowledged, and the ledger has ended."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

from appliance.contracts.errors import FloorhandError, Unavailable
from appliance.contracts.store import Transaction
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.ledger_standing import LedgerStanding
from appliance.store.database import Database
from appliance.store.faults import StorageFault
from appliance.store.housekeeping import Housekeeping
from appliance.store.whereabouts import Whereabouts
from tests.support.ledger import open_bench
from tests.support.waiting import until


def take_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def take_file(path: Path) -> None:
    path.unlink()


def take_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def replace_file(path: Path) -> None:
    shutil.copyfile(path, path.with_name("older"))
    path.with_name("older").rename(path)


TAKEN = [take_folder, take_file, take_log, replace_file]


@pytest.mark.req("R1")
@pytest.mark.field("FC-D04")
@pytest.mark.parametrize("take", TAKEN)
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path: Path, take: object) -> None:
    assert callable(take)
    database = await Database.open(tmp_path / "data/ledger.db", SystemClock())
    ended: list[FloorhandError] = []
    database.on_fatal = ended.append
    await database.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)
    take(database.path)
    answers = await asyncio.gather(
        *(database.transaction(lambda tx: tx.execute("INSERT INTO note VALUES ('x')") and None) for _ in range(5)),
        return_exceptions=True,
    )
    assert all(isinstance(answer, Unavailable) and "while it was in use" in answer.message for answer in answers), answers
    assert len(ended) == 1 and database.fault is StorageFault.ENDED
    with pytest.raises(Unavailable, match="while it was in use"):
        await database.transaction(lambda tx: None)
    await database.close()


@pytest.mark.req("R8")
async def test_housekeeping_alone_finds_out_and_it_is_told_past_the_ledger(tmp_path: Path) -> None:
    async with open_bench(tmp_path / "data") as bench:
        degraded = Degraded()
        standing = LedgerStanding(bench.database, bench.clock, degraded, "board=1111")
        words = Words()
        standing.speak_through(words)  # type: ignore[arg-type]
        running = asyncio.create_task(Housekeeping(bench.database, bench.clock, every_s=0.0).run())
        take_folder(bench.database.path)
        await until(lambda: bench.database.fatal is not None, "it is noticed")
        assert words.told[-1] == "ledger_lost" and "removed" in degraded.reasons["ledger"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Words:
    """Last words, written down."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, trouble: object) -> None:
        self.told.append(getattr(trouble, "reply", ""))


async def test_its_own_use_of_the_files_is_no_loss(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "ledger.db", SystemClock())
    await database.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)
    place = Whereabouts(database.path)
    for how in ("TRUNCATE", "RESTART", "PASSIVE"):
        await database.tend(lambda db, how=how: db.execute(f"PRAGMA wal_checkpoint({how})").fetchall())
        await database.transaction(lambda tx: tx.execute("INSERT INTO note VALUES ('x')") and None)
        sqlite3.connect(f"{database.path.as_uri()}?mode=ro", uri=True).close()
        assert await database.look_at("note", 1.0)
        assert place.lost() == ""
    await database.close()


@pytest.mark.req("R1")
async def test_a_writer_that_fails_answers_everybody_and_ends_the_ledger(tmp_path: Path) -> None:
    """What must not happen: the connection is gone under the thread in the middle of a group."""
    database = await Database.open(tmp_path / "ledger.db", SystemClock())
    ended: list[FloorhandError] = []
    database.on_fatal = ended.append

    def break_it(tx: Transaction) -> None:
        tx.close()

    async with asyncio.timeout(10):
        answers = await asyncio.gather(
            *(database.transaction(work) for work in (break_it, lambda _: None, lambda _: None)), return_exceptions=True
        )
        assert all(isinstance(answer, Unavailable) for answer in answers), answers
        with pytest.raises(Unavailable, match="writer has failed"):
            await database.transaction(lambda tx: None)
        assert len(ended) == 1 and database.waiting == 0 and database.fault is StorageFault.ENDED
        await database.close()


async def test_what_a_tending_work_raises_reaches_its_caller_and_nobody_else(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "ledger.db", SystemClock())
    with pytest.raises(ZeroDivisionError):
        await database.tend(lambda _: 1 // 0)
    await database.transaction(lambda tx: None)
    assert database.fatal is None
    await database.close()
