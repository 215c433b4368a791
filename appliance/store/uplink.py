"""What of the operation log is durable at the coordinator, what waits to go, and how far its changes were heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from appliance.contracts.operation import GENESIS_HASH, Operation, OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.store.operations import SELECT, to_operation

_ENVELOPE_BYTES = 320  # keys, hash and time of one operation on the wire; kind, entity and payload are counted as they are


@dataclass(frozen=True, slots=True)
class LaneHead:
    """One lane: newest entry written here, and the newest that is durable at the coordinator."""

    seq: int = 0
    hash: str = GENESIS_HASH
    acknowledged_seq: int = 0

    @property
    def pending(self) -> int:
        """Entries still to go."""
        return self.seq - self.acknowledged_seq


async def lane_heads(ledger: Ledger) -> dict[OperationLane, LaneHead]:
    """Return every lane's head; a lane never written to is empty."""
    rows = await ledger.fetch("SELECT lane, seq, hash, acknowledged_seq FROM operation_head")
    written = {OperationLane(row["lane"]): LaneHead(row["seq"], row["hash"], row["acknowledged_seq"]) for row in rows}
    return {lane: written.get(lane, LaneHead()) for lane in OperationLane}


async def next_slice(ledger: Ledger, lane: OperationLane, after: int, *, operations: int, size_bytes: int) -> list[Operation]:
    """Return the entries that follow ``after``: at most ``operations`` and ``size_bytes`` on the wire, but at least one."""
    rows = await ledger.fetch(
        f"""{SELECT}
            JOIN (SELECT lane, seq, SUM(bytes) OVER (ORDER BY seq) AS bytes_upto
                  FROM (SELECT lane, seq, {_ENVELOPE_BYTES} + LENGTH(CAST(kind || entity || payload AS BLOB)) AS bytes
                        FROM operation WHERE lane = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3)) USING (lane, seq)
            WHERE bytes_upto <= ?4 OR seq = ?2 + 1 ORDER BY seq""",
        (lane, after, operations, size_bytes),
    )
    return [to_operation(row) for row in rows]


async def hash_at(ledger: Ledger, lane: OperationLane, seq: int) -> str | None:
    """Return the hash of an entry, the genesis hash at 0, None when there is none or nobody knows it.

    An entry that was lost with a damaged ledger may still have a hash that is known (:mod:`appliance.store.salvage_lanes`).
    """
    if seq == 0:
        return GENESIS_HASH
    rows = await ledger.fetch(
        "SELECT hash FROM operation WHERE lane = ?1 AND seq = ?2"
        " UNION ALL SELECT hash FROM operation_lost WHERE lane = ?1 AND seq = ?2 AND what = 'lost' AND hash <> ''",
        (lane, seq),
    )
    return rows[0]["hash"] if rows else None


async def oldest_pending_utc(ledger: Ledger) -> dict[OperationLane, str]:
    """Return when the oldest waiting entry of each lane that has one was written."""
    rows = await ledger.fetch(
        "SELECT head.lane, op.at_utc FROM operation_head AS head"
        " JOIN operation AS op ON op.lane = head.lane AND op.seq = head.acknowledged_seq + 1"
    )
    return {OperationLane(row["lane"]): row["at_utc"] for row in rows}


def acknowledge(tx: Transaction, lane: OperationLane, seq: int) -> None:
    """Note that a lane is durable at the coordinator up to ``seq``. Never goes back, never beyond what was written."""
    tx.execute(
        "UPDATE operation_head SET acknowledged_seq = ?2 WHERE lane = ?1 AND acknowledged_seq < ?2 AND seq >= ?2", (lane, seq)
    )


def rewind(tx: Transaction, lane: OperationLane, seq: int) -> None:
    """Note that the coordinator holds a lane only up to ``seq``, and hear all of its changes again."""
    tx.execute("UPDATE operation_head SET acknowledged_seq = ?2 WHERE lane = ?1 AND acknowledged_seq > ?2", (lane, seq))
    save_cursor(tx, 0)


async def newest_of(ledger: Ledger, lane: OperationLane, kinds: Sequence[str], entity: str) -> Operation | None:
    """Return the newest entry of a lane that is of one of ``kinds`` and about ``entity``."""
    marks = ", ".join("?" * len(kinds))
    rows = await ledger.fetch(
        f"{SELECT} WHERE operation.lane = ? AND operation.entity = ? AND operation.kind IN ({marks})"
        " ORDER BY operation.seq DESC LIMIT 1",
        (lane, entity, *kinds),
    )
    return to_operation(rows[0]) if rows else None


async def cursor(ledger: Ledger) -> int:
    """Return how far the coordinator's changes were applied here."""
    rows = await ledger.fetch("SELECT cursor FROM downlink")
    return rows[0]["cursor"] if rows else 0


def cursor_in(tx: Transaction) -> int:
    """:func:`cursor` as this transaction sees it."""
    row: Mapping[str, int] | None = tx.execute("SELECT cursor FROM downlink").fetchone()
    return row["cursor"] if row is not None else 0


def save_cursor(tx: Transaction, position: int) -> None:
    """Set the cursor, in the transaction of the changes it covers."""
    tx.execute(
        "INSERT INTO downlink (one, cursor) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET cursor = excluded.cursor",
        (position,),
    )
