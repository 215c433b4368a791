"""Alarms: one row an activation, from raised to normal. Every change is an operation of lane P0 and counts its revision up."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from appliance.contracts.alarm import Alarm, AlarmChange, AlarmEvent, AlarmState
from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import to_utc, to_utc_or_none, utc_text

_INSERT = """INSERT INTO alarm (activation_id, alarm_id, source, asset, priority, state, value, unit, source_utc, source_mono_ns,
    raised_utc, raised_mono_ns, raised_boot_id, raised_after, cleared_utc)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(seq), 0) FROM admission), ?)"""

_IS_TOLD = """NOT EXISTS (SELECT 1 FROM alarm_event e WHERE e.activation_id = alarm.activation_id AND e.change = 'raised'
                    AND e.disposition IN ('shelved', 'suppressed', 'out_of_service'))"""


def _since_boots(boot_id: str, mono_ns: str) -> str:
    """SQL of a text that orders moments: by boot, in the order of their epochs, and then by its monotonic clock. Wall time may be
    set between any two of them."""
    return f"printf('%010d %020d', coalesce((SELECT max(epoch) FROM owner WHERE boot_id = {boot_id}), 0), coalesce({mono_ns}, 0))"


_RAISED = _since_boots("alarm.raised_boot_id", "alarm.raised_mono_ns")
# A flood's words told of what was there when they were made; those of an alarm that chatters tell of its later raises too.
_SOUNDED = f"""(SELECT max({_since_boots("d.ended_boot_id", "d.ended_mono_ns")})
    FROM announcement a JOIN delivery d ON d.turn_id IN (a.turn_id, a.last_turn_id)
    WHERE (a.subject IN (alarm.activation_id, alarm.leader)
           OR a.subject IN (SELECT flood_id FROM flood_member m WHERE m.activation_id IN (alarm.activation_id, alarm.leader))
              AND (alarm.leader IS NOT NULL OR {_since_boots("d.boot_id", "d.queued_mono_ns")} >= {_RAISED}))
    AND d.channel = 'speech' AND d.status = 'delivered'
    AND {_since_boots("d.ended_boot_id", "coalesce(d.first_audio_mono_ns, d.ended_mono_ns)")}
        <= {_since_boots("said.boot_id", "said.admitted_mono_ns")})"""
_BEFORE_INPUT = f"""SELECT alarm.*, said.door = 'voice' AS is_voice, {_SOUNDED} AS sounded
    FROM alarm JOIN admission said ON said.id = ?
    WHERE state <> 'normal' AND raised_after < said.seq AND {_IS_TOLD}
    AND (NOT is_voice OR acknowledged_utc IS NOT NULL OR sounded IS NOT NULL)
    ORDER BY iif(is_voice, sounded, NULL), alarm.seq"""
_BEFORE_MOMENT = f"""SELECT * FROM alarm WHERE state <> 'normal' AND {_IS_TOLD}
    AND NOT EXISTS (SELECT 1 FROM alarm_event e WHERE e.activation_id = alarm.activation_id
                    AND e.boot_id = ? AND e.journalled_mono_ns > ?) ORDER BY seq"""


def apply(
    tx: Transaction,
    clock: Clock,
    definition: AlarmDefinition,
    event: AlarmEvent,
    state: AlarmState,
    *,
    activation_id: str | None = None,
) -> Alarm:
    """Store what a source reported: a new activation, or a known one's new ``state``. Appends ``alarm.<change>`` (P0).

    ``activation_id`` is the activation it is counted to where that is not the event's own. A raise that brings nothing new
    changes nothing. A clear keeps the value that raised the alarm.
    """
    activation_id = activation_id or event.activation_id
    now = utc_text(clock.utc())
    cleared = event.change is AlarmChange.CLEARED
    known = by_activation(tx, activation_id)
    if known is None:
        tx.execute(
            _INSERT,
            (
                activation_id,
                definition.id,
                event.source,
                definition.asset,
                definition.priority,
                state,
                event.value,
                event.unit,
                utc_text(event.source_utc) if event.source_utc else None,
                event.source_mono_ns,
                now,
                clock.monotonic_ns(),
                clock.boot_id,
                now if cleared else None,
            ),
        )
    elif cleared:
        if known.state is state and known.cleared_utc is not None:
            return known
        _change(tx, activation_id, "state = ?, cleared_utc = coalesce(cleared_utc, ?)", state, now)
    else:
        if (known.state, known.value, known.unit) == (state, event.value, event.unit):
            return known
        _change(tx, activation_id, "state = ?, value = ?, unit = ?", state, event.value, event.unit)
    return _told(tx, clock, activation_id, str(event.change), {})


def acknowledge(tx: Transaction, clock: Clock, activation_id: str, by: str, state: AlarmState) -> Alarm:
    """Bind an acknowledgement to activation and person; the first one stays. Appends ``alarm.acknowledged`` (P0).

    Raises:
        Refused: no such activation.
    """
    known = required(tx, activation_id)
    if known.acknowledged_utc is not None and known.state is state:
        return known
    columns = "state = ?, acknowledged_utc = coalesce(acknowledged_utc, ?), acknowledged_by = coalesce(acknowledged_by, ?)"
    _change(tx, activation_id, columns, state, utc_text(clock.utc()), by)
    return _told(tx, clock, activation_id, "acknowledged", {"by": required(tx, activation_id).acknowledged_by})


def reset(tx: Transaction, clock: Clock, activation_id: str, by: str, state: AlarmState) -> Alarm:
    """Store that a person reset a latched alarm. Appends ``alarm.reset`` (P0).

    Raises:
        Refused: no such activation.
    """
    required(tx, activation_id)
    _change(tx, activation_id, "state = ?", state)
    return _told(tx, clock, activation_id, "reset", {"by": by})


def close(tx: Transaction, clock: Clock, activation_id: str, by: str, reason: str) -> Alarm:
    """Store that a person closed an activation whose end never came. Appends ``alarm.closed`` (P0).

    Raises:
        Refused: no such activation.
    """
    required(tx, activation_id)
    _change(tx, activation_id, "state = ?, cleared_utc = coalesce(cleared_utc, ?)", AlarmState.NORMAL, utc_text(clock.utc()))
    return _told(tx, clock, activation_id, "closed", {"by": by, "reason": reason})


def bind_session(tx: Transaction, activation_id: str, session_id: str) -> None:
    """Put an activation, and those that follow it, into its conversation, which it never leaves. The same again changes nothing.

    Raises:
        Refused: no such activation, or it belongs to another conversation.
    """
    known = required(tx, activation_id)
    if known.session_id not in (None, session_id):
        raise Refused(
            f"alarm {activation_id} belongs to conversation {known.session_id}",
            activation=activation_id,
            session=known.session_id,
        )
    tx.execute("UPDATE alarm SET session_id = ? WHERE activation_id = ?", (session_id, activation_id))
    tx.execute("UPDATE alarm SET session_id = ? WHERE leader = ? AND session_id IS NULL", (session_id, activation_id))


def follow(tx: Transaction, activation_id: str, leader: str) -> None:
    """Let an activation that has no conversation share that of ``leader``, now or as soon as that one has it."""
    if activation_id != leader:
        tx.execute(
            "UPDATE alarm SET leader = ?1, session_id = (SELECT session_id FROM alarm WHERE activation_id = ?1)"
            " WHERE activation_id = ?2 AND session_id IS NULL",
            (leader, activation_id),
        )


def by_activation(tx: Transaction, activation_id: str) -> Alarm | None:
    """Return an activation, or None if it was never heard of."""
    row = tx.execute("SELECT * FROM alarm WHERE activation_id = ?", (activation_id,)).fetchone()
    return None if row is None else to_alarm(row)


def required(tx: Transaction, activation_id: str) -> Alarm:
    """Return an activation.

    Raises:
        Refused: it was never heard of.
    """
    known = by_activation(tx, activation_id)
    if known is None:
        raise Refused(f"there is no alarm {activation_id}", activation=activation_id).worded("no_such_activation")
    return known


def live(tx: Transaction) -> list[Alarm]:
    """Return the activations that are not back to normal, oldest first."""
    return [to_alarm(row) for row in tx.execute("SELECT * FROM alarm WHERE state <> 'normal' ORDER BY seq")]


def told_before(tx: Transaction, admission_id: str) -> list[Alarm]:
    """Return the live activations somebody may have meant by an input: raised before it was admitted (by sequence), not held.

    Who types may have read of them: the one raised last is last. Who speaks knows what was heard, of an alarm's own words or of
    its flood's from then on, or what somebody has acknowledged: the one heard last is last.
    """
    return [to_alarm(row) for row in tx.execute(_BEFORE_INPUT, (admission_id,))]


def unchanged_since(tx: Transaction, clock: Clock, mono_ns: int) -> list[Alarm]:
    """Return the live activations somebody may have meant at a moment of this boot, oldest first: nothing came in about them
    since then, and they are not held."""
    return [to_alarm(row) for row in tx.execute(_BEFORE_MOMENT, (clock.boot_id, mono_ns))]


def active(tx: Transaction, alarm_id: str) -> list[Alarm]:
    """Return the activations of an alarm whose cause is still there, newest first."""
    rows = tx.execute("SELECT * FROM alarm WHERE alarm_id = ? AND cleared_utc IS NULL ORDER BY seq DESC", (alarm_id,))
    return [to_alarm(row) for row in rows]


def to_alarm(row: sqlite3.Row) -> Alarm:
    """Read a row of ``alarm``."""
    return Alarm(
        activation_id=row["activation_id"],
        alarm_id=row["alarm_id"],
        source=row["source"],
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
        revision=row["revision"],
        source_utc=to_utc_or_none(row["source_utc"]),
    )


def _change(tx: Transaction, activation_id: str, columns: str, *values: object) -> None:
    tx.execute(f"UPDATE alarm SET {columns}, revision = revision + 1 WHERE activation_id = ?", (*values, activation_id))


def _told(tx: Transaction, clock: Clock, activation_id: str, what: str, facts: Mapping[str, Any]) -> Alarm:
    alarm = required(tx, activation_id)
    payload = {
        "alarm": alarm.alarm_id,
        "asset": alarm.asset,
        "priority": alarm.priority,
        "state": str(alarm.state),
        "value": alarm.value,
        "unit": alarm.unit,
        "by": None,
        **facts,
    }
    operations.append(tx, clock, OperationLane.P0, f"alarm.{what}", activation_id, payload)
    return alarm
