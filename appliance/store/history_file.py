"""The file of tag history: a ring of segments, apart from the ledger, which it must never harm. Used by one thread alone.

A segment is what one tag did between two writes, 12 bytes a point. Segments are only appended and dropped from the old end, so a
write touches few pages of the card. Times are those of the monotonic clock; what they are in wall time is known of each run
as a whole, so a clock that is set later puts right what was kept before.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.contracts.errors import Corrupt, StorageFullError
from appliance.store.faults import translate

Points = Sequence[tuple[int, float | None]]
"""Monotonic time in ms, and the value from then on."""

LEAST_FREE_BYTES = 128 << 20  # of the partition: history stops long before the ledger is short of room
_VERSION = 1
_PAGE_BYTES = 4096
_POINT = struct.Struct("<Id")  # ms since the segment's beginning (49 days), value; NaN where nothing is known
_DROPPED_AT_ONCE = 50  # a fiftieth of the ring goes when it is full
_FULL_AT = 0.95  # of the file's largest size; the rest is for what one write adds
_SCHEMA = (
    "CREATE TABLE run (id INTEGER PRIMARY KEY, boot TEXT NOT NULL, offset_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL) STRICT",
    "CREATE TABLE tag (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT",
    "CREATE TABLE segment (seq INTEGER PRIMARY KEY, run INTEGER NOT NULL, tag INTEGER NOT NULL, from_ms INTEGER NOT NULL,"
    " until_ms INTEGER NOT NULL, points BLOB NOT NULL) STRICT",
)


@dataclass(frozen=True, slots=True)
class Moment:
    """Now: on the monotonic clock of a boot, and how far wall time is ahead of it. Only a synchronised clock lets things age."""

    boot: str
    mono_ms: int
    offset_ms: int
    is_synced: bool


class HistoryFile:
    """The open file. Every method raises Corrupt, StorageFullError or Unavailable."""

    def __init__(self, path: Path, most_bytes: int, most_s: float) -> None:
        """``most_bytes`` is the largest size of the file, ``most_s`` the age at which values are dropped."""
        self._path = path
        self._most_pages = most_bytes // _PAGE_BYTES
        self._most_ms = int(most_s * 1000)
        self._connection: sqlite3.Connection | None = None
        self._run: int | None = None
        self._tags: dict[str, int] = {}

    def write(self, batch: Mapping[str, Points], now: Moment) -> None:
        """Append what tags did, oldest first for each, in one commit; drop the oldest of the ring where it is full."""
        if shutil.disk_usage(self._path.parent).free < LEAST_FREE_BYTES:
            raise StorageFullError(f"less than {LEAST_FREE_BYTES >> 20} MB are free, and those are the ledger's")
        with self._transaction() as connection:
            run = self._run_of(connection, now)  # first: of a clock that was just set, its values are not old
            self._drop_old(connection, now)
            for key, points in batch.items():
                first_ms = points[0][0]
                packed = b"".join(_POINT.pack(ms - first_ms, math.nan if value is None else value) for ms, value in points)
                row = (run, self._tag_of(connection, key), first_ms, points[-1][0], packed)
                connection.execute("INSERT INTO segment (run, tag, from_ms, until_ms, points) VALUES (?, ?, ?, ?, ?)", row)

    def read(self, key: str, since_ms: int, now: Moment) -> list[tuple[int, float | None]]:
        """Return a tag's points from ``since_ms`` (wall time) on and what came just before, oldest first, in wall time. Where a
        run ended nothing is known until the next."""
        with self._transaction() as connection:
            runs = {row[0]: row[1:] for row in connection.execute("SELECT id, offset_ms, until_ms FROM run")}
            if self._run is not None:
                runs[self._run] = (now.offset_ms, now.mono_ms)
            wanted = connection.execute("SELECT id FROM tag WHERE key = ?", (key,)).fetchone()
            segments: list[tuple[int, int, bytes]] = []
            if wanted is not None:
                rows = connection.execute("SELECT run, tag, from_ms, until_ms, points FROM segment ORDER BY seq DESC")
                for run, tag, from_ms, until_ms, points in rows:
                    if until_ms + runs[run][0] < since_ms:
                        break
                    if tag == wanted[0]:
                        segments.append((run, from_ms, points))
                rows.close()
            return list(self._unpacked(segments[::-1], runs))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._run = None
        self._tags.clear()
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def set_aside(self) -> Path:
        """Put a damaged file out of the way, in place of one that was before, and return where it is."""
        self.close()
        aside = self._path.with_name(f"{self._path.name}.damaged")
        for tail in ("-wal", "-shm"):
            self._path.with_name(self._path.name + tail).unlink(missing_ok=True)
        if self._path.exists():
            self._path.replace(aside)
        return aside

    def _unpacked(
        self, segments: Sequence[tuple[int, int, bytes]], runs: Mapping[int, tuple[int, int]]
    ) -> Iterator[tuple[int, float | None]]:
        before: int | None = None
        for run, from_ms, points in segments:
            if before not in (None, run):
                yield sum(runs[before]), None  # when it ended
            before = run
            for ms, value in _POINT.iter_unpack(points):
                yield from_ms + ms + runs[run][0], None if math.isnan(value) else value
        if before is not None and before != self._run:
            yield sum(runs[before]), None

    # the file ---------------------------------------------------------------------------------------------------------
    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._connection or self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._run = None  # its row may be gone with the rest
                self._tags.clear()
                raise
        except (sqlite3.Error, struct.error, KeyError, TypeError) as error:  # rows that a damaged page gave other values
            told = translate(error, self._path) if isinstance(error, sqlite3.Error) else None
            raise told or Corrupt(f"{self._path.name} holds what was never written: {error}", file=str(self._path)) from error

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=5.0)
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a power cut costs the last writes, never the file
            connection.execute("PRAGMA journal_size_limit = 1048576")
            connection.execute(f"PRAGMA max_page_count = {self._most_pages}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("COMMIT")
            elif version != _VERSION:
                raise Corrupt(f"{self._path.name} is of another version ({version})", file=str(self._path))
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _run_of(self, connection: sqlite3.Connection, now: Moment) -> int:
        if self._run is None:
            sql = "INSERT INTO run (boot, offset_ms, until_ms) VALUES (?, ?, ?)"
            self._run = int(connection.execute(sql, (now.boot, now.offset_ms, now.mono_ms)).lastrowid or 0)
        else:
            sql = "UPDATE run SET offset_ms = ?, until_ms = ? WHERE id = ?"
            connection.execute(sql, (now.offset_ms, now.mono_ms, self._run))
        return self._run

    def _tag_of(self, connection: sqlite3.Connection, key: str) -> int:
        if key not in self._tags:
            connection.execute("INSERT INTO tag (key) VALUES (?) ON CONFLICT (key) DO NOTHING", (key,))
            (self._tags[key],) = connection.execute("SELECT id FROM tag WHERE key = ?", (key,)).fetchone()
        return self._tags[key]

    def _drop_old(self, connection: sqlite3.Connection, now: Moment) -> None:
        if now.is_synced:  # one that is not may be years off, and would empty the ring
            oldest_ms = now.mono_ms + now.offset_ms - self._most_ms
            self._drop_while_older(connection, oldest_ms)
        while self._used_pages(connection) > self._most_pages * _FULL_AT:
            first, last = connection.execute("SELECT min(seq), max(seq) FROM segment").fetchone()
            if first is None:
                return
            until = first + (last - first) // _DROPPED_AT_ONCE
            connection.execute("DELETE FROM segment WHERE seq <= ?", (until,))

    def _drop_while_older(self, connection: sqlite3.Connection, oldest_ms: int) -> None:
        sql = "SELECT s.seq, s.until_ms + r.offset_ms FROM segment s JOIN run r ON r.id = s.run ORDER BY s.seq"
        last: int | None = None
        rows = connection.execute(sql)
        for seq, until_ms in rows:
            if until_ms >= oldest_ms:
                break
            last = seq
        rows.close()
        if last is not None:
            connection.execute("DELETE FROM segment WHERE seq <= ?", (last,))
            connection.execute("DELETE FROM run WHERE id NOT IN (SELECT run FROM segment) AND id IS NOT ?", (self._run,))

    def _used_pages(self, connection: sqlite3.Connection) -> int:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        return int(pages) - int(free)
