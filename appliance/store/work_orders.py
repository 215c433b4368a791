"""Work orders as this appliance knows them. The coordinator numbers and closes them; until it is heard of they have an id of ours
only, and are at most said to be done."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import to_utc, utc_text

OPEN = "open"
DONE_REQUESTED = "done_requested"
"""Said here to be done; the coordinator has not said so yet."""

LONGEST_DETAIL = 20_000  # characters, as the coordinator takes
_CLOSED = frozenset({"done", "cancelled"})


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """``number`` is None until the coordinator gave one; ``status`` is ``open`` until it says otherwise."""

    id: str
    turn_id: str | None
    asset: str
    title: str
    detail: str
    number: str | None
    status: str
    created_utc: datetime


def create(
    tx: Transaction, clock: Clock, *, order_id: str, turn_id: str | None, asset: str, title: str, detail: str
) -> WorkOrder:
    """Insert the order and the operation ``work_order.created`` that tells the coordinator."""
    created_utc = utc_text(clock.utc())
    tx.execute(
        """INSERT INTO work_order (id, turn_id, asset, title, detail, number, status, created_utc)
           VALUES (?, ?, ?, ?, ?, NULL, ?, ?)""",
        (order_id, turn_id, asset, title, detail, OPEN, created_utc),
    )
    payload = {
        "id": order_id,
        "asset": asset,
        "title": title,
        "detail": detail,
        "turn_id": turn_id,
        "created_utc": created_utc,
    }
    operations.append(tx, clock, OperationLane.P2, "work_order.created", order_id, payload)
    return WorkOrder(order_id, turn_id, asset, title, detail, None, OPEN, to_utc(created_utc))


def load(tx: Transaction, order_id: str) -> WorkOrder | None:
    """Return one order, or None."""
    row = tx.execute("SELECT * FROM work_order WHERE id = ?", (order_id,)).fetchone()
    return None if row is None else _order(row)


def newest_of(tx: Transaction, asset: str) -> WorkOrder | None:
    """Return the newest order of an asset that is not closed; the newest of all when every one is; None when there is none."""
    newest = "SELECT * FROM work_order WHERE asset = ? ORDER BY status IN ('done', 'cancelled'), seq DESC LIMIT 1"
    row = tx.execute(newest, (asset,)).fetchone()
    return None if row is None else _order(row)


def update(tx: Transaction, clock: Clock, order: WorkOrder, *, note: str, done: bool, turn_id: str | None, by: str) -> WorkOrder:
    """Append a note (may be empty) to an order, and note that it is said to be done. Operation: ``work_order.updated``.

    Raises:
        Refused: it is closed already, or its detail would be too long.
    """
    if order.status in _CLOSED:
        closed = Refused(f"the work order {order.number or order.id} is {order.status} already", order=order.id)
        raise closed.worded("work_order_closed", asset=order.asset)
    detail = "\n".join(part for part in (order.detail, note) if part)
    if len(detail) > LONGEST_DETAIL:
        full = Refused(f"the work order {order.number or order.id} has no room for another note", order=order.id)
        raise full.worded("work_order_full", asset=order.asset)
    status = DONE_REQUESTED if done else order.status
    tx.execute("UPDATE work_order SET detail = ?, status = ? WHERE id = ?", (detail, status, order.id))
    payload = {"id": order.id, "note": note, "done": done, "by": by, "turn_id": turn_id, "updated_utc": utc_text(clock.utc())}
    operations.append(tx, clock, OperationLane.P2, "work_order.updated", order.id, payload)
    return replace(order, detail=detail, status=status)


def heard_of(tx: Transaction, order_id: str, *, number: str, status: str) -> bool:
    """Note what the coordinator says about an order; return whether that was news. An unknown order is nothing of ours."""
    changed = tx.execute(
        "UPDATE work_order SET number = ?, status = ? WHERE id = ? AND (number IS NOT ? OR status <> ?)",
        (number, status, order_id, number, status),
    )
    return changed.rowcount > 0


def _order(row: sqlite3.Row) -> WorkOrder:
    return WorkOrder(
        id=row["id"],
        turn_id=row["turn_id"],
        asset=row["asset"],
        title=row["title"],
        detail=row["detail"],
        number=row["number"],
        status=row["status"],
        created_utc=to_utc(row["created_utc"]),
    )
