"""The ledger's file: group commit, cancellation, back-pressure, faults told apart, nothing left behind."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.contracts.errors import Corrupt, StorageFullError, Unavailable
from appliance.contracts.store import Transaction
from appliance.store import writer
from appliance.store.database import Database
from tests.support.clock import ManualClock


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "ledger.db", ManualClock())
    await opened.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT PRIMARY KEY) STRICT") and None)
    yield opened
    await opened.close()


def put(tx: Transaction, text: str) -> str:
    tx.execute("INSERT INTO note VALUES (?)", (text,))
    return text


def putting(text: str) -> Callable[[Transaction], str]:
    return lambda tx: put(tx, text)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def notes(database: Database) -> list[str]:
    return [row["text"] for row in await database.fetch("SELECT text FROM note ORDER BY rowid")]


class Held:
    """Keeps the writer inside one work until it is let go, so that what comes meanwhile waits together."""

    def __init__(self, database: Database) -> None:
        self._go, self._inside = threading.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(database.transaction(self._work))

    def _work(self, _: Transaction) -> None:
        self._loop.call_soon_threadsafe(self._inside.set)
        self._go.wait(10)

    async def __aenter__(self) -> Held:
        await self._inside.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._go.set()
        await self._task


async def handed_in(*tasks: asyncio.Task[object]) -> None:
    """Let fresh tasks run up to the point where they wait for the writer."""
    for _ in tasks:
        await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.mark.req("R1")
async def test_commits_are_durable_and_foreign_keys_hold(database: Database) -> None:
    def pragmas(tx: Transaction) -> tuple[object, ...]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return tuple(tx.execute(f"PRAGMA {name}").fetchone()[0] for name in names)

    assert await database.transaction(pragmas) == ("wal", 2, 1)


async def test_a_committed_row_is_seen_by_the_next_read(database: Database) -> None:
    for number in range(50):
        await database.transaction(putting(f"{number}"))
        assert (await notes(database))[-1] == f"{number}"


async def test_works_that_wait_together_share_a_commit(database: Database) -> None:
    statements: list[str] = []
    await database.transaction(lambda tx: tx.set_trace_callback(statements.append))
    async with Held(database):
        tasks = [asyncio.create_task(database.transaction(putting(f"{n}"))) for n in range(40)]
        await handed_in(*tasks)
        statements.clear()
    assert await asyncio.gather(*tasks) == [f"{n}" for n in range(40)]
    assert statements.count("COMMIT") == 2  # the one that was held, and one for all forty
    assert len(await notes(database)) == 40


async def test_a_work_that_raises_takes_no_neighbour_with_it(database: Database) -> None:
    def half(tx: Transaction) -> None:
        put(tx, "half")
        raise Unavailable("no")

    async with Held(database):
        works = [putting("before"), half, putting("before"), putting("after")]
        tasks = [asyncio.create_task(database.transaction(work)) for work in works]
        await handed_in(*tasks)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(a) for a in answers] == [str, Unavailable, sqlite3.IntegrityError, str]
    assert await notes(database) == ["before", "after"]


async def test_a_work_that_ends_the_transaction_is_caught_and_neighbours_survive(database: Database) -> None:
    async with Held(database):
        works = [putting("first"), lambda tx: tx.rollback(), putting("last")]
        tasks = [asyncio.create_task(database.transaction(work)) for work in works]
        await handed_in(*tasks)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(a) for a in answers] == [str, sqlite3.OperationalError, str]
    assert await notes(database) == ["first", "last"]


async def test_stop_iteration_reaches_its_caller(database: Database) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await database.transaction(lambda _: next(iter(())))


async def test_a_caller_cancelled_before_its_turn_leaves_nothing(database: Database) -> None:
    async with Held(database):
        cancelled = asyncio.create_task(database.transaction(putting("cancelled")))
        kept = asyncio.create_task(database.transaction(putting("kept")))
        await handed_in(cancelled, kept)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    assert await kept == "kept"
    assert await notes(database) == ["kept"]
    assert database.waiting == 0


async def test_a_caller_cancelled_half_way_leaves_the_whole_work(database: Database) -> None:
    inside, go = threading.Event(), threading.Event()

    def two(tx: Transaction) -> None:
        put(tx, "one")
        inside.set()
        go.wait(10)
        put(tx, "two")

    task = asyncio.create_task(database.transaction(two))
    await asyncio.to_thread(inside.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await database.transaction(putting("three"))
    assert await notes(database) == ["one", "two", "three"]


async def test_listeners_hear_of_changes_only(database: Database) -> None:
    heard: list[int] = []
    database.on_commit(lambda: heard.append(1))
    await database.transaction(lambda tx: tx.execute("SELECT 1").fetchone())
    assert heard == []
    await database.transaction(putting("one"))
    assert heard == [1]


@pytest.mark.req("R9")
async def test_a_full_queue_makes_callers_wait_and_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "QUEUE_LIMIT", 4)
    database = await Database.open(tmp_path / "ledger.db", ManualClock())
    await database.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)
    async with Held(database):
        tasks = [asyncio.create_task(database.transaction(putting(f"{n}"))) for n in range(20)]
        await handed_in(*tasks)
        assert database.waiting == 4  # the held one and three more
        tasks[10].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert len([a for a in answers if isinstance(a, str)]) == 19
    assert len(await notes(database)) == 19
    await database.close()


async def test_closing_finishes_what_was_handed_in(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "ledger.db", ManualClock())
    await database.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)
    tasks = [asyncio.create_task(database.transaction(putting(f"{n}"))) for n in range(30)]
    await handed_in(*tasks)
    await database.close()
    assert len(await asyncio.gather(*tasks)) == 30
    with pytest.raises(Unavailable):
        await database.transaction(putting("late"))
    with pytest.raises(Unavailable):
        await database.fetch("SELECT 1")
    await database.close()
    assert sorted(names(tmp_path)) == ["ledger.db", "ledger.db.lock"]  # the log is folded in


@pytest.mark.parametrize("steps", range(12))
async def test_opening_can_be_cancelled_at_any_point(tmp_path: Path, steps: int) -> None:
    """Neither thread nor lock stays behind; that no thread does is looked at round every test."""
    opening = asyncio.create_task(Database.open(tmp_path / "ledger.db", ManualClock()))
    for _ in range(steps):
        await asyncio.sleep(0)
    opening.cancel()
    try:
        database = await opening
    except asyncio.CancelledError:
        database = await Database.open(tmp_path / "ledger.db", ManualClock())
    await database.close()


async def test_the_reader_cannot_write(database: Database) -> None:
    with pytest.raises((Unavailable, sqlite3.OperationalError), match=r"readonly|read-only"):
        await database.fetch("INSERT INTO note VALUES ('sly')")
    assert await notes(database) == []


@pytest.mark.field("FC-D01", "FC-M07")
async def test_a_full_disk_is_named_and_small_neighbours_still_fit(database: Database) -> None:
    def fill(tx: Transaction) -> None:
        # More pages than the cache holds, so that SQLite spills, fails in the middle and takes the transaction back.
        for number in itertools.count():
            tx.execute("INSERT INTO note VALUES (?)", (f"{number}" + "x" * 100_000,))

    def bound(tx: Transaction, pages: int) -> None:
        used = tx.execute("PRAGMA page_count").fetchone()[0]
        tx.execute(f"PRAGMA max_page_count = {used + pages}")

    await database.transaction(lambda tx: bound(tx, 1000))
    async with Held(database):
        works = [putting("before"), fill, putting("after")]
        tasks = [asyncio.create_task(database.transaction(work)) for work in works]
        await handed_in(*tasks)
    before, full, after = await asyncio.gather(*tasks, return_exceptions=True)
    assert (before, after) == ("before", "after")
    assert isinstance(full, StorageFullError)
    assert full.retry_after_s > 0
    assert await notes(database) == ["before", "after"]
    await database.transaction(lambda tx: bound(tx, 1_000_000))
    await database.transaction(putting("room again"))


@pytest.mark.field("FC-M07")
async def test_damage_is_named_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    database = await Database.open(path, ManualClock())
    await database.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)
    await database.transaction(lambda tx: tx.executemany("INSERT INTO note VALUES (?)", [("x" * 2000,)] * 200) and None)
    await database.close()
    content = bytearray(path.read_bytes())
    for offset in range(0, len(content), 4096):
        if b"x" * 500 in content[offset : offset + 4096]:  # the table's pages, and not those of the schema
            content[offset : offset + 64] = b"\xff" * 64
    path.write_bytes(content)
    database = await Database.open(path, ManualClock())
    with pytest.raises(Corrupt):
        await database.fetch("SELECT sum(length(text)) FROM note")
    with pytest.raises(Corrupt):
        await database.transaction(lambda tx: tx.execute("SELECT sum(length(text)) FROM note").fetchone())
    await database.close()


async def test_what_is_no_database_is_refused_and_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("not a database, but long enough to have a header " * 10)
    with pytest.raises(Corrupt):
        await Database.open(path, ManualClock())
    path.unlink()
    await (await Database.open(path, ManualClock())).close()


async def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable):
        await Database.open(tmp_path / "file" / "ledger.db", ManualClock())


_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
db.execute("COMMIT")
"""


