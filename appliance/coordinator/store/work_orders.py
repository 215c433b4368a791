"""Work orders: one row each, numbered for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select, update
from sqlalchemy import insert as plain_insert

from appliance.coordinator.store.database import insert
from appliance.coordinator.store.tables import counter, work_order


def spelled(number: int) -> str:
    """Return the number as people write it: ``WO-000001``."""
    return f"WO-{number:06d}"


def load(tx: Connection, identity: str, *, for_update: bool = False) -> dict[str, Any] | None:
    """Return one work order, or None; ``for_update`` keeps others from changing it until the transaction ends."""
    query = select(work_order).where(work_order.c.id == identity)
    row = tx.execute(query.with_for_update() if for_update else query).mappings().first()
    return _shown(row) if row else None


def create(
    tx: Connection, identity: str, *, device: str | None, asset: str, title: str, detail: str, created_utc: str, now: str
) -> dict[str, Any]:
    """Add a work order under the next number. The caller has made sure that the id is new."""
    first = insert(tx, counter).values(name="work_order", value=1)
    step = first.on_conflict_do_update(index_elements=[counter.c.name], set_={"value": counter.c.value + 1})
    row = {
        "id": identity,
        "number": int(tx.execute(step.returning(counter.c.value)).scalar_one()),
        "device": device,
        "asset": asset,
        "title": title,
        "detail": detail,
        "status": "open",
        "version": 1,
        "created_utc": created_utc,
        "updated_utc": now,
    }
    tx.execute(plain_insert(work_order).values(row))
    return _shown(row)


def change(tx: Connection, identity: str, fields: Mapping[str, Any], version: int, now: str) -> None:
    """Set ``fields`` of a work order loaded for update and give it ``version``."""
    tx.execute(update(work_order).where(work_order.c.id == identity).values(**fields, version=version, updated_utc=now))


def list_some(tx: Connection, device: str | None, after: int, limit: int) -> list[dict[str, Any]]:
    """Return work orders with a number above ``after``, by number; of one device or of all."""
    query = select(work_order).where(work_order.c.number > after).order_by(work_order.c.number).limit(limit)
    if device is not None:
        query = query.where(work_order.c.device == device)
    return [_shown(row) for row in tx.execute(query).mappings()]


def _shown(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in row.items()} | {"number": spelled(row["number"])}
