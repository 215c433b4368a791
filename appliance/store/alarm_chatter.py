"""Alarms that come and go too often: one row while an alarm chatters, with the activation that began it and the count."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from appliance.contracts.clock import Clock
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import utc_text


@dataclass(frozen=True, slots=True)
class Chatter:
    """An alarm that chatters. ``raises`` counts from ``leader`` on; ``calm_s`` is how long it has not been raised."""

    alarm_id: str
    leader: str
    raises: int
    calm_s: float


def begin(tx: Transaction, clock: Clock, alarm_id: str, leader: str, raises: int) -> None:
    """Note that an alarm chatters since its activation ``leader``, ``raises`` times so far. Appends ``alarm.chatters`` (P0)."""
    tx.execute(
        "INSERT INTO alarm_chatter (alarm_id, leader, raises, since_utc, last_mono_ns, boot_id) VALUES (?, ?, ?, ?, ?, ?)",
        (alarm_id, leader, raises, utc_text(clock.utc()), clock.monotonic_ns(), clock.boot_id),
    )
    operations.append(tx, clock, OperationLane.P0, "alarm.chatters", alarm_id, {"leader": leader, "raises": raises})


def raised_again(tx: Transaction, clock: Clock, alarm_id: str) -> None:
    """Count a raise of an alarm that chatters."""
    tx.execute(
        "UPDATE alarm_chatter SET raises = raises + 1, last_mono_ns = ?, boot_id = ? WHERE alarm_id = ?",
        (clock.monotonic_ns(), clock.boot_id, alarm_id),
    )


def end(tx: Transaction, clock: Clock, alarm_id: str) -> None:
    """Note that it chatters no more. Appends ``alarm.chattered`` (P0) with the count."""
    row = tx.execute("DELETE FROM alarm_chatter WHERE alarm_id = ? RETURNING leader, raises", (alarm_id,)).fetchone()
    if row is not None:
        facts = {"leader": row["leader"], "raises": row["raises"]}
        operations.append(tx, clock, OperationLane.P0, "alarm.chattered", alarm_id, facts)


def of_alarm(tx: Transaction, clock: Clock, alarm_id: str) -> Chatter | None:
    """Return an alarm's chatter, None when there is none."""
    row = tx.execute("SELECT * FROM alarm_chatter WHERE alarm_id = ?", (alarm_id,)).fetchone()
    return None if row is None else _chatter(row, clock)


def all_of_them(tx: Transaction, clock: Clock) -> list[Chatter]:
    """Return every alarm that chatters."""
    return [_chatter(row, clock) for row in tx.execute("SELECT * FROM alarm_chatter ORDER BY alarm_id")]


def _chatter(row: sqlite3.Row, clock: Clock) -> Chatter:
    # Over a reboot there is no saying how long it has been calm; whatever comes now is told.
    is_this_boot = row["boot_id"] == clock.boot_id
    calm_s = (clock.monotonic_ns() - row["last_mono_ns"]) / 1e9 if is_this_boot else float("inf")
    return Chatter(row["alarm_id"], row["leader"], row["raises"], calm_s)
