"""The alarm journal: every event once, with what became of it. A row is the event's record also when nothing was said."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from appliance.contracts.alarm import AlarmChange, AlarmEvent, Disposition
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.store import Transaction
from appliance.foundation.canonical import digest
from appliance.store.columns import to_utc_or_none, utc_text

_NO_NEWS = "('repeat', 'merged', 'state')"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the journal."""

    seq: int
    event: AlarmEvent
    digest: str
    activation_id: str
    disposition: Disposition
    admission_id: str | None
    duplicates: int
    journalled_mono_ns: int
    boot_id: str


def journal(
    tx: Transaction,
    clock: Clock,
    event: AlarmEvent,
    *,
    activation_id: str,
    admission_id: str | None,
    disposition: Disposition,
    epoch: int | None,
) -> int:
    """Write an event down and return its number. ``activation_id`` is the activation it is counted to."""
    return int(
        tx.execute(
            """INSERT INTO alarm_event (key, digest, source, alarm_id, activation, told_id, activation_id, change, value, unit,
                   source_utc, source_mono_ns, sequence, is_state, was_missed, disposition, admission_id, epoch, journalled_utc,
                   journalled_mono_ns, boot_id, clock_synced)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                event.dedupe_key,
                digest_of(event),
                event.source,
                event.alarm_id,
                event.activation,
                event.activation_id,
                activation_id,
                event.change,
                event.value,
                event.unit,
                utc_text(event.source_utc) if event.source_utc else None,
                event.source_mono_ns,
                event.sequence,
                event.is_state,
                event.was_missed,
                disposition,
                admission_id,
                epoch,
                utc_text(clock.utc()),
                clock.monotonic_ns(),
                clock.boot_id,
                clock.is_synced,
            ),
        ).lastrowid
        or 0
    )


def redispose(tx: Transaction, admission_id: str, disposition: Disposition) -> None:
    """Change what becomes of an event that waits to be announced: it became part of a flood.

    Raises:
        Refused: no event was admitted as ``admission_id``.
    """
    changed = tx.execute("UPDATE alarm_event SET disposition = ? WHERE admission_id = ?", (disposition, admission_id))
    if changed.rowcount == 0:
        raise Refused(f"no alarm event was admitted as {admission_id}", admission=admission_id)


def hold_otherwise(tx: Transaction, seq: int, disposition: Disposition) -> None:
    """Say that something else keeps an event from being announced now."""
    tx.execute("UPDATE alarm_event SET disposition = ? WHERE seq = ?", (disposition, seq))


def announce_late(tx: Transaction, seq: int, admission_id: str) -> None:
    """Say that an event that was held is announced after all, by ``admission_id``."""
    tx.execute("UPDATE alarm_event SET disposition = 'announce', admission_id = ? WHERE seq = ?", (admission_id, seq))


def came_again(tx: Transaction, seq: int) -> None:
    """Count a duplicate."""
    tx.execute("UPDATE alarm_event SET duplicates = duplicates + 1 WHERE seq = ?", (seq,))


def by_key(tx: Transaction, key: str) -> Entry | None:
    """Return the event with a duplicate key, or None."""
    row = tx.execute("SELECT * FROM alarm_event WHERE key = ?", (key,)).fetchone()
    return None if row is None else to_entry(row)


def counted_to(tx: Transaction, told_id: str) -> str | None:
    """Return the activation another source had raised, which an activation of this source was counted to; None if it was not."""
    row = tx.execute(
        "SELECT activation_id FROM alarm_event WHERE told_id = ? AND told_id <> activation_id ORDER BY seq LIMIT 1", (told_id,)
    ).fetchone()
    return None if row is None else str(row["activation_id"])


def raise_of(tx: Transaction, activation_id: str) -> Entry | None:
    """Return the raise that began an activation, None when only its clear was heard of."""
    row = tx.execute(
        f"SELECT * FROM alarm_event WHERE activation_id = ? AND change = 'raised' AND disposition NOT IN {_NO_NEWS}"
        " ORDER BY seq LIMIT 1",
        (activation_id,),
    ).fetchone()
    return None if row is None else to_entry(row)


def recent_raises(tx: Transaction, clock: Clock, alarm_id: str, window_s: float) -> list[str]:
    """Return the activations of an alarm raised within the last ``window_s`` of this boot, oldest first, without held ones."""
    rows = tx.execute(
        "SELECT activation_id FROM alarm_event WHERE alarm_id = ? AND boot_id = ? AND journalled_mono_ns > ?"
        " AND change = 'raised' AND disposition IN ('announce', 'chatter', 'flood') ORDER BY seq",
        (alarm_id, clock.boot_id, clock.monotonic_ns() - int(window_s * 1e9)),
    )
    return [str(row["activation_id"]) for row in rows]


def digest_of(event: AlarmEvent) -> str:
    """Return the digest of what an event told: a resend tells the same, whether it is retained or found late."""
    told = event.to_payload()
    del told["is_state"], told["was_missed"]
    return digest(told)


def to_entry(row: sqlite3.Row) -> Entry:
    """Read a row of ``alarm_event``."""
    event = AlarmEvent(
        source=row["source"],
        alarm_id=row["alarm_id"],
        activation=row["activation"],
        change=AlarmChange(row["change"]),
        value=row["value"],
        unit=row["unit"],
        source_utc=to_utc_or_none(row["source_utc"]),
        source_mono_ns=row["source_mono_ns"],
        sequence=row["sequence"],
        is_state=bool(row["is_state"]),
        was_missed=bool(row["was_missed"]),
    )
    return Entry(
        seq=row["seq"],
        event=event,
        digest=row["digest"],
        activation_id=row["activation_id"],
        disposition=Disposition(row["disposition"]),
        admission_id=row["admission_id"],
        duplicates=row["duplicates"],
        journalled_mono_ns=row["journalled_mono_ns"],
        boot_id=row["boot_id"],
    )
