"""Walks the hash chains of the operation log in slices, beside a running writer: what is missing, moved or altered is named (X7).

A slice is small enough that neither memory nor another reader notices; it goes on from the entry before it, whose hash the
slice before has verified. Entries are read as bytes: damage of any kind is an answer here, never an error.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Corrupt, Malformed
from appliance.contracts.operation import GENESIS_HASH, Operation, OperationLane
from appliance.contracts.store import Ledger
from appliance.foundation.hash_chain import is_intact
from appliance.store import head_witness
from appliance.store.columns import to_json
from appliance.store.faults import translate

SLICE = 1_000
"""Entries a slice: some 20 ms of work on a fast machine, 100 ms on a Pi."""

# One statement is one snapshot: a head and the newest entry fit each other however fast the writer goes on.
_HEADS = """SELECT lanes.lane, coalesce(head.seq, 0) AS seq, coalesce(head.hash, '') AS hash,
       coalesce(head.acknowledged_seq, 0) AS acknowledged,
       (SELECT max(seq) FROM operation WHERE operation.lane = lanes.lane) AS newest
    FROM (SELECT lane FROM operation_head UNION SELECT DISTINCT lane FROM operation) AS lanes
    LEFT JOIN operation_head AS head ON head.lane = lanes.lane WHERE lanes.lane = ?"""
_BYTES = ", ".join(f"CAST({name} AS BLOB) AS {name}" for name in ("kind", "entity", "payload", "at_utc", "prev_hash", "hash"))
_SLICE = f"""SELECT seq, clock_synced, {_BYTES}, (SELECT CAST(origin AS BLOB) FROM appliance) AS origin
    FROM operation WHERE lane = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"""
# What a salvage lost is stated there, with its hash as far as that is known: the chain goes on behind it.
_LOST = "SELECT seq, hash FROM operation_lost WHERE lane = ? AND what = 'lost' AND seq > ? AND seq <= ?"
_RECHAINED = "SELECT hash FROM operation_lost WHERE lane = ? AND seq = ? AND what = 'rechained'"
_HASH_AT = """SELECT CAST(hash AS BLOB) AS hash FROM operation WHERE lane = ?1 AND seq = ?2
    UNION ALL SELECT CAST(hash AS BLOB) FROM operation_lost WHERE lane = ?1 AND seq = ?2 AND what = 'lost' LIMIT 1"""


_CUT_OFF = "is missing: the lane had reached entry {}"
_NOTHING_WITNESSED: head_witness.Heads = {}


@dataclass(frozen=True, slots=True)
class Walked:
    """How far one lane was walked. ``newest`` is its head as of now; all of it is verified when ``upto`` has reached it.

    ``broken_seq`` and ``what`` name the first entry that is not as it was written; None and empty while all is well. ``lost`` are
    entries of this slice that a salvage could not save and has stated.
    """

    lane: OperationLane
    upto: int
    newest: int
    broken_seq: int | None = None
    what: str = ""
    lost: int = 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to walk: it is broken, or verified to its head."""
        return self.broken_seq is not None or self.upto >= self.newest

    def as_facts(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
        broken = None if self.broken_seq is None else {"lane": str(self.lane), "seq": self.broken_seq, "what": self.what}
        return {
            "lane": str(self.lane),
            "upto": self.upto,
            "newest": self.newest,
            "is_over": self.is_over,
            "lost": self.lost,
            "broken": broken,
        }


async def walk_slice(
    ledger: Ledger, lane: OperationLane, after: int, limit: int = SLICE, *, witnessed: head_witness.Heads = _NOTHING_WITNESSED
) -> Walked:
    """Verify at most ``limit`` entries of a lane that follow ``after``, reading beside the writer and computing on a thread.

    ``witnessed`` is what :mod:`appliance.store.head_witness` knew before this call.

    Raises:
        Malformed: there is no entry ``after``.
    """
    heads = await ledger.fetch(_HEADS, (lane,))
    before = await ledger.fetch(_HASH_AT, (lane, after)) if after else []
    entries = await ledger.fetch(_SLICE, (lane, after, heads[0]["newest"] or 0, limit)) if heads else []
    lost = await ledger.fetch(_LOST, (lane, after, after + limit))
    anchor = witnessed.get(lane)
    if anchor is not None:
        anchor = _as_chained(anchor, await ledger.fetch(_RECHAINED, (lane, anchor[0])))
    return await asyncio.to_thread(_verify, lane, after, limit, heads, before, entries, lost, anchor)


async def newest_slice(
    ledger: Ledger, lane: OperationLane, limit: int = SLICE, *, witnessed: head_witness.Heads = _NOTHING_WITNESSED
) -> Walked:
    """Verify the last ``limit`` entries of a lane and its head: what a start can afford to look at."""
    heads = await ledger.fetch(_HEADS, (lane,))
    return await walk_slice(ledger, lane, max(0, heads[0]["seq"] - limit) if heads else 0, limit, witnessed=witnessed)


def walk_file(path: Path) -> Iterator[Walked]:
    """Verify every lane of a database that nobody has open, reading only; yield each slice.

    Call it with the file's lock held (:class:`appliance.store.lock.FileLock`). It stops at the first break of a lane, and goes
    on with the next lane.

    Raises:
        Corrupt: not a database, or too damaged to be read.
        Unavailable: the file cannot be read.
    """
    # One closed in order has no write-ahead log; read as immutable, none is made (it would belong to the reader's user).
    how = "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)) as connection:
        connection.row_factory = sqlite3.Row

        def fetch(sql: str, *parameters: Any) -> list[sqlite3.Row]:
            try:
                return connection.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise translate(error, path) or Corrupt(f"{path.name} is no ledger: {error}", file=str(path)) from error

        witnessed = head_witness.read(path)
        for lane in OperationLane:
            walked, anchor = Walked(lane, 0, 1), witnessed.get(lane)
            if anchor is not None:
                anchor = _as_chained(anchor, fetch(_RECHAINED, lane, anchor[0]))
            while not walked.is_over:
                after = walked.upto
                heads = fetch(_HEADS, lane)
                before = fetch(_HASH_AT, lane, after) if after else []
                entries = fetch(_SLICE, lane, after, heads[0]["newest"] or 0, SLICE) if heads else []
                lost = fetch(_LOST, lane, after, after + SLICE)
                walked = _verify(lane, after, SLICE, heads, before, entries, lost, anchor)
                yield walked


def _verify(
    lane: OperationLane,
    after: int,
    limit: int,
    heads: Sequence[sqlite3.Row],
    before: Sequence[sqlite3.Row],
    entries: Iterable[sqlite3.Row],
    lost: Iterable[sqlite3.Row],
    anchor: tuple[int, str] | None,
) -> Walked:
    if not heads:
        return Walked(lane, 0, 0) if anchor is None else Walked(lane, 0, 0, 1, _CUT_OFF.format(anchor[0]))
    newest, head_hash, last = int(heads[0]["seq"]), str(heads[0]["hash"]), int(heads[0]["newest"] or 0)

    def broken(seq: int, what: str) -> Walked:
        return Walked(lane, seq - 1, newest, seq, what)

    if last > newest:
        return broken(newest + 1, "is there, and the lane's head does not know it")
    reached = max(int(heads[0]["acknowledged"]), anchor[0] if anchor else 0)
    if reached > newest:
        return broken(newest + 1, _CUT_OFF.format(reached))
    if after and not before:
        if after < newest:
            return broken(after, "is missing")
        raise Malformed(f"lane {lane} has no entry {after}", lane=str(lane), after=after)
    known = {row["seq"]: row for row in entries}
    stated = {row["seq"]: str(row["hash"]) for row in lost}
    prev_hash = _text(before[0]["hash"]) if after else GENESIS_HASH
    upto = min(newest, after + limit)
    for seq in range(after + 1, upto + 1):
        if seq not in known and seq in stated:
            prev_hash = stated[seq]
            continue
        if seq not in known:
            return broken(seq, "is missing")
        operation = _operation(lane, known[seq])
        if operation is None:
            return broken(seq, "cannot be read")
        is_after_unknown = prev_hash == GENESIS_HASH and seq > 1 and seq - 1 in (stated.keys() | {after})
        if operation.prev_hash != prev_hash and not is_after_unknown:
            return broken(seq, "does not follow the one before it")
        if not is_intact(operation):
            return broken(seq, "was altered")
        if anchor is not None and anchor[0] == seq and anchor[1] not in ("", operation.hash):
            return broken(seq, "is not the one that was there when the witness was written")
        prev_hash = operation.hash
    if upto == newest and prev_hash != head_hash:
        return broken(newest, "is not the one the lane's head names")
    return Walked(lane, upto, newest, lost=len(stated.keys() - known.keys()))


def _as_chained(anchor: tuple[int, str], rechained: Sequence[sqlite3.Row]) -> tuple[int, str]:
    """Return the anchor; its hash is empty if a salvage has chained just that entry anew, and stated so."""
    return (anchor[0], "") if any(row["hash"] == anchor[1] for row in rechained) else anchor


def _operation(lane: OperationLane, row: sqlite3.Row) -> Operation | None:
    """Read an entry; None when its bytes are no longer what an entry is made of."""
    try:
        payload = to_json(row["payload"].decode())
        if not isinstance(payload, dict):
            return None
        return Operation(
            origin=row["origin"].decode(),
            lane=lane,
            seq=row["seq"],
            kind=row["kind"].decode(),
            entity=row["entity"].decode(),
            payload=payload,
            at_utc=row["at_utc"].decode(),
            clock_synced=bool(row["clock_synced"]),
            prev_hash=row["prev_hash"].decode(),
            hash=row["hash"].decode(),
        )
    except (UnicodeDecodeError, json.JSONDecodeError, AttributeError, RecursionError):
        return None


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")
