"""Sees alarm events become durable in a running core's ledger, from outside.

SQLite shows a row to other processes only after its commit, and the ledger commits with ``synchronous=FULL``: after the
write-ahead log was synced. So the moment a row is seen here is at most one look later than the moment it became durable. A time
stamp in the row itself is taken before the commit, and leaves out the disk.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY_S = 0.001

_NEW = "SELECT seq, alarm_id, change, journalled_mono_ns FROM alarm_event WHERE seq > ? ORDER BY seq"


@dataclass(frozen=True, slots=True)
class Seen:
    """A row of the alarm journal. ``stamped_ns`` is the core's own time stamp, ``seen_ns`` when it was durable and seen."""

    alarm_id: str
    change: str
    stamped_ns: int
    seen_ns: int


class LedgerWatch:
    """Follows the journal in a thread of its own; ``rows`` grows. Use as a context manager."""

    def __init__(self, database: Path, look_every_s: float = LOOK_EVERY_S) -> None:
        self.rows: list[Seen] = []
        self._database = database
        self._look_every_s = look_every_s
        self._newest = 0
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="ledger watch")

    def __enter__(self) -> LedgerWatch:
        with closing(self._connect()) as connection:
            (self._newest,) = connection.execute("SELECT coalesce(max(seq), 0) FROM alarm_event").fetchone()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def wait(self, wanted: Callable[[list[Seen]], bool], within_s: float) -> bool:
        """Return whether ``wanted(rows)`` came true within ``within_s``. Blocks; call it in a thread."""
        with self._changed:
            return self._changed.wait_for(lambda: wanted(self.rows), within_s)

    def _follow(self) -> None:
        with closing(self._connect()) as connection:
            while not self._stopping.wait(self._look_every_s):
                found = connection.execute(_NEW, (self._newest,)).fetchall()
                if not found:
                    continue
                seen_ns = time.monotonic_ns()
                self._newest = found[-1][0]
                with self._changed:
                    self.rows += [Seen(alarm_id, change, stamped_ns, seen_ns) for _, alarm_id, change, stamped_ns in found]
                    self._changed.notify_all()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self._database.resolve().as_uri()}?mode=ro", uri=True)
