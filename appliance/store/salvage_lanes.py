"""The operation log after damage: every number is accounted for, and what was not sent yet can still be.

Numbers are never given to something else. An entry that is lost is listed in ``operation_lost``. As long as it is durable at the
coordinator nothing else changes: the log has a hole there, which verifying it shows. One that was still to be sent would keep
the coordinator from taking anything behind it, since it takes each lane without gaps. There, from the first lost number on, the
lane is chained anew: a lost number becomes an ``audit.operation_lost``, the others keep number and content. Should the
coordinator hold the old entries after all, their hashes differ: both sides see a fork, and the lane stops, named.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.operation import GENESIS_HASH, OperationLane
from appliance.foundation.hash_chain import chain_hash
from appliance.store.columns import json_text, to_json, utc_text
from appliance.store.operations import origin as origin_of

Head = tuple[int, str, int]
"""Newest number, its hash, and the newest that is durable at the coordinator."""


def mend(
    db: sqlite3.Connection, clock: Clock, salvage: int, heads: Mapping[str, Head], *, are_heads_whole: bool
) -> dict[str, dict[str, Any]]:
    """Bring every lane in order; return ``{lane: {"lost": ranges, "rechained_from": number, "is_newest_known": truth}}`` of
    those with a loss. Where the newest number is not known there may have been more.

    ``heads`` are the head rows that were saved. A lane without one is not chained anew, as nobody knows what was sent of it: if
    the coordinator lacks a lost entry it says so, and the lane stops, named. Needs the triggers of the log away.
    """
    account: dict[str, dict[str, Any]] = {}
    for lane in map(str, OperationLane):
        (highest,) = db.execute("SELECT coalesce(max(seq), 0) FROM operation WHERE lane = ?", (lane,)).fetchone()
        known = heads.get(lane)
        newest = max(highest, known[0] if known else 0)
        lost = list(_missing(db, lane, newest))
        for seq in lost:
            db.execute(
                "INSERT INTO operation_lost VALUES (?, ?, ?, 'lost', ?)", (lane, seq, salvage, _old_hash(db, lane, seq, known))
            )
        first = next((seq for seq in lost if known is not None and seq > known[2]), None)
        if first is not None:
            _rechain(db, clock, lane, first, newest, salvage)
        if newest:
            _set_head(db, lane, newest, known)
        is_newest_known = known is not None or (are_heads_whole and not highest)
        if lost or not is_newest_known:
            account[lane] = {"lost": _ranges(lost), "rechained_from": first, "is_newest_known": is_newest_known}
    return account


def _missing(db: sqlite3.Connection, lane: str, newest: int) -> Iterator[int]:
    expected = 1
    for (seq,) in db.execute("SELECT seq FROM operation WHERE lane = ? ORDER BY seq", (lane,)).fetchall():
        yield from range(expected, seq)
        expected = seq + 1
    yield from range(expected, newest + 1)


def _old_hash(db: sqlite3.Connection, lane: str, seq: int, head: Head | None) -> str:
    """Return what a lost entry's hash was: the one behind it names it, or the head does."""
    row = db.execute("SELECT prev_hash FROM operation WHERE lane = ? AND seq = ?", (lane, seq + 1)).fetchone()
    if row is not None:
        return str(row[0])
    return head[1] if head is not None and head[0] == seq else ""


def _hash_at(db: sqlite3.Connection, lane: str, seq: int) -> str:
    if seq == 0:
        return GENESIS_HASH
    row = db.execute(
        "SELECT hash FROM operation WHERE lane = ?1 AND seq = ?2"
        " UNION ALL SELECT hash FROM operation_lost WHERE lane = ?1 AND seq = ?2 AND what = 'lost'",
        (lane, seq),
    ).fetchone()
    return str(row[0]) if row is not None else ""


def _rechain(db: sqlite3.Connection, clock: Clock, lane: str, first: int, newest: int, salvage: int) -> None:
    name, now, prev_hash = origin_of(db), utc_text(clock.utc()), _hash_at(db, lane, first - 1)
    for seq in range(first, newest + 1):
        row = db.execute(
            "SELECT kind, entity, payload, at_utc, clock_synced, hash FROM operation WHERE lane = ? AND seq = ?", (lane, seq)
        ).fetchone()
        if row is None:
            payload = json_text({"lane": lane, "seq": seq, "salvage": salvage})
            row = ("audit.operation_lost", lane, payload, now, int(clock.is_synced), None)
        kind, entity, payload, at_utc, clock_synced, old_hash = row
        hashed = chain_hash(
            origin=name,
            lane=OperationLane(lane),
            seq=seq,
            kind=kind,
            entity=entity,
            payload=to_json(payload),
            at_utc=at_utc,
            clock_synced=bool(clock_synced),
            prev_hash=prev_hash,
        )
        db.execute(
            "INSERT OR REPLACE INTO operation (lane, seq, kind, entity, payload, at_utc, clock_synced, prev_hash, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (lane, seq, kind, entity, payload, at_utc, clock_synced, prev_hash, hashed),
        )
        if old_hash is not None:
            db.execute("INSERT INTO operation_lost VALUES (?, ?, ?, 'rechained', ?)", (lane, seq, salvage, old_hash))
        prev_hash = hashed


def _set_head(db: sqlite3.Connection, lane: str, newest: int, known: Head | None) -> None:
    db.execute(
        "INSERT OR REPLACE INTO operation_head (lane, seq, hash, acknowledged_seq) VALUES (?, ?, ?, ?)",
        (lane, newest, _hash_at(db, lane, newest), known[2] if known else 0),
    )


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Fold ``1, 2, 3, 7`` into ``[[1, 3], [7, 7]]``."""
    folded: list[list[int]] = []
    for number in numbers:
        if folded and folded[-1][1] == number - 1:
            folded[-1][1] = number
        else:
            folded.append([number, number])
    return folded
