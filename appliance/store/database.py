"""The ledger's file: one writer thread with group commit, one read-only connection beside it.

Every unit of work is one function that gets the open transaction. Works that wait together share one commit, so that many
callers pay for one ``fsync``; each runs in a savepoint of its own, so that one that fails takes nobody with it. A caller is
answered only after the commit is on disk (WAL, ``synchronous = FULL``).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, FloorhandError, Unavailable
from appliance.contracts.store import Transaction
from appliance.store import damage
from appliance.store.faults import StorageFault, translate
from appliance.store.lock import FileLock
from appliance.store.reserve import Reserve
from appliance.store.writer import FOREGROUND_PATIENCE_S, NO_TROUBLE, Trouble, Writer

T = TypeVar("T")


class Database:
    """The one SQLite file of the appliance; implements :class:`appliance.contracts.store.Ledger`.

    Owns the writer thread, the reading connection and the lock file. A file is open once at a time, in this process or any
    other: nothing else may open it to write.
    """

    def __init__(self, path: Path, clock: Clock, lock: FileLock, writer: Writer, reader: aiosqlite.Connection) -> None:
        """Use :meth:`open`."""
        self._path = path
        self._clock = clock
        self._lock = lock
        self._writer = writer
        self._reader = reader
        self._is_open = True
        self._trouble = NO_TROUBLE
        self._writer.told = self._told
        self.fatal: FloorhandError | None = None
        """What ended this ledger while it was open: Corrupt, the file is damaged; OwnedElsewhere, another core took it over;
        Unavailable, the file is no longer where it was, or the writer has failed."""
        self.on_trouble: Callable[[str], None] = lambda _: None
        """Called on the event loop at each change: what is wrong with the storage, empty when nothing is any more."""
        self.on_fatal: Callable[[FloorhandError], None] = lambda _: None
        """Called on the event loop once, when the ledger has ended (:attr:`fatal`): nothing can be written any more."""

    @classmethod
    async def open(
        cls, path: Path, clock: Clock, *, reserve_bytes: int = 0, prepare: Callable[[Path], None] = lambda _: None
    ) -> Self:
        """Take the file's lock, bring its schema up to date and start the writer. Missing folders are made.

        ``reserve_bytes`` are kept free beside it (:mod:`appliance.store.reserve`). ``prepare`` runs on a thread, with the lock
        held, before the file is opened.

        Raises:
            OwnedElsewhere: another living process has it open; facts name its pid and instance.
            Refused: written by a newer version; the file is not touched.
            Corrupt: not a database, or damaged.
            StorageFullError: no room left.
            Unavailable: the storage does not answer.
        """
        lock = FileLock(path)
        path = lock.database
        writer = Writer(path, clock, Reserve(path, clock, reserve_bytes))
        try:
            await asyncio.to_thread(prepare, path)
            await writer.start()
            reader = await _open_reader(path)
        except BaseException:
            await writer.stop()
            lock.release()
            raise
        return cls(path, clock, lock, writer, reader)

    def own(self, epoch: int) -> None:
        """From now on write only while ``epoch`` is the newest owner: each commit looks first, inside its transaction.

        Once a newer core has taken over, every work raises OwnedElsewhere and nothing is written.
        """
        self._writer.epoch = epoch

    async def close(self) -> None:
        """Finish the works already handed in, fold the write-ahead log into the file, end the threads, free the lock.

        Closing again is harmless. Works handed in afterwards raise Unavailable.
        """
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self._reader.close()
            self._reader._thread.join()  # it has answered its last call and only has to leave its function
        finally:
            await self._writer.stop()
            self._lock.release()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def trouble(self) -> str:
        """Why something is wrong with the storage now, empty when nothing is."""
        return self._trouble[1]

    @property
    def fault(self) -> StorageFault | None:
        """What is wrong with the storage now."""
        return self._trouble[0]

    def refuses_talk(self) -> str:
        """Return why only alarms should be taken in now (the disk is full and the reserve in use), empty when all may be."""
        return self._writer.reserve.refusal

    @property
    def waiting(self) -> int:
        """Works handed in and not yet answered."""
        return self._writer.waiting

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` on the event loop after each commit that may have changed rows. It must be quick and not raise."""
        self._writer.listeners.append(listener)

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` on the writer thread; return its value once the commit is on disk.

        ``work`` must do nothing but read and write ``tx``: it is run a second time, alone, when the shared transaction had
        to be taken back. Work that raises is rolled back alone. A caller that is cancelled leaves the work either wholly
        done or not done at all.

        Raises:
            StorageFullError: no room left; nothing was changed.
            OwnedElsewhere: another core has taken the ledger over (:meth:`own`); nothing was changed.
            Corrupt: the file is damaged; nothing more is written to it.
            Unavailable: the storage does not answer, another program has been writing for 20 s, or the ledger is closed.
        """
        return await self._writer.write(work)

    async def tend(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on the writer's connection outside of any transaction, for what SQLite wants done there. Keep it short."""
        return await self._writer.write(work, is_tending=True)

    async def keep_house(self) -> None:
        """Fold the write-ahead log in if it is long, make the reserve again if there is room; in trouble, see if writing works.

        Raises as :meth:`transaction`.
        """
        touch = "UPDATE appliance SET origin = origin" if self.trouble else "SELECT 1"
        await self._writer.write(lambda tx: tx.execute(touch) and None)

    async def tables(self) -> list[str]:
        """Return the names of the tables that hold rows."""
        rows = await self.fetch("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name")
        return [str(row["name"]) for row in rows]

    async def look_at(self, table: str, look_s: float) -> bool:
        """Check one table's pages and rows on a connection of its own, for at most ``look_s``; return whether that was enough.

        Damage ends the ledger (:attr:`on_fatal`). Raises Unavailable when the storage does not answer.
        """
        try:
            found = await asyncio.to_thread(damage.look_at, self._path, self._clock, table, look_s)
        except sqlite3.Error as error:
            named = translate(error, self._path)
            if not isinstance(named, Corrupt):
                raise named or error from error
            found = named.message
        if found:
            damaged = Corrupt(f"{self._path.name} is damaged: {found}", file=str(self._path))
            self._writer.give_up(damaged)
            self._told((StorageFault.ENDED, damaged.message), damaged)
        return found is not None

    async def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Read committed rows without waiting for the writer; a commit already answered is always seen.

        Raises:
            Corrupt: the file is damaged.
            Unavailable: the storage does not answer, or the ledger is closed.
        """
        if not self._is_open:
            raise Unavailable("the ledger is closed")
        try:
            return list(await self._reader.execute_fetchall(sql, parameters))
        except sqlite3.Error as error:
            named = translate(error, self._path)
            if isinstance(named, Corrupt):
                self._writer.give_up(named)
                self._told((StorageFault.ENDED, named.message), named)
            raise named or error from error

    def _told(self, trouble: Trouble, fatal: FloorhandError | None) -> None:
        has_ended = fatal is not None and self.fatal is None
        if has_ended:
            self.fatal = fatal
            if isinstance(fatal, Corrupt):
                damage.suspect(self._path, fatal.message)
        if trouble != self._trouble:
            self._trouble = trouble
            self.on_trouble(self.trouble)
        if has_ended and fatal is not None:
            self.on_fatal(fatal)


async def _open_reader(path: Path) -> aiosqlite.Connection:
    reader = await aiosqlite.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=FOREGROUND_PATIENCE_S)
    try:
        reader.row_factory = sqlite3.Row
        await reader.execute_fetchall("PRAGMA query_only = ON")
    except BaseException:
        await reader.close()
        raise
    return reader
