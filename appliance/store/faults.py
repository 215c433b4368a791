"""The one map from SQLite's errors to ours."""

from __future__ import annotations

import shutil
import sqlite3
from enum import StrEnum
from pathlib import Path

from appliance.contracts.errors import Corrupt, FloorhandError, StorageFullError, Unavailable
from appliance.store.write_ahead_log import users_of

_NO_ROOM_BYTES = 256 * 1024  # a partition with less cannot grow the write-ahead log's shared memory and a checkpoint


class StorageFault(StrEnum):
    """What is wrong with the storage: room for alarms alone, for nothing at all, no writing, another program that keeps us from
    it, a log that cannot be folded in, or the ledger has ended."""

    FULL = "full"
    USED_UP = "used_up"
    HELD = "held"
    UNWRITABLE = "unwritable"
    LOG_TOO_LONG = "log_too_long"
    ENDED = "ended"


def translate(error: sqlite3.Error, path: Path) -> FloorhandError | None:
    """Return our error for what the file system or the file did; None for a mistake in the statement itself.

    Primary result codes are the low byte of https://sqlite.org/rescode.html. A full disk and a damaged file are told
    apart: an I/O error counts as "full" only when the partition has no room.
    """
    match primary_code(error):
        case sqlite3.SQLITE_FULL:
            return no_room(path)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Corrupt(f"{path.name} is damaged: {error}", file=str(path))
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            if _has_no_room(path):
                return no_room(path)
            return Unavailable(f"the storage does not answer for {path.name}: {error}", retry_after_s=5.0, file=str(path))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            who = users_of(path)
            named = f"{path.name} is being written by another program" + (f": {who}" if who else "")
            return Unavailable(named, retry_after_s=1.0, file=str(path), held_by=who)
    return None


def fault_of(error: FloorhandError) -> StorageFault:
    """Return which fault one of :func:`translate`'s errors tells of, while the ledger goes on."""
    if isinstance(error, StorageFullError):
        return StorageFault.FULL
    return StorageFault.HELD if "held_by" in error.facts else StorageFault.UNWRITABLE


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 when the error is not SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_of_rows(error: sqlite3.Error) -> bool:
    """Whether a statement did not fit the rows it met, with nothing wrong with the file or the file system."""
    return primary_code(error) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)


def no_room(path: Path) -> StorageFullError:
    """Return the error that says so."""
    return StorageFullError(f"no room left for {path.name}; free space on its partition", retry_after_s=30.0, file=str(path))


def _has_no_room(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _NO_ROOM_BYTES
    except OSError:
        return False
