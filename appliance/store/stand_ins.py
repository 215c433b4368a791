"""Rows that stand in for lost ones others refer to, so that what came through keeps its place and every reference holds.

A stand-in says of itself that it is one: it has ended, it does nothing, and its texts are ``lost``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

STAND_INS: Mapping[str, str] = {
    "owner": "INSERT INTO owner (epoch, instance, pid, pid_started, boot_id, started_utc, ended_utc)"
    " VALUES (:key, 'lost', 1, '', '', :now, :now)",
    "session": "INSERT INTO session (id, lane, state, opened_utc, closed_utc) VALUES (:key, 'lost', 'closed', :now, :now)",
    "admission": "INSERT INTO admission (id, door, kind, lane, dedupe_key, digest, payload, priority, status, outcome,"
    " admitted_utc, admitted_mono_ns, boot_id, clock_synced, ended_utc)"
    " VALUES (:key, 'recovery', 'resume', 'lost', 'lost:' || :key, '', '{}', 0, 'terminal', 'interrupted', :now, 0, '', 0, :now)",
    "turn": "INSERT INTO turn (id, session_id, admission_id, lane, language, state, intent, context, blocking_reason, failure,"
    " state_hash, lifespan_s, offline, opened_utc, updated_utc)"
    " VALUES (:key, 'lost', 'lost', 'lost', 'en', 'failed', 'lost', '{}', '', 'lost with a damaged ledger', '', 0, 0, :now,"
    " :now)",
    "action": "INSERT INTO action (id, turn_id, position, step_id, tool, arguments, condition, optional, state)"
    " VALUES (:key, 'lost', (SELECT count(*) FROM action WHERE turn_id = 'lost'), :key, 'lost', '{}', '', 0, 'unknown')",
}
"""Table -> statement that makes a stand-in with the key ``:key`` at ``:now``."""


def complete(db: sqlite3.Connection, now: str) -> dict[str, Any]:
    """Make every reference hold; return ``{"stand_ins": {table: rows}, "cut": {table: references}, "dropped": {table: rows}}``.

    Where no stand-in makes sense, a reference that may be empty is cut, and a row that is nothing without what it refers to (a
    vector without its memory) goes; the damaged file still has it.
    """
    stand_ins: dict[str, int] = {}
    cut: dict[str, int] = {}
    dropped: dict[str, int] = {}
    tables = [str(row[0]) for row in db.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")]
    references = [(table, *_reference(db, row)) for table in tables for row in db.execute(f"PRAGMA foreign_key_list('{table}')")]
    is_settled = False
    while not is_settled:
        is_settled = True
        for table, parent, column, key in references:
            loose = f"{column} IS NOT NULL AND {column} NOT IN (SELECT {key} FROM {parent})"
            if parent in STAND_INS:
                for (value,) in db.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {loose}").fetchall():
                    db.execute(STAND_INS[parent], {"key": value, "now": now})
                    stand_ins[parent] = stand_ins.get(parent, 0) + 1
                    is_settled = False
            elif _is_nullable(db, table, column):
                if count := db.execute(f"UPDATE {table} SET {column} = NULL WHERE {loose}").rowcount:
                    cut[table] = cut.get(table, 0) + count
            elif count := db.execute(f"DELETE FROM {table} WHERE {loose}").rowcount:
                dropped[table] = dropped.get(table, 0) + count
                is_settled = False
    return {"stand_ins": stand_ins, "cut": cut, "dropped": dropped}


def _reference(db: sqlite3.Connection, row: sqlite3.Row) -> tuple[str, str, str]:
    parent, column, key = row["table"], row["from"], row["to"]
    if key is None:
        key = next(info["name"] for info in db.execute(f"PRAGMA table_info('{parent}')") if info["pk"])
    return str(parent), str(column), str(key)


def _is_nullable(db: sqlite3.Connection, table: str, column: str) -> bool:
    info = next(info for info in db.execute(f"PRAGMA table_info('{table}')") if info["name"] == column)
    return not info["notnull"] and not info["pk"]
