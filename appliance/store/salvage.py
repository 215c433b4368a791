"""A damaged ledger is set aside, what can be saved of it goes into a fresh one, and the loss is counted.

The damaged file and its write-ahead log become ``<database>.damaged-<number>`` and are not touched again, until there are
:data:`KEPT_DAMAGED` newer ones. The fresh file is finished, with the account of what is missing in it, before anything is moved:
a crash at any point leaves either the damaged file where it was, or a finished one that the next start puts in its place.
SQLite's own ``.recover`` is not used: Debian's library is built without the page access it needs, so that the command fails
there on any database.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, Refused, StorageFullError, Unavailable
from appliance.contracts.hold import HoldSource
from appliance.contracts.operation import OperationLane
from appliance.foundation.hash_chain import is_intact
from appliance.store import audit, damage, holds, salvage_lanes, stand_ins, witness
from appliance.store.columns import json_text, utc_text
from appliance.store.faults import no_room, translate
from appliance.store.migrate import migrate, steps
from appliance.store.operations import to_operation
from appliance.store.page_file import PageFile, Value
from appliance.store.reserve import RESERVE_BYTES, Reserve
from appliance.store.survey import Shape, Survey, insert_of, shapes_of

log = logging.getLogger(__name__)

SEQUENCE_LEAP = 1_000_000
"""Where the newest number of a table is lost, the next is so far beyond the newest that was found: the lost part cannot have
given out as many, a ledger lives for years on less. Each further loss leaps further, so that it counts even where nothing of the
earlier leaps was found."""

KEPT_DAMAGED = 3
"""Damaged files that are kept, the newest: a card that fails again and again must not fill itself with what it spoilt."""

_CHUNK = 500  # rows put in at once; when one of them is refused they go one by one
_COUNTED_BY_TRIGGERS = "memory_volume"
HELD_WHY = "my records were damaged, and a hold may be lost with them"
"""Reason of the hold, in words that can be spoken."""
_WORK = frozenset({"admission", "session", "turn", "action", "effect", "confirmation", "interrupt", "lease", "owner"})
"""Tables that say what was done of a turn. While rows of one are missing nothing that was under way may go on."""


def mend(database: Path, clock: Clock, origin: str) -> None:
    """Put a ledger that is damaged in order; one that is not is left alone. Call with the file's lock held, before opening it.

    Raises:
        Refused: it was written by a newer version.
        StorageFullError: there is no room for what was saved, even with the reserve's; nothing was moved.
        Unavailable: the storage does not answer.
        Corrupt: what was saved does not verify either; nothing was moved.
    """
    try:
        for ready in sorted(database.parent.glob(f"{database.name}.salvaged-*")):
            _put_in_place(database, ready)
        if why := damage.examine(database, clock):
            log.error("ledger.damaged", extra={"why": why})
            try:
                _salvage(database, clock, origin, why)
            except StorageFullError:
                if not Reserve(database, clock, RESERVE_BYTES).spend():
                    raise
                _salvage(database, clock, origin, why)
    except sqlite3.Error as error:
        raise translate(error, database) or error from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_room(database) from error
        raise Unavailable(f"{database.name} cannot be put in order: {error}", retry_after_s=30.0, file=str(database)) from error


def _salvage(database: Path, clock: Clock, origin: str, why: str) -> None:
    number = 1 + max(_numbers(database), default=0)
    draft, ready = database.with_name(f"{database.name}.salvaging"), database.with_name(f"{database.name}.salvaged-{number}")
    draft.unlink(missing_ok=True)
    try:
        with contextlib.closing(_fresh(draft)) as db:
            account = _fill(db, database, clock, origin, why, number)
        _sync(draft)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if is_full or (isinstance(error, sqlite3.Error) and isinstance(translate(error, database), StorageFullError)):
            raise no_room(database) from error
        raise
    draft.rename(ready)
    _sync(database.parent)
    _put_in_place(database, ready)
    log.error("ledger.salvaged", extra={"why": why, **account})


def _put_in_place(database: Path, ready: Path) -> None:
    aside = f"{database.name}.damaged-{ready.name.rpartition('-')[2]}"
    for suffix in ("-shm", "-wal", ""):
        with contextlib.suppress(FileNotFoundError):
            database.with_name(database.name + suffix).rename(database.with_name(aside + suffix))
    damage.clear_suspicion(database)
    _sync(database.parent)
    ready.rename(database)
    _sync(database.parent)
    for number in sorted(_numbers(database))[:-KEPT_DAMAGED]:
        for suffix in ("-shm", "-wal", ""):
            with contextlib.suppress(OSError):  # it costs room, and nothing else
                database.with_name(f"{database.name}.damaged-{number}{suffix}").unlink(missing_ok=True)


def _numbers(database: Path) -> Iterator[int]:
    pattern = re.compile(re.escape(database.name) + r"\.damaged-(\d+)")
    for path in database.parent.iterdir():
        if match := pattern.fullmatch(path.name):
            yield int(match[1])


def _fresh(draft: Path) -> sqlite3.Connection:
    db = sqlite3.connect(draft, isolation_level=None)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA journal_mode = MEMORY")  # nobody sees the file before it is finished
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA foreign_keys = OFF")
    return db


# what goes into the fresh file ----------------------------------------------------------------------------------------------
def _fill(db: sqlite3.Connection, database: Path, clock: Clock, origin: str, why: str, number: int) -> dict[str, Any]:
    file = PageFile(database)
    try:
        newest = max(steps())
        version = file.user_version if file.user_version else newest
        if file.header_fits and version > newest:
            raise Refused(
                f"the database has schema {version}, this version knows up to {newest}; install the newer version again"
            )
        version = min(version, newest)
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
            migrate(empty, version)
            shapes = shapes_of(empty)
            survey = Survey(file, shapes, empty)
        migrate(db, version)
        db.execute("BEGIN")
        before = _copy(db, survey, shapes, origin)
        sequences, sequences_whole = _sequences(survey)
        heads = survey.tables.get("operation_head")
        are_heads_whole = heads is not None and not heads.spoilt
        unplaced, lost_commits = len(survey.unplaced), file.wal.lost_commits
        db.execute("COMMIT")
    finally:
        file.close()
    migrate(db)
    set_aside = f"{database.name}.damaged-{number}"
    losses = max(number, witness.read(database) // SEQUENCE_LEAP + 1)  # damaged files may have been removed since
    db.execute("BEGIN")
    with _without_triggers(db):
        account = _finish(db, clock, origin, before, sequences)
        account |= {"unplaced_pages": unplaced, "lost_commits": lost_commits}
        _set_sequences(db, sequences, losses=0 if sequences_whole and not lost_commits else losses)
        lost = {name for name, rows in account["tables"].items() if rows["before"] != rows["after"]}
        is_lossy = bool(lost & _WORK or unplaced or lost_commits)
        db.execute(
            "INSERT INTO salvage (why, set_aside, account, is_lossy, at_utc) VALUES (?, ?, '{}', ?, ?)",
            (why, set_aside, is_lossy, utc_text(clock.utc())),
        )
        (salvage,) = db.execute("SELECT max(seq) FROM salvage").fetchone()
        account["lanes"] = salvage_lanes.mend(db, clock, salvage, _heads(db), are_heads_whole=are_heads_whole)
        db.execute("UPDATE salvage SET account = ? WHERE seq = ?", (json_text(account), salvage))
        audit.note(db, clock, "ledger_salvaged", set_aside, {"why": why, "salvage": salvage, **account})
        if "hold" in lost or unplaced or lost_commits:
            holds.begin(db, clock, HoldSource.PERSON, by=holds.ITSELF, reason=HELD_WHY)
    db.execute("COMMIT")
    _verify(db)
    return account


def _copy(db: sqlite3.Connection, survey: Survey, shapes: dict[str, Shape], origin: str) -> dict[str, int | None]:
    """Put every row in that can be read; return how many each table had, None where nobody knows."""
    before: dict[str, int | None] = {}
    for name, shape in shapes.items():
        if name == _COUNTED_BY_TRIGGERS or name not in survey.tables:
            if name != _COUNTED_BY_TRIGGERS:
                before[name] = survey.known_count(name)
            continue
        db.execute(f"DELETE FROM {name}")  # a migration may have written a first row
        rows = survey.rows(name)
        _put(db, shape, (row for row in rows if _is_sound(row, origin)) if name == "operation" else rows)
        before[name] = survey.known_count(name)
    for name, columns in _full_texts(db):
        places = ", ".join("?" * (len(columns) + 1))
        statement = f"INSERT OR IGNORE INTO {name} (rowid, {', '.join(columns)}) VALUES ({places})"
        for rowid, record in survey.plain_rows(f"{name}_content"):
            if len(record) == len(columns) + 1:
                db.execute(statement, (rowid, *record[1:]))
    return before


def _put(db: sqlite3.Connection, shape: Shape, rows: Iterable[tuple[Value, ...]]) -> None:
    waiting = iter(rows)
    while chunk := list(itertools.islice(waiting, _CHUNK)):
        for length, alike in itertools.groupby(chunk, len):
            statement, these = insert_of(shape, length, how="INSERT OR IGNORE"), list(alike)
            db.execute("SAVEPOINT chunk")
            try:
                db.executemany(statement, these)
            except sqlite3.IntegrityError:
                db.execute("ROLLBACK TO chunk")
                for row in these:
                    with contextlib.suppress(sqlite3.IntegrityError):  # a row that its table refuses is no row of it
                        db.execute(statement, row)
            db.execute("RELEASE chunk")


def _is_sound(row: tuple[Value, ...], origin: str) -> bool:
    """Whether an entry of the operation log carries the hash of its content."""
    names = ("lane", "seq", "kind", "entity", "payload", "at_utc", "clock_synced", "prev_hash", "hash")
    try:
        return is_intact(to_operation({**dict(zip(names, row, strict=True)), "origin": origin}))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False


def _finish(
    db: sqlite3.Connection, clock: Clock, origin: str, before: dict[str, int | None], sequences: dict[str, int]
) -> dict[str, Any]:
    """Count what came through, and make what it refers to whole again."""
    tables: dict[str, dict[str, int | None]] = {}
    for name, known in before.items():
        after = _count(db, name) if _exists(db, name) else 0
        if after != known:
            tables[name] = {"before": None if known is not None and known < after else known, "after": after}
            if tables[name]["before"] is None and name in sequences:
                tables[name]["at_most"] = sequences[name]
    now = utc_text(clock.utc())
    db.execute("INSERT OR IGNORE INTO appliance (one, origin, created_utc) VALUES (1, ?, ?)", (origin, now))
    db.execute(
        "INSERT OR IGNORE INTO alarm_feed SELECT 1, coalesce(max(seq), 0) FROM operation WHERE lane = ?", (OperationLane.P0,)
    )
    return {"tables": tables, **stand_ins.complete(db, now)}


def _heads(db: sqlite3.Connection) -> dict[str, salvage_lanes.Head]:
    rows = db.execute("SELECT lane, seq, hash, acknowledged_seq FROM operation_head").fetchall()
    return {str(row[0]): (int(row[1]), str(row[2]), int(row[3])) for row in rows}


# numbers --------------------------------------------------------------------------------------------------------------------
def _sequences(survey: Survey) -> tuple[dict[str, int], bool]:
    """Return the newest number given out by each table, and whether that is sure to be all of them."""
    tree = survey.tables.get("sqlite_sequence")
    found: dict[str, int] = {}
    for _, record in survey.plain_rows("sqlite_sequence"):
        match record:
            case (str(name), int(seq)):
                found[name] = max(seq, found.get(name, 0))
    return found, tree is not None and not tree.spoilt


def _set_sequences(db: sqlite3.Connection, old: dict[str, int], *, losses: int) -> None:
    for name, sql in db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall():
        if "AUTOINCREMENT" not in sql:
            continue
        (key,) = (row["name"] for row in db.execute(f"PRAGMA table_info('{name}')") if row["pk"])
        (newest,) = db.execute(f"SELECT coalesce(max({key}), 0) FROM {name}").fetchone()
        seq = max(newest, old.get(name, 0))
        if losses:
            seq = max(seq + SEQUENCE_LEAP, losses * SEQUENCE_LEAP)
        db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, seq))


# the file itself ------------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _without_triggers(db: sqlite3.Connection) -> Iterator[None]:
    """Let the log be put in order, which its triggers are there to prevent. They are back in the same transaction."""
    triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for trigger in triggers:
        db.execute(f"DROP TRIGGER {trigger['name']}")
    yield
    for trigger in triggers:
        db.execute(trigger["sql"])


def _verify(db: sqlite3.Connection) -> None:
    """Check the finished file: structure, references, and that nothing of the schema is missing.

    Raises:
        Corrupt: it is not whole.
    """
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        migrate(empty)
        schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
        is_complete = [tuple(row) for row in db.execute(schema)] == empty.execute(schema).fetchall()
    faults = [str(row[0]) for row in db.execute("PRAGMA integrity_check")]
    loose = db.execute("PRAGMA foreign_key_check").fetchall()
    if not is_complete or faults != ["ok"] or loose:
        raise Corrupt(f"what was saved of the ledger does not verify: {faults[:3]}, {len(loose)} loose references")


def _full_texts(db: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    rows = db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE % USING fts5 %'").fetchall()
    return [(row["name"], [column["name"] for column in db.execute(f"PRAGMA table_info('{row['name']}')")]) for row in rows]


def _exists(db: sqlite3.Connection, table: str) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).fetchone() is not None


def _count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
