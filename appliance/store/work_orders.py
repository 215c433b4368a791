"""Work orders as this appliance knows them. The coordinator numbers them; until it is heard of they have an id of ours only."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from appliance.contracts.clock import Clock
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import to_utc, utc_text

OPEN = "open"


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
