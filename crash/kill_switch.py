"""The points at which a process can die: before and after each commit that changes something, and each effect on the world.

The points of one process are numbered from 0 and written to a trace as they come, so that whoever looks at what is left knows
what was going on.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Protocol

_CHANGES = re.compile(r"\s*(?:INSERT(?: OR \w+)? INTO|UPDATE(?: OR \w+)?|DELETE FROM|REPLACE INTO)\s+(\w+)", re.IGNORECASE)

_POINT = "point"


class Point(NamedTuple):
    """A place to die in one life: ``key`` picks it, ``name`` says what it is."""

    key: str
    name: str


class Switch(Protocol):
    """Something that is told of every point, and may let it be the last."""

    def commit(self, point: str) -> None:
        """Pass a point before or after a commit."""
        ...

    def effect(self, point: str) -> None:
        """Pass a point before or after something happens in the world."""
        ...


class KillSwitch:
    """Ends this process by SIGKILL at the point called ``deadly``, or at none. Used from several threads.

    A commit is called by its number among all points, an effect by its name and which time it is ("before machine 2"): how many
    commits come before it differs from life to life, since works that wait together share one. The first point of a kind may be
    called by a pattern of its name ("after commit *turn.executing*").
    """

    def __init__(self, trace: Path, deadly: str) -> None:
        self._deadly = deadly
        self._count = 0
        self._times: dict[str, int] = {}
        self._turn = threading.Lock()
        self._trace = os.open(trace, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def commit(self, point: str) -> None:
        """Pass a point before or after a commit, or die there."""
        with self._turn:
            self._pass(str(self._count), point)

    def effect(self, point: str) -> None:
        """Pass a point before or after something happens in the world, or die there."""
        with self._turn:
            times = self._times[point] = self._times.get(point, 0) + 1
            self._pass(f"{point} {times}", point)

    def note(self, line: str) -> None:
        """Write a line into the trace that is no point."""
        os.write(self._trace, f"{line}\n".encode())

    def _pass(self, key: str, name: str) -> None:
        self.note(f"{_POINT}\t{key}\t{name}")
        if key == self._deadly or fnmatchcase(name, self._deadly):
            os.kill(os.getpid(), signal.SIGKILL)
        self._count += 1


def points_of(lines: Iterable[str]) -> list[Point]:
    """Return the points in a trace, in order."""
    return [Point(*line.split("\t")[1:]) for line in lines if line.startswith(f"{_POINT}\t")]


class Watched(sqlite3.Connection):
    """A connection whose commits are points, named by the operations they wrote, else by the tables they changed.

    Commits that change nothing are none: the disk is the same before and after.
    """

    switch: Switch

    _tables: set[str]
    _changes_before = 0
    _heads: dict[str, int] | None = None

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement; a COMMIT may be the last."""
        if sql == "COMMIT":
            return self._commit()
        if sql.startswith("BEGIN"):
            return self._begin(sql)
        if (change := _CHANGES.match(sql)) is not None:
            self._tables.add(change[1])
        return super().execute(sql, *arguments)

    def executescript(self, script: str) -> sqlite3.Cursor:
        """Run a migration, which commits by itself."""
        number = script[script.rindex("user_version") :].split()[2].rstrip(";")
        return self._between(f"commit migration {number}", lambda: super(Watched, self).executescript(script))

    def _commit(self) -> sqlite3.Cursor:
        if self.total_changes == self._changes_before:
            return super().execute("COMMIT")
        return self._between(f"commit {self._what_changed()}", lambda: super(Watched, self).execute("COMMIT"))

    def _between(self, point: str, act: Any) -> sqlite3.Cursor:
        self.switch.commit(f"before {point}")
        done: sqlite3.Cursor = act()
        self.switch.commit(f"after {point}")
        return done

    def _begin(self, sql: str) -> sqlite3.Cursor:
        self._tables, self._changes_before = set(), self.total_changes
        cursor = super().execute(sql)
        if self._heads is None:
            self._heads = self._read_heads()
        return cursor

    def _read(self, sql: str, *parameters: Any) -> list[sqlite3.Row]:
        return super().execute(sql, parameters).fetchall()

    def _read_heads(self) -> dict[str, int]:
        return {row["lane"]: row["seq"] for row in self._read("SELECT lane, seq FROM operation_head")}

    def _what_changed(self) -> str:
        before, self._heads = self._heads or {}, self._read_heads()
        query = "SELECT kind FROM operation WHERE lane = ? AND seq > ? ORDER BY seq"
        kinds = [row["kind"] for lane in self._heads for row in self._read(query, lane, before.get(lane, 0))]
        return "+".join(dict.fromkeys(kinds or sorted(self._tables))) or "rows"


@contextmanager
def watched(ledger: Path, switch: Switch) -> Iterator[None]:
    """Let whoever opens ``ledger`` to write meanwhile pass its commits by the switch."""
    connect = sqlite3.connect

    def connect_watched(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        if database != ledger:
            plain: sqlite3.Connection = connect(database, *arguments, **options)
            return plain
        connection = connect(database, *arguments, **{"factory": Watched} | options)
        assert isinstance(connection, Watched)
        connection.switch = switch
        return connection

    sqlite3.connect = connect_watched  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect = connect
