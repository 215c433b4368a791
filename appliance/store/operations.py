"""The operation log: written in the same transaction as what it tells, one hash chain a lane."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, Refused
from appliance.contracts.operation import GENESIS_HASH, Operation, OperationLane
from appliance.contracts.store import Transaction
from appliance.foundation.canonical import digest_of_text
from appliance.foundation.hash_chain import is_intact, link_hash
from appliance.store.columns import json_text, to_json, utc_text

SELECT = "SELECT operation.*, appliance.origin AS origin FROM operation CROSS JOIN appliance"
"""Rows that :func:`to_operation` reads; add ``WHERE … ORDER BY operation.seq``."""


_HEAD = "SELECT origin, seq, hash FROM appliance LEFT JOIN operation_head ON lane = ?"
_INSERT = (
    "INSERT INTO operation (lane, seq, kind, entity, payload, at_utc, clock_synced, prev_hash, hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_FIRST_HEAD = "INSERT INTO operation_head (seq, hash, lane) VALUES (?, ?, ?)"
_NEXT_HEAD = "UPDATE operation_head SET seq = ?, hash = ? WHERE lane = ?"


def set_origin(tx: Transaction, clock: Clock, name: str) -> None:
    """Name this appliance in its log, once. The same name again changes nothing.

    Raises:
        Refused: the ledger already belongs to another name; its history would fork.
    """
    row = tx.execute("SELECT origin FROM appliance").fetchone()
    if row is None:
        tx.execute("INSERT INTO appliance (one, origin, created_utc) VALUES (1, ?, ?)", (name, utc_text(clock.utc())))
    elif row["origin"] != name:
        raise Refused(f"this ledger was written by {row['origin']}, not by {name}", origin=row["origin"], name=name)


def origin(tx: Transaction) -> str:
    """Return this appliance's name.

    Raises:
        Refused: it was never set.
    """
    row = tx.execute("SELECT origin FROM appliance").fetchone()
    if row is None:
        raise _no_origin()
    name: str = row["origin"]
    return name


def append(tx: Transaction, clock: Clock, lane: OperationLane, kind: str, entity: str, payload: Mapping[str, Any]) -> None:
    """Add one entry to a lane. ``kind`` is ``noun.what_happened``, ``entity`` the id it is about.

    Raises:
        Refused: the ledger has no origin yet.
    """
    name_of_lane = str(lane)  # sqlite3 takes a plain text as it is, and looks for an adapter for any other
    head = tx.execute(_HEAD, (name_of_lane,)).fetchone()
    if head is None:
        raise _no_origin()
    name, newest, newest_hash = head
    seq, prev_hash = (1, GENESIS_HASH) if newest is None else (newest + 1, newest_hash)
    written, at_utc, clock_synced = json_text(payload), utc_text(clock.utc()), clock.is_synced
    hashed = link_hash(prev_hash, [name, name_of_lane, seq, kind, entity, at_utc, clock_synced, digest_of_text(written)])
    tx.execute(_INSERT, (name_of_lane, seq, kind, entity, written, at_utc, clock_synced, prev_hash, hashed))
    tx.execute(_FIRST_HEAD if newest is None else _NEXT_HEAD, (seq, hashed, name_of_lane))


def to_operation(row: sqlite3.Row) -> Operation:
    """Read a row of :data:`SELECT`."""
    return Operation(
        origin=row["origin"],
        lane=OperationLane(row["lane"]),
        seq=row["seq"],
        kind=row["kind"],
        entity=row["entity"],
        payload=to_json(row["payload"]),
        at_utc=row["at_utc"],
        clock_synced=bool(row["clock_synced"]),
        prev_hash=row["prev_hash"],
        hash=row["hash"],
    )


def verify_chain(source: Transaction | Iterable[sqlite3.Row], lane: OperationLane) -> int:
    """Check a lane from its beginning and return how many entries it has.

    ``source`` is a transaction, whose head row is checked too, or rows of :data:`SELECT` in order.

    Raises:
        Corrupt: an entry is missing, moved or altered; facts name ``lane`` and ``seq``.
    """
    if isinstance(source, sqlite3.Connection):
        count, last_hash = _walk(source.execute(f"{SELECT} WHERE lane = ? ORDER BY seq", (lane,)), lane)
        head = source.execute("SELECT seq, hash FROM operation_head WHERE lane = ?", (lane,)).fetchone()
        if (head["seq"], head["hash"]) != (count, last_hash) if head else count:
            raise _broken(lane, count + 1, "is missing at the end")
        return count
    return _walk(source, lane)[0]


def _walk(rows: Iterable[sqlite3.Row], lane: OperationLane) -> tuple[int, str]:
    count, prev_hash = 0, GENESIS_HASH
    for operation in map(to_operation, rows):
        if operation.lane is not lane or operation.seq != count + 1:
            raise _broken(lane, count + 1, "is missing")
        if operation.prev_hash != prev_hash or not is_intact(operation):
            raise _broken(lane, operation.seq, "does not fit the chain")
        count, prev_hash = operation.seq, operation.hash
    return count, prev_hash


def _no_origin() -> Refused:
    return Refused("the ledger has no origin yet: set_origin comes first")


def _broken(lane: OperationLane, seq: int, what: str) -> Corrupt:
    return Corrupt(f"operation {seq} of lane {lane} {what}", lane=str(lane), seq=seq)
