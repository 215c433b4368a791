"""Tells whether the ledger's file is damaged before it is opened: a few reads after a clean end, a bounded look after another."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, StorageFullError
from appliance.store.faults import primary_code, translate
from appliance.store.page_file import DEFAULT_PAGE_BYTES, read_log

LOOK_S = 2.0
"""A whole check of a ledger with 100,000 rows takes 0.2 s on a desktop computer; READY is promised within 5 s of a power cut.
What is not reached within this is checked while the appliance runs (housekeeping)."""

_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_NO_TEXT = "its list of tables holds what is no text"
"""SQLite quotes such a name in its error, and Python's driver cannot read the quotation: it raises UnicodeDecodeError instead."""


def suspect(database: Path, why: str) -> None:
    """Remember for the next start that the file was found damaged while it was in use."""
    with contextlib.suppress(OSError):  # a disk that takes no word of it is found out by looking
        _mark(database).write_text(f"{why}\n", encoding="utf-8")


def clear_suspicion(database: Path) -> None:
    """Forget :func:`suspect`."""
    _mark(database).unlink(missing_ok=True)


def examine(database: Path, clock: Clock, look_s: float = LOOK_S) -> str:
    """Return why the file cannot be used as it is, empty when nothing is found. Call with the file's lock held.

    Raises:
        Unavailable: it cannot be read at all.
    """
    if not database.exists() or not database.stat().st_size:
        return ""
    if _mark(database).exists():
        return _mark(database).read_text("utf-8", "replace").strip() or "it was found damaged while it was in use"
    try:
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
            if _ended_cleanly(db):
                return ""
            if lost := read_log(database.with_name(f"{database.name}-wal"), _page_bytes(db)).lost_commits:
                return f"{lost} commits at the end of the write-ahead log cannot be read"
            with contextlib.closing(_connect_to_check(database)) as whole:  # closed first, so that it folds no log in
                return check(whole, clock, look_s) or ""
    except UnicodeDecodeError:
        return _NO_TEXT
    except sqlite3.DatabaseError as error:
        if primary_code(error) == sqlite3.SQLITE_READONLY:
            return ""  # the power failed while the file was made: a writer takes that back, and nobody else can
        named = translate(error, database)
        if isinstance(named, Corrupt):
            return named.message
        if isinstance(named, StorageFullError):
            return ""  # no room even to look; whoever writes has a reserve to find it with
        raise named or error from error


def look_at(database: Path, clock: Clock, table: str, look_s: float) -> str | None:
    """:func:`check` one table on a connection of its own, beside those that work."""
    with contextlib.closing(_connect_to_check(database)) as db:
        return check(db, clock, look_s, table)


def _connect_to_check(database: Path) -> sqlite3.Connection:
    """Return a connection that could write and does not: on one that cannot, SQLite forgets what a table's CHECKs are."""
    db = sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True)
    db.execute("PRAGMA query_only = ON")
    return db


def check(db: sqlite3.Connection, clock: Clock, look_s: float, table: str = "") -> str | None:
    """Check pages, rows and constraints, of all tables or of one, for at most ``look_s``. Indexes are not compared with rows.

    Returns what is wrong, empty when nothing is, None when the time was not enough. Raises sqlite3.DatabaseError.
    """
    until_ns = clock.monotonic_ns() + int(look_s * 1e9)
    db.set_progress_handler(lambda: clock.monotonic_ns() > until_ns, _STEPS)
    try:
        found = [str(row[0]) for row in db.execute(f"PRAGMA quick_check('{table}')" if table else "PRAGMA quick_check")]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    except UnicodeDecodeError:
        return _NO_TEXT
    finally:
        db.set_progress_handler(None, 0)
    return "" if found == ["ok"] else "; ".join(" ".join(line.split()) for line in found[:3])


def _ended_cleanly(db: sqlite3.Connection) -> bool:
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "owner" not in tables:
        return not tables  # nothing was ever written, or something else was
    row = db.execute("SELECT ended_utc FROM owner ORDER BY epoch DESC LIMIT 1").fetchone()
    return row is None or row[0] is not None


def _page_bytes(db: sqlite3.Connection) -> int:
    row = db.execute("PRAGMA page_size").fetchone()
    return int(row[0]) if row else DEFAULT_PAGE_BYTES


def _mark(database: Path) -> Path:
    return database.with_name(f"{database.name}.suspect")
