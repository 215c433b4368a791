"""The write-ahead log's size: folded into the database when it is long, and named when somebody keeps that from happening."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from appliance.contracts.clock import Clock

CHECKPOINT_PATIENCE_S = 0.5
"""How long a checkpoint waits for readers while everybody who writes waits for it (the write budget of the runtime chapter)."""
BOUND_BYTES = 16 * 1024 * 1024
"""A longer log is folded in and cut. SQLite begins to fold at 4 MiB; a burst or a reader may carry it beyond that."""
TOO_LONG_BYTES = 4 * BOUND_BYTES
"""A log this long says that somebody reads for so long that it cannot be folded in: that is named."""

_TIGHT_BYTES = 256 * 1024  # while the disk is full: every commit's pages are in the log before they are in the database
_TRY_EVERY_NS = 10_000_000_000  # a reader that was in the way is not waited for again before this


class WriteAheadLog:
    """Keeps ``<database>-wal`` bounded. Used by the writer thread, outside of its transactions."""

    def __init__(self, database: Path, clock: Clock) -> None:
        self._database = database
        self._file = database.with_name(f"{database.name}-wal")
        self._clock = clock
        self._tried_mono_ns: int | None = None
        self.trouble = ""
        """Why it is longer than it should be, empty when it is not."""
        self.held_up = ""
        """Who kept the log from being folded in when that was last tried, to be said of a disk without room; empty: nobody."""

    def keep_bounded(self, db: sqlite3.Connection, *, is_tight: bool = False) -> None:
        """Fold the log in if it is beyond its bound, which is a short one while room ``is_tight``. Cheap when it is not."""
        size_bytes = self._size_bytes()
        now_ns = self._clock.monotonic_ns()
        due = self._tried_mono_ns is None or now_ns - self._tried_mono_ns >= _TRY_EVERY_NS
        if (size_bytes > BOUND_BYTES and due) or (is_tight and size_bytes > _TIGHT_BYTES):
            self._tried_mono_ns = now_ns
            self.fold(db)
            size_bytes = self._size_bytes()
        if size_bytes <= TOO_LONG_BYTES:
            self.trouble = ""
        elif not self.trouble:
            who = users_of(self._database) or "another program"
            self.trouble = f"the write-ahead log is {size_bytes >> 20} MiB long, as {who} keeps reading {self._database.name}"

    def empty(self, db: sqlite3.Connection) -> bool:
        """:meth:`fold` a log that holds something; return whether it does not any more."""
        return self._size_bytes() > 0 and self.fold(db)

    def fold(self, db: sqlite3.Connection) -> bool:
        """Write the log back and cut it; return False when a reader was in the way for too long."""
        db.execute(f"PRAGMA busy_timeout = {int(CHECKPOINT_PATIENCE_S * 1000)}")
        try:
            busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error:  # housekeeping only: the log stays, and says so by its length
            return False
        finally:
            db.execute("PRAGMA busy_timeout = 0")
        if not busy:
            self.held_up = ""
        elif not self.held_up:
            who = users_of(self._database) or "a program"
            self.held_up = f"; {who} keeps reading {self._database.name}, so that its log cannot be cut: end that program first"
        return not busy

    def _size_bytes(self) -> int:
        try:
            return self._file.stat().st_size
        except OSError:
            return 0


def users_of(database: Path) -> str:
    """Name the other processes that have the database open, as ``sqlite3 (pid 812)``, as far as they can be seen."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):
            if any(link.readlink() == database for link in (process / "fd").iterdir()):
                found.append(f"{(process / 'comm').read_text('utf-8', 'replace').strip()} (pid {process.name})")
    return ", ".join(found)
