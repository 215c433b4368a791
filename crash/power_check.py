"""Opens what a power cut left with the product's ledger and Python's own SQLite, takes it over, looks whether all is there.

A process of its own: reads one order a line, ``{"folder", "keys", "heads"}``, and answers each with ``{"lost": […], "corrupt":
"…"}``. An order with ``"make"`` makes an older ledger instead.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from appliance.admission.gate import Gate
from appliance.contracts.admission import PRIORITY_CONSOLE, Door, Request, RequestKind
from appliance.contracts.errors import FloorhandError
from appliance.contracts.operation import GENESIS_HASH, OperationLane
from appliance.contracts.store import Transaction
from appliance.foundation.canonical import canonical_json
from appliance.foundation.hash_chain import chain_hash
from appliance.foundation.id_source import SystemIds
from appliance.store import migrate, operations
from crash.power_work import DATABASE, ORIGIN, open_ledger

_AT = "2026-03-02T08:00:00.000000+00:00"
_LANE = "P1"
LEFT = "left"
"""Folder below an order's, in which ``make`` leaves the ledger."""


async def check(folder: Path, keys: list[str], heads: dict[str, list[Any]], *, is_mended: bool = False) -> dict[str, Any]:
    """Return what of ``keys`` and ``heads`` is lost, and what is damaged: empty, empty.

    ``is_mended``: the file was damaged before, so that it must have been salvaged by now.
    """
    try:
        database, clock, _ = await open_ledger(folder, "check")
    except (FloorhandError, sqlite3.Error) as error:
        return {"lost": [], "corrupt": f"does not open: {error}"}
    try:
        after = Request(Door.CONSOLE, RequestKind.UTTERANCE, "after", "after the cut", {"text": "?"}, PRIORITY_CONSOLE)
        await Gate(database, clock, SystemIds(clock), limit=100_000).admit(after)
        return await database.transaction(lambda tx: {"lost": _lost(tx, keys, heads), "corrupt": _damage(tx, is_mended)})
    except (FloorhandError, sqlite3.Error) as error:
        return {"lost": [], "corrupt": f"cannot be used: {error}"}
    finally:
        await database.close()


def _lost(tx: Transaction, keys: list[str], heads: dict[str, list[Any]]) -> list[str]:
    found = {row["dedupe_key"] for row in tx.execute("SELECT dedupe_key FROM admission")}
    lost = [f"admission {key}" for key in keys if key not in found]
    for lane, (seq, hashed) in heads.items():
        row = tx.execute("SELECT hash FROM operation WHERE lane = ? AND seq = ?", (lane, seq)).fetchone()
        if row is None or row["hash"] != hashed:
            lost.append(f"operation {lane} {seq}")
    return lost


def _damage(tx: Transaction, is_mended: bool) -> str:
    """Return what is wrong in the file, empty if nothing is."""
    (verdict,) = tx.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        return str(verdict)
    if tx.execute("PRAGMA foreign_key_check").fetchone() is not None:
        return "a row refers to one that is not there"
    for lane in OperationLane:
        operations.verify_chain(tx, lane)  # its Corrupt is the caller's
    if is_mended:
        salvages = tx.execute("SELECT count(*) FROM salvage").fetchone()[0]
        return "" if salvages == 1 else f"salvaged {salvages} times"
    counted = "SELECT (SELECT count(*) FROM admission) - (SELECT count(*) FROM operation WHERE kind = 'admission.queued')"
    if (difference := tx.execute(counted).fetchone()[0]) != 0:
        return f"{difference} inputs more than the log tells of"
    if tx.execute("SELECT 1 FROM admission WHERE status = 'started'").fetchone() is not None:
        return "something is still called started"
    # A power cut damages nothing and puts back nothing: the product must not believe that of it either.
    for what, sql in (("salvaged", "SELECT why FROM salvage"), ("taken for a copy", "SELECT detail FROM identity_fault")):
        if (row := tx.execute(sql).fetchone()) is not None:
            return f"{what}: {row[0]}"
    return ""


def make(folder: Path, schema: int, entries: int) -> dict[str, list[Any]]:
    """Make a ledger as an older version with ``schema`` left it, its log not folded into the file; return the log's heads.

    The rows are written by statements of their own: those of today's program need today's schema.
    """
    prev_hash = GENESIS_HASH
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as db, closing(_reader(db, folder)):
        for number in range(1, schema + 1):
            db.executescript(f"BEGIN IMMEDIATE;\n{migrate.steps()[number]}\nPRAGMA user_version = {number};\nCOMMIT;")
        db.execute("INSERT INTO appliance (one, origin, created_utc) VALUES (1, ?, ?)", (ORIGIN, _AT))
        for seq in range(1, entries + 1):
            kind, entity, payload = "audit.looked", f"entry {seq}", {"text": "x" * (seq * 37 % 900)}
            hashed = chain_hash(
                origin=ORIGIN, lane=OperationLane(_LANE), seq=seq, kind=kind, entity=entity, payload=payload, at_utc=_AT,
                clock_synced=False, prev_hash=prev_hash,
            )  # fmt: skip
            row = (_LANE, seq, kind, entity, canonical_json(payload), _AT, 0, prev_hash, hashed)
            db.execute("INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            prev_hash = hashed
        db.execute("INSERT INTO operation_head (lane, seq, hash) VALUES (?, ?, ?)", (_LANE, entries, prev_hash))
        _copy(folder)
    return {_LANE: [entries, prev_hash]}


def _reader(db: sqlite3.Connection, folder: Path) -> sqlite3.Connection:
    db.execute("PRAGMA journal_mode = WAL")
    return sqlite3.connect(folder / DATABASE)


def _copy(folder: Path) -> None:
    """Keep the files as they are now: closing would fold the log into the file. Read by another process, since a file that is
    opened and closed beside SQLite frees its locks."""
    left = folder / LEFT
    left.mkdir()
    subprocess.run(["cp", str(folder / DATABASE), str(folder / f"{DATABASE}-wal"), str(left)], check=True)


def main() -> None:
    """Answer orders until the input ends."""
    logging.disable()  # a disk that goes away is what is wanted here, thousands of times
    for line in sys.stdin:
        order = json.loads(line)
        folder = Path(order["folder"])
        if "make" in order:
            answer: dict[str, Any] = {"heads": make(folder, **order["make"])}
        else:
            answer = asyncio.run(check(folder, order["keys"], order["heads"], is_mended=order.get("is_mended", False)))
        sys.stdout.write(json.dumps({"sqlite": sqlite3.sqlite_version} | answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
