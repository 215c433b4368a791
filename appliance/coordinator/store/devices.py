"""Who may push, and when they last did."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from appliance.coordinator.store.database import insert
from appliance.coordinator.store.tables import device


def by_digest(tx: Connection, digest: str) -> dict[str, Any] | None:
    """Return the device whose token has this digest, revoked or not."""
    row = tx.execute(select(device).where(device.c.token_digest == digest)).mappings().first()
    return dict(row) if row else None


def is_enrolled(tx: Connection, name: str) -> bool:
    """Whether there is such a device, and it was not revoked."""
    return tx.execute(select(device.c.name).where(device.c.name == name, device.c.revoked_utc.is_(None))).first() is not None


def enrol(tx: Connection, name: str, digest: str, now: str) -> bool:
    """Add a device, or give a revoked one a new token; its streams go on. False when the name is in use."""
    added = insert(tx, device).values(name=name, token_digest=digest, created_utc=now)
    renewed = added.on_conflict_do_update(
        index_elements=[device.c.name],
        set_={"token_digest": digest, "revoked_utc": None},
        where=device.c.revoked_utc.is_not(None),
    )
    return tx.execute(renewed.returning(device.c.name)).first() is not None


def revoke(tx: Connection, name: str, now: str) -> bool:
    """End a device's token. False when there is no such device; again is harmless."""
    known = tx.execute(select(device.c.revoked_utc).where(device.c.name == name)).first()
    if known is not None and known[0] is None:
        tx.execute(update(device).where(device.c.name == name).values(revoked_utc=now))
    return known is not None


def saw(tx: Connection, name: str, now: str) -> None:
    """Note that the device was heard of."""
    tx.execute(update(device).where(device.c.name == name).values(last_seen_utc=now))


def list_all(tx: Connection) -> list[dict[str, Any]]:
    """Return every device but its token's digest, by name."""
    columns = [column for column in device.c if column.name != "token_digest"]
    return [dict(row) for row in tx.execute(select(*columns).order_by(device.c.name)).mappings()]
