"""The operating system's word on who owns the database file: a lock that dies with its process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import weakref
from pathlib import Path

from appliance.contracts.errors import OwnedElsewhere, StorageFullError, Unavailable

_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """Exclusive ``flock`` on ``<database>.lock``, freed by ``release`` or by the process' death, however it dies.

    The database file itself is never opened besides SQLite: closing such a descriptor would drop SQLite's own POSIX locks.
    """

    def __init__(self, database: Path) -> None:
        """Take the lock; missing folders are made.

        Raises:
            OwnedElsewhere: a living process holds it; facts name its ``pid`` and ``instance``.
            StorageFullError: there is no room for the lock's file.
            Unavailable: the folder cannot be written.
        """
        self.database = database = database.resolve()  # one file, one lock, by whatever path it is named
        lock_file = database.with_name(database.name + ".lock")
        try:
            database.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFullError(f"no room left for {lock_file}", retry_after_s=30.0, file=str(lock_file)) from error
            raise Unavailable(f"cannot write {lock_file}: {error.strerror}", retry_after_s=5.0) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            self._descriptor = -1
            raise _owned(database, holder) from None
        with contextlib.suppress(OSError):  # a full disk must not keep the owner out; the pid is only there to be named
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Free the lock; again is harmless. The lock file stays: removing it would let two owners lock two files."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _owned(database: Path, pid: str) -> OwnedElsewhere:
    instance = ""
    reading = f"{database.absolute().as_uri()}?mode=ro"
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(reading, uri=True)) as peek:
        row = peek.execute("SELECT instance FROM owner ORDER BY epoch DESC LIMIT 1").fetchone()
        instance = str(row[0]) if row else ""
    return OwnedElsewhere(
        f"{database.name} belongs to process {pid or '?'} (instance {instance or 'starting'}); stop that one first",
        pid=int(pid) if pid.isdigit() else None,
        instance=instance,
    )


def _drop_in_child() -> None:
    # A forked child shares the open file, and with it the lock: it would keep a dead parent's lock alive.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_drop_in_child)
