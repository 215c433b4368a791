"""The one thread that writes: it commits in groups, so that callers who wait together pay for one ``fsync``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
import random
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, FloorhandError, OwnedElsewhere, StorageFullError, Unavailable
from appliance.contracts.store import Transaction
from appliance.store import owners
from appliance.store.faults import StorageFault, fault_of, primary_code, translate
from appliance.store.migrate import migrate, refuse_newer
from appliance.store.reserve import Reserve
from appliance.store.whereabouts import Whereabouts
from appliance.store.write_ahead_log import BOUND_BYTES, WriteAheadLog

log = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_LIMIT = 256  # works a commit: all of 200 callers who wait share one fsync, the dearest part on a slow card
QUEUE_LIMIT = 512  # works handed in and not answered; the next caller waits for room
FOREGROUND_PATIENCE_S = 20.0
"""A foreign writer (a technician's shell) may hold the file this long before callers hear of it: the foreground write budget of
the agent runtime that the chapter describes, which tells nobody "database is locked" before."""
_CLOSING_PATIENCE_S = 5.0  # the same while the service manager waits for us to end
_BUSY_PAUSES_S = (0.02, 0.15)  # random between these, so that two who wait for each other's lock do not stay in step
_SLOW_COMMIT_NS = 1_000_000_000  # an SD card that stalls this long is worth a line in the log


Trouble = tuple[StorageFault | None, str]
"""What is wrong with the storage, and why in words."""
NO_TROUBLE: Trouble = (None, "")


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[Transaction], Any]
    answer: asyncio.Future[Any]
    is_tending: bool = False
    abandoned: bool = False
    is_answered: bool = False


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


class _Undone(Exception):
    """The whole transaction was taken back, neighbours included; ``cause`` is what the work or the commit raised.

    ``is_shared``: it could not even begin, which is the same for all its works.
    """

    def __init__(self, cause: BaseException, *, is_shared: bool = False) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.is_shared = is_shared


def _again(error: BaseException) -> BaseException:
    """Return an error of ours anew, for each of several callers its own."""
    if isinstance(error, Corrupt | OwnedElsewhere) or (isinstance(error, Unavailable) and type(error) is Unavailable):
        return type(error)(error.message, **error.facts)  # type: ignore[arg-type]
    return error


class Writer:
    """Owns the writer thread and its connection. Used from one event loop.

    ``epoch``: once set, every commit first looks whether it is still the newest, and nothing is written when it is not.
    ``told`` is called on the event loop with what is wrong with the storage and, once it is past mending while
    this runs, with the error that ends it.
    """

    def __init__(self, path: Path, clock: Clock, reserve: Reserve) -> None:
        """Nothing runs before :meth:`start`."""
        self._path = path
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(QUEUE_LIMIT)
        self._waiting = 0
        self._accepts = False
        self._is_stopping = False
        self._never = threading.Event()  # what a thread waits for that only wants to pause
        self._wal = WriteAheadLog(path, clock)
        self._in_hand: list[_Job] = []
        self._trouble = NO_TROUBLE
        self._fatal: FloorhandError | None = None
        self.reserve = reserve
        self.epoch: int | None = None
        self.told: Callable[[Trouble, FloorhandError | None], None] = lambda _trouble, _fatal: None
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
        self._is_stopping = True
        self._jobs.put(None)
        await asyncio.shield(asyncio.wrap_future(self._ended))
        self._thread.join()  # it only has to leave its function

    async def write(self, work: Callable[[Transaction], T], *, is_tending: bool = False) -> T:
        """See :meth:`appliance.store.database.Database.transaction`, and :meth:`~appliance.store.database.Database.tend`."""
        await self._room.acquire()
        if not self._accepts:
            self._room.release()
            raise Unavailable("the ledger is closed")
        job = _Job(work, self._loop.create_future(), is_tending)
        self._waiting += 1
        self._jobs.put(job)
        try:
            answer: T = await job.answer
        except asyncio.CancelledError:
            job.abandoned = True
            raise
        return answer

    def _settle(
        self, group: list[_Job], outcomes: list[_Outcome], changed: bool, trouble: Trouble, fatal: FloorhandError | None
    ) -> None:
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
        self.told(trouble, fatal)

    # on the writer thread ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            with contextlib.closing(self._connect_with_reserve()) as db:
                self._whereabouts = Whereabouts(self._path)
                self._started.set_result(None)
                self._serve(db)
        except BaseException as error:  # noqa: BLE001 - handed to whoever awaits start(), or to everybody who waits for an answer
            if self._started.done():
                self._refuse_all(error)
            else:
                self._started.set_exception(self._failure(error).error)
        finally:
            self._ended.set_result(None)

    def _refuse_all(self, error: BaseException) -> None:
        """What must not happen has happened: end the ledger, and answer everybody so until :meth:`stop`."""
        log.error("ledger.writer_failed", exc_info=error)
        self._end(Unavailable(f"the ledger's writer has failed: {error!r}", retry_after_s=5.0, file=str(self._path)))
        for job in self._in_hand:
            self._refuse(job)
        with contextlib.suppress(queue.Empty):  # stop() was called, and its word was taken before this
            while (later := self._jobs.get(block=not self._is_stopping)) is not None:
                self._refuse(later)

    def _refuse(self, job: _Job) -> None:
        if not job.is_answered and self._fatal is not None:
            self._answer([job], [_Outcome(error=_again(self._fatal))], changed=False)

    def _connect_with_reserve(self) -> sqlite3.Connection:
        """Connect; on a disk that is full to the last byte with the room that was kept for it."""
        self.reserve.make()
        try:
            return self._connect()
        except sqlite3.Error as error:
            if not (isinstance(translate(error, self._path), StorageFullError) and self.reserve.spend()):
                raise
        return self._connect()

    def _refuse_newer(self) -> None:
        """Look at the schema before anything that would write to the file."""
        with contextlib.closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as peek:
            try:
                refuse_newer(peek)
            except sqlite3.Error as error:
                # The power failed while the file was made: only a writer can take that back. migrate() looks again then.
                if primary_code(error) != sqlite3.SQLITE_READONLY:
                    raise

    def _connect(self) -> sqlite3.Connection:
        if self._path.exists() and self._path.stat().st_size:
            self._refuse_newer()
        db = sqlite3.connect(self._path, isolation_level=None, timeout=FOREGROUND_PATIENCE_S)
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            db.execute(f"PRAGMA journal_size_limit = {BOUND_BYTES}")
            migrate(db)
            db.execute("PRAGMA busy_timeout = 0")  # from here on this thread itself waits, and says for how long
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
            self._in_hand = group
            if works := [job for job in group if not job.is_tending]:
                self._commit(db, works)
            for job in group:
                if job.is_tending:
                    self._tend(db, job)
        if self._fatal is None:
            self._wal.fold(db)

    def _tend(self, db: sqlite3.Connection, job: _Job) -> None:
        try:
            if self._fatal is not None:
                raise _again(self._fatal)
            outcome = _Outcome() if job.abandoned else _Outcome(job.work(db))
        except BaseException as error:  # noqa: BLE001 - carried to the caller of tend(), whatever it is
            outcome = self._failure(error)
        if db.in_transaction:
            db.rollback()
        self._answer([job], [outcome], changed=False)

    def _commit(self, db: sqlite3.Connection, group: list[_Job], ways_tried: int = 0) -> None:
        began_ns, rows_before = self._clock.monotonic_ns(), db.total_changes
        try:
            outcomes = self._attempt_all(db, group)
        except _Undone as undone:
            if len(group) > 1 and not undone.is_shared:
                # Not every work needs what one of them could not have: a small one may still fit on a full disk.
                for job in group:
                    self._commit(db, [job])
                return
            outcomes = [self._failure(_again(undone.cause)) for _ in group]
            if isinstance(outcomes[0].error, StorageFullError):
                # Folding the log into the database frees its room, if the database has not to grow for it; else there is the
                # reserve, and with that room the log can be folded in.
                for way in (self._wal.empty, self._spend_reserve)[ways_tried:]:
                    ways_tried += 1
                    if way(db):
                        self._commit(db, group, ways_tried)
                        return
        else:
            if db.total_changes != rows_before:
                self._trouble = NO_TROUBLE  # only what was really written says that the storage answers again
            if lost := self._whereabouts.lost():
                self._end(gone := Unavailable(lost, retry_after_s=5.0, file=str(self._path)))
                outcomes = [_Outcome(error=_again(gone)) for _ in group]
        took_ns = self._clock.monotonic_ns() - began_ns
        if took_ns > _SLOW_COMMIT_NS:
            log.warning("ledger.slow_commit", extra={"ms": took_ns // 1_000_000, "works": len(group)})
        if self.reserve.is_spent:
            self.reserve.make()
        self._wal.keep_bounded(db, is_tight=self.reserve.is_spent)
        self._answer(group, outcomes, changed=db.total_changes != rows_before)

    def _spend_reserve(self, db: sqlite3.Connection) -> bool:
        if not self.reserve.spend():
            return False
        self._wal.empty(db)
        return True

    def _answer(self, group: list[_Job], outcomes: list[_Outcome], *, changed: bool) -> None:
        trouble = self._now_wrong()
        for job in group:
            job.is_answered = True
        with contextlib.suppress(RuntimeError):  # the loop was closed without close(): nobody is left to be told
            self._loop.call_soon_threadsafe(self._settle, group, outcomes, changed, trouble, self._fatal)

    def _now_wrong(self) -> Trouble:
        if self._fatal is not None:
            return StorageFault.ENDED, self._fatal.message
        if self._trouble[0] is StorageFault.FULL:
            is_used_up = self.reserve.is_spent  # not even what was kept for alarms was enough
            return (StorageFault.USED_UP if is_used_up else StorageFault.FULL), self._trouble[1] + self._wal.held_up
        if self._trouble[0] is not None:
            return self._trouble
        if refusal := self.reserve.refusal:
            return StorageFault.FULL, refusal + self._wal.held_up
        return (StorageFault.LOG_TOO_LONG, self._wal.trouble) if self._wal.trouble else NO_TROUBLE

    def _begin(self, db: sqlite3.Connection) -> None:
        """Begin, however long another program writes: it is waited for, and only after that anybody hears of it."""
        began_ns = self._clock.monotonic_ns()
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                patience_s = _CLOSING_PATIENCE_S if self._is_stopping else FOREGROUND_PATIENCE_S
                is_busy = primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not is_busy or self._clock.monotonic_ns() - began_ns > patience_s * 1e9:
                    raise
            self._never.wait(random.uniform(*_BUSY_PAUSES_S))

    def _attempt_all(self, db: sqlite3.Connection, group: list[_Job]) -> list[_Outcome]:
        try:
            if self._fatal is not None:
                raise self._fatal
            self._begin(db)
            if self.epoch is not None:
                owners.require(db, self.epoch)
        except (sqlite3.Error, FloorhandError) as error:
            if db.in_transaction:
                db.rollback()
            if isinstance(error, OwnedElsewhere):
                self.give_up(error)
            raise _Undone(error, is_shared=True) from error
        try:
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
                self._trouble = fault_of(translated), translated.message
                self.give_up(translated)
                return _Outcome(error=translated)
        if isinstance(error, StopIteration):  # a future refuses to carry it, and its caller would wait for ever
            return _Outcome(error=RuntimeError("the work raised StopIteration"))
        return _Outcome(error=error)

    def give_up(self, error: FloorhandError) -> None:
        """Write nothing more to a file that is damaged, or that belongs to another core. May be called from any thread."""
        if isinstance(error, Corrupt | OwnedElsewhere):
            self._end(error)

    def _end(self, error: FloorhandError) -> None:
        if self._fatal is None:
            self._fatal = error
            log.error("ledger.given_up", extra={"why": error.message})
