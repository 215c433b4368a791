"""The ledger's file: one writer thread with group commit, one read-only connection beside it.

Every unit of work is one function that gets the open transaction. Works that wait together share one commit, so that many
callers pay for one ``fsync``; each runs in a savepoint of its own, so that one that fails takes nobody with it. A caller is
answered only after the commit is on disk (WAL, ``synchronous = FULL``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

from appliance.contracts.clock import Clock
from appliance.contracts.errors import StorageFullError, Unavailable
from appliance.contracts.store import Transaction
from appliance.store.faults import translate
from appliance.store.lock import FileLock
from appliance.store.writer import BUSY_TIMEOUT_MS, Writer

T = TypeVar("T")


class Database:
    """The one SQLite file of the appliance; implements :class:`appliance.contracts.store.Ledger`.

    Owns the writer thread, the reading connection and the lock file. A file is open once at a time, in this process or any
    other: nothing else may open it to write.
    """

    def __init__(self, path: Path, lock: FileLock, writer: Writer, reader: aiosqlite.Connection) -> None:
        """Use :meth:`open`."""
        self._path = path
        self._lock = lock
        self._writer = writer
        self._reader = reader
        self._is_open = True
        self.on_trouble: Callable[[str], None] = lambda _: None
        """Called on the event loop after each work: why it could not be written (a full card), empty when it was."""

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> Self:
        """Take the file's lock, bring its schema up to date and start the writer. Missing folders are made.

        Raises:
            OwnedElsewhere: another living process has it open; facts name its pid and instance.
            Refused: written by a newer version; the file is not touched.
            Corrupt: not a database, or damaged.
            StorageFullError: no room left.
            Unavailable: the storage does not answer.
        """
        lock = FileLock(path)
        path = lock.database
        writer = Writer(path, clock)
        try:
            await writer.start()
            reader = await _open_reader(path)
        except BaseException:
            await writer.stop()
            lock.release()
            raise
        return cls(path, lock, writer, reader)

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
            Corrupt: the file is damaged.
            Unavailable: the storage does not answer, or the ledger is closed.
        """
        try:
            value = await self._writer.write(work)
        except StorageFullError as error:
            self.on_trouble(error.message)
            raise
        self.on_trouble("")
        return value

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
            raise translate(error, self._path) or error from error


async def _open_reader(path: Path) -> aiosqlite.Connection:
    reader = await aiosqlite.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
    try:
        reader.row_factory = sqlite3.Row
        await reader.execute_fetchall("PRAGMA query_only = ON")
    except BaseException:
        await reader.close()
        raise
    return reader