@pytest.mark.req("R9")
@pytest.mark.field("FC-R05")
async def test_a_foreign_writer_is_waited_for(database: Database) -> None:
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLD, str(database.path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdin is not None and other.stdout is not None
    assert await other.stdout.readline() == b"held\n"
    task = asyncio.create_task(database.transaction(putting("waited")))
    await handed_in(task)
    assert await notes(database) == []  # reading is not held up
    other.stdin.write(b"\n")
    assert await task == "waited"
    assert await other.wait() == 0


_TRY = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
try:
    db.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.mark.field("FC-R06")
async def test_closing_another_connection_keeps_the_writers_lock(database: Database) -> None:
    async with Held(database):
        await database.fetch("SELECT 1")
        sqlite3.connect(f"{database.path.as_uri()}?mode=ro", uri=True).close()
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", _TRY, str(database.path), stdout=subprocess.PIPE)
        said, _ = await other.communicate()
        assert said == b"database is locked\n"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    works=st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30),
)
def test_exactly_the_works_that_succeeded_are_stored(
    tmp_path_factory: pytest.TempPathFactory, works: list[tuple[bool, bool, int]]
) -> None:
    """Works that fail, are cancelled or pause at random: what was answered is stored, what failed is not."""

    async def scenario(folder: Path) -> None:
        database = await Database.open(folder / "ledger.db", ManualClock())
        await database.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)

        def twice(name: str, fails: bool) -> Callable[[Transaction], str]:
            def work(tx: Transaction) -> str:
                put(tx, name)
                put(tx, name)
                if fails:
                    raise Unavailable("no")
                return name

            return work

        tasks: list[asyncio.Task[str]] = []
        for number, (fails, cancels, pauses) in enumerate(works):
            tasks.append(asyncio.create_task(database.transaction(twice(f"{number}", fails))))
            for _ in range(pauses):
                await asyncio.sleep(0)
            if cancels:
                tasks[-1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        stored = await notes(database)
        await database.close()
        for number, answer in enumerate(answers):
            count = stored.count(f"{number}")
            if isinstance(answer, asyncio.CancelledError):
                assert count in ((0,) if works[number][0] else (0, 2))
            else:
                assert count == (2 if answer == f"{number}" else 0)

    asyncio.run(scenario(tmp_path_factory.mktemp("works")))
