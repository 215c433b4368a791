"""The one thread that writes: it commits in groups, so that callers who wait together pay for one ``fsync``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Transaction
from appliance.store.faults import translate
from appliance.store.migrate import migrate, refuse_newer

log = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_LIMIT = 64  # works a commit; 32 callers make groups of about 16, and a longer group only delays its first caller
QUEUE_LIMIT = 512  # works handed in and not answered; the next caller waits for room
BUSY_TIMEOUT_MS = 5_000  # a foreign writer (a technician's shell) may hold the file this long before callers hear of it
_LOG_KEPT_BYTES = 16 * 1024 * 1024  # a burst may grow the write-ahead log; it does not keep the card's room afterwards
_SLOW_COMMIT_NS = 1_000_000_000  # an SD card that stalls this long is worth a line in the log


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[Transaction], Any]
    answer: asyncio.Future[Any]
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


class _Undone(Exception):
    """SQLite took back the whole transaction, neighbours included; ``cause`` is what the work or the commit raised."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Writer:
    """Owns the writer thread and its connection. Used from one event loop."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Nothing runs before :meth:`start`."""
        self._path = path
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(QUEUE_LIMIT)
        self._waiting = 0
        self._accepts = False
        self.listeners: list[Callable[[], None]] = []
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)

    @property
    def waiting(self) -> int:
        """Works handed in and not yet answered."""
        return self._waiting

    async def start(self) -> None:
        """Open the file on the writer thread and migrate it. Raises what opening raises, translated."""
        self._thread.start()
        await asyncio.shield(asyncio.wrap_future(self._started))  # a cancelled caller must not cancel the thread's own word
        self._accepts = True

    async def stop(self) -> None:
        """Finish what was handed in, close the file, end the thread."""
        self._accepts = False
        if self._thread.ident is None:
            return
        self._jobs.put(None)
        await asyncio.shield(asyncio.wrap_future(self._ended))
        self._thread.join()  # it only has to leave its function

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """See :meth:`appliance.store.database.Database.transaction`."""
        await self._room.acquire()
        if not self._accepts:
            self._room.release()
            raise Unavailable("the ledger is closed")
        job = _Job(work, self._loop.create_future())
        self._waiting += 1
        self._jobs.put(job)
        try:
            answer: T = await job.answer
        except asyncio.CancelledError:
            job.abandoned = True
            raise
        return answer

    def _settle(self, group: list[_Job], outcomes: list[_Outcome], changed: bool) -> None:
        for job, outcome in zip(group, outcomes, strict=True):
            self._waiting -= 1
            self._room.release()
            if job.answer.done():  # its caller was cancelled meanwhile
                continue
            if outcome.error is None:
                job.answer.set_result(outcome.value)
            else:
                job.answer.set_exception(outcome.error)
        if changed:
            for listener in self.listeners:
                listener()

    # on the writer thread ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            with contextlib.closing(self._connect()) as db:
                self._started.set_result(None)
                self._serve(db)
        except BaseException as error:  # handed to whoever awaits start(), or left to the thread's own hook
            if self._started.done():
                log.error("ledger.writer_failed", extra={"why": str(error)})
                raise
            self._started.set_exception(self._failure(error).error)
        finally:
            self._ended.set_result(None)

    def _connect(self) -> sqlite3.Connection:
        if self._path.exists() and self._path.stat().st_size:
            with contextlib.closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as peek:
                refuse_newer(peek)  # before anything that would write to the file
        db = sqlite3.connect(self._path, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            db.execute(f"PRAGMA journal_size_limit = {_LOG_KEPT_BYTES}")
            migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _serve(self, db: sqlite3.Connection) -> None:
        open_for_more = True
        while open_for_more:
            group: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                group.append(job)
                if len(group) == GROUP_LIMIT:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            open_for_more = job is not None
            if group:
                self._commit(db, group)
        with contextlib.suppress(sqlite3.Error):  # housekeeping only: the next start reads the log where it is
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _commit(self, db: sqlite3.Connection, group: list[_Job]) -> None:
        began_ns, rows_before = self._clock.monotonic_ns(), db.total_changes
        try:
            outcomes = self._attempt_all(db, group)
        except _Undone as undone:
            if len(group) > 1:
                # Not every work needs what one of them could not have: a small one may still fit on a full disk.
                for job in group:
                    self._commit(db, [job])
                return
            outcomes = [self._failure(undone.cause)]
        took_ns = self._clock.monotonic_ns() - began_ns
        if took_ns > _SLOW_COMMIT_NS:
            log.warning("ledger.slow_commit", extra={"ms": took_ns // 1_000_000, "works": len(group)})
        with contextlib.suppress(RuntimeError):  # the loop was closed without close(): nobody is left to be told
            self._loop.call_soon_threadsafe(self._settle, group, outcomes, db.total_changes != rows_before)

    def _attempt_all(self, db: sqlite3.Connection, group: list[_Job]) -> list[_Outcome]:
        try:
            db.execute("BEGIN IMMEDIATE")
            outcomes = [self._attempt(db, job) for job in group]
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _Undone(error) from error
        finally:
            if db.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the next BEGIN says so
                    db.rollback()
        return outcomes

    def _attempt(self, db: sqlite3.Connection, job: _Job) -> _Outcome:
        if job.abandoned:
            return _Outcome()
        db.execute("SAVEPOINT work")
        try:
            value = job.work(db)
        except BaseException as error:  # carried to the caller of transaction(), whatever it is
            if not db.in_transaction:
                raise _Undone(error) from error
            db.execute("ROLLBACK TO work")
            db.execute("RELEASE work")
            return self._failure(error)
        db.execute("RELEASE work")
        return _Outcome(value)

    def _failure(self, error: BaseException) -> _Outcome:
        if isinstance(error, sqlite3.Error):
            translated = translate(error, self._path)
            if translated is not None:
                translated.__cause__ = error
                return _Outcome(error=translated)
        if isinstance(error, StopIteration):  # a future refuses to carry it, and its caller would wait for ever
            return _Outcome(error=RuntimeError("the work raised StopIteration"))
        return _Outcome(error=error)
