"""One stream a device and lane: its head, its operations, and those set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, update
from sqlalchemy import insert as plain_insert

from appliance.contracts.operation import GENESIS_HASH, Operation
from appliance.coordinator.store.database import insert
from appliance.coordinator.store.tables import operation, quarantine, stream_head
from appliance.foundation.canonical import canonical_json


@dataclass(frozen=True, slots=True)
class Head:
    """Newest operation held of a stream; sequence 0 is a stream that holds nothing."""

    seq: int
    hash: str


def lock_head(tx: Connection, device: str, lane: str, now: str) -> Head:
    """Return the head, and keep everybody else from this stream until the transaction ends."""
    empty = {"device": device, "lane": lane, "seq": 0, "hash": GENESIS_HASH, "updated_utc": now}
    tx.execute(insert(tx, stream_head).values(empty).on_conflict_do_nothing())
    own = (stream_head.c.device == device) & (stream_head.c.lane == lane)
    row = tx.execute(select(stream_head.c.seq, stream_head.c.hash).where(own).with_for_update()).one()
    return Head(row.seq, row.hash)


def hash_at(tx: Connection, device: str, lane: str, seq: int) -> str:
    """Return the hash held at ``seq``; the genesis hash at 0."""
    if seq == 0:
        return GENESIS_HASH
    own = (operation.c.device == device) & (operation.c.lane == lane) & (operation.c.seq == seq)
    return str(tx.execute(select(operation.c.hash).where(own)).scalar_one())


def append(tx: Connection, operations: Sequence[Operation], now: str) -> None:
    """Add operations that continue a locked stream, and move its head to the last of them."""
    rows = [
        {
            "device": op.origin,
            "lane": str(op.lane),
            "seq": op.seq,
            "kind": op.kind,
            "entity": op.entity,
            "payload": canonical_json(op.payload),
            "at_utc": op.at_utc,
            "clock_synced": int(op.clock_synced),
            "prev_hash": op.prev_hash,
            "hash": op.hash,
            "received_utc": now,
        }
        for op in operations
    ]
    tx.execute(plain_insert(operation), rows)
    last = operations[-1]
    own = (stream_head.c.device == last.origin) & (stream_head.c.lane == str(last.lane))
    tx.execute(update(stream_head).where(own).values(seq=last.seq, hash=last.hash, updated_utc=now))


def set_aside(tx: Connection, op: Operation, reason: str, now: str) -> None:
    """Record that an operation is stored but could not be acted on."""
    row = {"device": op.origin, "lane": str(op.lane), "seq": op.seq, "kind": op.kind, "entity": op.entity}
    tx.execute(plain_insert(quarantine).values(**row, reason=reason, at_utc=now))


def list_quarantine(tx: Connection, device: str | None) -> list[dict[str, Any]]:
    """Return what was set aside, oldest first; of one device or of all."""
    query = select(quarantine).order_by(quarantine.c.at_utc, quarantine.c.device, quarantine.c.lane, quarantine.c.seq)
    if device is not None:
        query = query.where(quarantine.c.device == device)
    return [dict(row) for row in tx.execute(query).mappings()]


def heads(tx: Connection, device: str) -> dict[str, dict[str, Any]]:
    """Return ``{lane: {seq, hash, updated_utc}}`` of one device."""
    columns = (stream_head.c.lane, stream_head.c.seq, stream_head.c.hash, stream_head.c.updated_utc)
    rows = tx.execute(select(*columns).where(stream_head.c.device == device, stream_head.c.seq > 0).order_by(stream_head.c.lane))
    return {row.lane: {"seq": row.seq, "hash": row.hash, "updated_utc": row.updated_utc} for row in rows}


def count(tx: Connection, device: str) -> dict[str, int]:
    """Return ``{lane: operations stored}`` of one device, counted row by row."""
    rows = tx.execute(select(operation.c.lane, func.count()).where(operation.c.device == device).group_by(operation.c.lane))
    return {row[0]: row[1] for row in rows}


def list_reports(tx: Connection, device: str | None, limit: int) -> list[Any]:
    """Return the newest report operations, newest first; of one device or of all."""
    newest = (operation.c.received_utc.desc(), operation.c.device, operation.c.lane, operation.c.seq.desc())
    query = select(operation).where(operation.c.kind == "report.committed").order_by(*newest).limit(limit)
    if device is not None:
        query = query.where(operation.c.device == device)
    return list(tx.execute(query).mappings())
