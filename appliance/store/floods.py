"""Floods and which activations they hold. Opening and closing are operations of lane P0."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

from appliance.contracts.alarm import Alarm
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.flood import Flood, FloodSummary
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.alarms import to_alarm
from appliance.store.columns import to_utc, to_utc_or_none, utc_text

SURROUNDINGS = """SELECT (SELECT count(*) FROM flood WHERE closed_utc IS NULL) AS floods,
    (SELECT count(*) FROM admission WHERE status = 'queued' AND kind = 'alarm') AS waiting"""
"""Query of what tells whether an alarm may stand alone: floods under way, and alarms that wait (itself included)."""

MEMBER = "SELECT flood_id FROM flood_member WHERE activation_id = ?"
"""Query of the flood that an activation belongs to."""


def open_flood(tx: Transaction, clock: Clock, ids: IdSource, *, session_id: str, lane: str) -> Flood:
    """Begin a flood in a conversation. Appends ``flood.opened`` (P0).

    Raises:
        Refused: there is one already.
    """
    if (running := current(tx)) is not None:
        raise Refused(f"flood {running.id} is not over", flood=running.id)
    flood_id, now = ids.mint("fl"), utc_text(clock.utc())
    tx.execute(
        "INSERT INTO flood (id, session_id, lane, told_count, opened_utc, newest_mono_ns, boot_id) VALUES (?, ?, ?, 0, ?, ?, ?)",
        (flood_id, session_id, lane, now, clock.monotonic_ns(), clock.boot_id),
    )
    operations.append(tx, clock, OperationLane.P0, "flood.opened", flood_id, {"session": session_id, "lane": lane})
    return by_id(tx, flood_id)


def add(tx: Transaction, clock: Clock, flood_id: str, activations: Sequence[str]) -> None:
    """Take activations in; those there already stay. The flood lasts from here on."""
    tx.execute(
        "INSERT OR REPLACE INTO flood_member (activation_id, flood_id)"
        " SELECT activation_id, ? FROM alarm WHERE activation_id IN (SELECT value FROM json_each(?))",
        (flood_id, json.dumps(list(activations))),
    )
    tx.execute("UPDATE flood SET newest_mono_ns = ?, boot_id = ? WHERE id = ?", (clock.monotonic_ns(), clock.boot_id, flood_id))


def bind_sessions(tx: Transaction, flood: Flood) -> None:
    """Put every member that has no conversation yet, and those that follow one, into the flood's, which it never leaves."""
    for column in ("activation_id", "leader"):
        tx.execute(
            "UPDATE alarm SET session_id = ? WHERE session_id IS NULL"
            f" AND {column} IN (SELECT activation_id FROM flood_member WHERE flood_id = ?)",
            (flood.session_id, flood.id),
        )


def told(tx: Transaction, flood_id: str, count: int) -> None:
    """Note the number that was told, or is about to be."""
    tx.execute("UPDATE flood SET told_count = ? WHERE id = ?", (count, flood_id))


def close(tx: Transaction, clock: Clock, flood_id: str) -> Flood:
    """End a flood: what comes from now on is not part of it. Appends ``flood.closed`` (P0) with its number.

    Raises:
        Refused: no such flood, or it is over already.
    """
    if by_id(tx, flood_id).closed_utc is not None:
        raise Refused(f"flood {flood_id} is over already", flood=flood_id)
    tx.execute("UPDATE flood SET closed_utc = ? WHERE id = ?", (utc_text(clock.utc()), flood_id))
    operations.append(tx, clock, OperationLane.P0, "flood.closed", flood_id, {"alarms": count(tx, flood_id)})
    return by_id(tx, flood_id)


def calm_down(tx: Transaction) -> list[Flood]:
    """Mark the floods that are over and whose alarms are all gone; return those that were not marked before, oldest first.

    An alarm that came back since is not gone.
    """
    rows = tx.execute(
        "UPDATE flood SET is_calm = 1 WHERE is_calm = 0 AND closed_utc IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM flood_member JOIN alarm USING (activation_id) JOIN alarm now ON now.alarm_id = alarm.alarm_id"
        "  WHERE flood_id = flood.id AND now.cleared_utc IS NULL)"
        " RETURNING *"
    )
    return [to_flood(row) for row in sorted(rows.fetchall(), key=lambda row: row["seq"])]


def current(tx: Transaction) -> Flood | None:
    """Return the flood under way, or None."""
    row = tx.execute("SELECT * FROM flood WHERE closed_utc IS NULL").fetchone()
    return None if row is None else to_flood(row)


def by_id(tx: Transaction, flood_id: str) -> Flood:
    """Return one flood.

    Raises:
        Refused: no such flood.
    """
    row = tx.execute("SELECT * FROM flood WHERE id = ?", (flood_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no flood {flood_id}", flood=flood_id)
    return to_flood(row)


def count(tx: Transaction, flood_id: str) -> int:
    """Return how many activations a flood has had."""
    return int(tx.execute("SELECT count(*) FROM flood_member WHERE flood_id = ?", (flood_id,)).fetchone()[0])


def flood_of(tx: Transaction, activation_id: str) -> Flood | None:
    """Return the flood an activation belongs to, or None."""
    row = tx.execute(MEMBER, (activation_id,)).fetchone()
    return None if row is None else by_id(tx, row["flood_id"])


def members(tx: Transaction, flood_id: str) -> list[Alarm]:
    """Return a flood's activations in the order they came."""
    rows = tx.execute(
        "SELECT alarm.* FROM flood_member JOIN alarm USING (activation_id) WHERE flood_id = ? ORDER BY alarm.seq", (flood_id,)
    )
    return [to_alarm(row) for row in rows]


def is_found(tx: Transaction, flood_id: str) -> bool:
    """Whether every activation of a flood was found to be there already: nobody saw them come."""
    row = tx.execute(
        "SELECT min(is_state) AS is_found FROM flood_member JOIN alarm_event USING (activation_id)"
        " WHERE flood_id = ? AND change = 'raised' AND disposition IN ('announce', 'flood')",
        (flood_id,),
    ).fetchone()
    return bool(row["is_found"])


def summary(alarms: Sequence[Alarm], first: Alarm, *, is_found: bool = False) -> FloodSummary:
    """Count a flood's activations. ``first`` is the first-out among them; ``is_found``: all were there before anybody looked."""
    active = [alarm for alarm in alarms if alarm.cleared_utc is None]
    return FloodSummary(
        count=len(alarms),
        active=len(active),
        unacknowledged=sum(alarm.acknowledged_utc is None for alarm in active),
        first=first,
        by_priority=Counter(alarm.priority for alarm in alarms),
        by_asset=Counter(alarm.asset for alarm in alarms),
        active_by_priority=Counter(alarm.priority for alarm in active),
        active_by_asset=Counter(alarm.asset for alarm in active),
        is_found=is_found,
    )


def to_flood(row: sqlite3.Row) -> Flood:
    """Read a row of ``flood``."""
    return Flood(
        id=row["id"],
        session_id=row["session_id"],
        lane=row["lane"],
        told_count=row["told_count"],
        opened_utc=to_utc(row["opened_utc"]),
        newest_mono_ns=row["newest_mono_ns"],
        boot_id=row["boot_id"],
        closed_utc=to_utc_or_none(row["closed_utc"]),
    )
