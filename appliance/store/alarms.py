"""Alarms: one row an activation, from raised to normal. Every change is an operation of lane P0."""

from __future__ import annotations

import sqlite3

from appliance.contracts.alarm import Alarm, AlarmChange, AlarmEvent, AlarmState
from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import to_utc, to_utc_or_none, utc_text


def apply(tx: Transaction, clock: Clock, definition: AlarmDefinition, event: AlarmEvent, state: AlarmState) -> Alarm:
    """Store what a source reported: a new activation, or a known one's new ``state``. Appends ``alarm.<change>`` (P0).

    A raise that brings nothing new changes nothing. A clear keeps the value that raised the alarm.
    """
    now = utc_text(clock.utc())
    cleared = event.change is AlarmChange.CLEARED
    known = by_activation(tx, event.activation_id)
    if known is None:
        tx.execute(
            "INSERT INTO alarm (activation_id, alarm_id, asset, priority, state, value, unit, source_utc, source_mono_ns,"
            " raised_utc, raised_mono_ns, cleared_utc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                event.activation_id,
                definition.id,
                definition.asset,
                definition.priority,
                state,
                event.value,
                event.unit,
                utc_text(event.source_utc) if event.source_utc else None,
                event.source_mono_ns,
                now,
                clock.monotonic_ns(),
                now if cleared else None,
            ),
        )
    elif cleared:
        if known.state is state and known.cleared_utc is not None:
            return known
        tx.execute(
            "UPDATE alarm SET state = ?, cleared_utc = coalesce(cleared_utc, ?) WHERE activation_id = ?",
            (state, now, event.activation_id),
        )
    else:
        if (known.state, known.value, known.unit) == (state, event.value, event.unit):
            return known
        tx.execute(
            "UPDATE alarm SET state = ?, value = ?, unit = ? WHERE activation_id = ?",
            (state, event.value, event.unit, event.activation_id),
        )
    return _told(tx, clock, event.activation_id, str(event.change))


def acknowledge(tx: Transaction, clock: Clock, activation_id: str, by: str, state: AlarmState) -> Alarm:
    """Bind an acknowledgement to activation and person; the first one stays. Appends ``alarm.acknowledged`` (P0).

    Raises:
        Refused: no such activation.
    """
    known = _required(tx, activation_id)
    if known.acknowledged_utc is not None and known.state is state:
        return known
    tx.execute(
        "UPDATE alarm SET state = ?, acknowledged_utc = coalesce(acknowledged_utc, ?),"
        " acknowledged_by = coalesce(acknowledged_by, ?) WHERE activation_id = ?",
        (state, utc_text(clock.utc()), by, activation_id),
    )
    return _told(tx, clock, activation_id, "acknowledged")


def bind_session(tx: Transaction, activation_id: str, session_id: str) -> None:
    """Put an activation into its conversation, which it never leaves. The same again changes nothing.

    Raises:
        Refused: no such activation, or it belongs to another conversation.
    """
    known = _required(tx, activation_id)
    if known.session_id not in (None, session_id):
        raise Refused(
            f"alarm {activation_id} belongs to conversation {known.session_id}",
            activation=activation_id,
            session=known.session_id,
        )
    tx.execute("UPDATE alarm SET session_id = ? WHERE activation_id = ?", (session_id, activation_id))


def by_activation(tx: Transaction, activation_id: str) -> Alarm | None:
    """Return an activation, or None if it was never heard of."""
    row = tx.execute("SELECT * FROM alarm WHERE activation_id = ?", (activation_id,)).fetchone()
    return None if row is None else to_alarm(row)


def live(tx: Transaction) -> list[Alarm]:
    """Return the activations that are not back to normal, oldest first."""
    return [to_alarm(row) for row in tx.execute("SELECT * FROM alarm WHERE state <> 'normal' ORDER BY seq")]


def to_alarm(row: sqlite3.Row) -> Alarm:
    """Read a row of ``alarm``."""
    return Alarm(
        activation_id=row["activation_id"],
        alarm_id=row["alarm_id"],
        asset=row["asset"],
        priority=row["priority"],
        state=AlarmState(row["state"]),
        value=row["value"],
        unit=row["unit"],
        session_id=row["session_id"],
        raised_utc=to_utc(row["raised_utc"]),
        cleared_utc=to_utc_or_none(row["cleared_utc"]),
        acknowledged_utc=to_utc_or_none(row["acknowledged_utc"]),
        acknowledged_by=row["acknowledged_by"],
    )


def _required(tx: Transaction, activation_id: str) -> Alarm:
    known = by_activation(tx, activation_id)
    if known is None:
        raise Refused(f"there is no alarm {activation_id}", activation=activation_id)
    return known


def _told(tx: Transaction, clock: Clock, activation_id: str, what: str) -> Alarm:
    alarm = _required(tx, activation_id)
    payload = {
        "alarm": alarm.alarm_id,
        "asset": alarm.asset,
        "priority": alarm.priority,
        "state": str(alarm.state),
        "value": alarm.value,
        "unit": alarm.unit,
        "by": alarm.acknowledged_by if what == "acknowledged" else None,
    }
    operations.append(tx, clock, OperationLane.P0, f"alarm.{what}", activation_id, payload)
    return alarm
