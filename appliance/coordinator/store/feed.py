"""What each device has to hear: a numbered feed a device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy import insert as plain_insert

from appliance.coordinator.store.database import insert
from appliance.coordinator.store.tables import feed, feed_head
from appliance.foundation.canonical import canonical_json


def publish(tx: Connection, device: str, kind: str, payload: Mapping[str, Any], now: str) -> int:
    """Add a change to a device's feed and return its position.

    The position comes from a counter row that stays locked until commit, so a reader that saw position N saw all before it.
    """
    first = insert(tx, feed_head).values(device=device, position=1)
    step = first.on_conflict_do_update(index_elements=[feed_head.c.device], set_={"position": feed_head.c.position + 1})
    position = int(tx.execute(step.returning(feed_head.c.position)).scalar_one())
    tx.execute(
        plain_insert(feed).values(device=device, position=position, kind=kind, payload=canonical_json(payload), at_utc=now),
    )
    return position


def newest(tx: Connection, device: str) -> int:
    """Return the position of the newest change, 0 when there is none."""
    return int(tx.execute(select(feed_head.c.position).where(feed_head.c.device == device)).scalar() or 0)


def after(tx: Connection, device: str, position: int, limit: int) -> list[dict[str, Any]]:
    """Return up to ``limit`` changes after ``position``, in order: ``{position, kind, payload, at_utc}``."""
    columns = (feed.c.position, feed.c.kind, feed.c.payload, feed.c.at_utc)
    query = select(*columns).where(feed.c.device == device, feed.c.position > position).order_by(feed.c.position).limit(limit)
    return [dict(row) | {"payload": json.loads(row["payload"])} for row in tx.execute(query).mappings()]
