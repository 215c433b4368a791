"""What was told of an alarm or a flood, how often, and whether it is to be told again."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from appliance.contracts.clock import Clock
from appliance.contracts.store import Transaction
from appliance.store.columns import to_utc, utc_text


@dataclass(frozen=True, slots=True)
class Announcement:
    """One subject: an activation, or a flood. ``turn_id`` told it first, ``last_turn_id`` last; ``again`` counts repetitions."""

    subject: str
    is_flood: bool
    turn_id: str
    last_turn_id: str
    again: int
    first_utc: datetime
    first_mono_ns: int
    first_boot_id: str
    first_clock_synced: bool
    last_mono_ns: int
    last_boot_id: str


def note(tx: Transaction, clock: Clock, subject: str, turn_id: str, *, is_flood: bool = False, was_heard: bool = False) -> None:
    """Note that a turn tells of a subject: for the first time, or with news. What was told before keeps its first time.

    ``was_heard``: something about it may have been heard before.
    """
    tx.execute(
        "INSERT INTO announcement (subject, is_flood, turn_id, last_turn_id, was_heard, first_utc, first_mono_ns,"
        " first_boot_id, first_clock_synced, last_mono_ns, last_boot_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (subject) DO UPDATE SET last_turn_id = excluded.last_turn_id, was_heard = excluded.was_heard,"
        " last_mono_ns = excluded.last_mono_ns, last_boot_id = excluded.last_boot_id, is_over = 0",
        (
            subject,
            is_flood,
            turn_id,
            turn_id,
            was_heard,
            utc_text(clock.utc()),
            clock.monotonic_ns(),
            clock.boot_id,
            clock.is_synced,
            clock.monotonic_ns(),
            clock.boot_id,
        ),
    )


def count_again(tx: Transaction, clock: Clock, subject: str) -> None:
    """Note that a subject is about to be told once more."""
    tx.execute(
        "UPDATE announcement SET again = again + 1, last_mono_ns = ?, last_boot_id = ? WHERE subject = ?",
        (clock.monotonic_ns(), clock.boot_id, subject),
    )


def finish(tx: Transaction, subject: str) -> None:
    """Note that a subject will not be told again."""
    tx.execute("UPDATE announcement SET is_over = 1 WHERE subject = ?", (subject,))


def unfinished(tx: Transaction) -> list[Announcement]:
    """Return the subjects that may have to be told again."""
    return [_announcement(row) for row in tx.execute("SELECT * FROM announcement WHERE is_over = 0 ORDER BY subject")]


def is_heard(tx: Transaction, subject: str) -> bool:
    """Whether anything about a subject may have been heard; what still waits to be said, or was given up for newer words, not."""
    row = tx.execute(
        "SELECT was_heard OR EXISTS (SELECT 1 FROM delivery WHERE turn_id = last_turn_id AND channel = 'speech'"
        " AND status NOT IN ('pending', 'abandoned')) AS is_heard FROM announcement WHERE subject = ?",
        (subject,),
    ).fetchone()
    return row is not None and bool(row["is_heard"])


def awaits_words(tx: Transaction, subject: str) -> bool:
    """Whether a subject's latest words are not being said yet: they wait, or are still being made."""
    row = tx.execute(
        "SELECT turn.state IN ('planning', 'executing') OR EXISTS (SELECT 1 FROM delivery WHERE turn_id = turn.id"
        " AND channel = 'speech' AND status = 'pending') AS awaits_words"
        " FROM announcement JOIN turn ON turn.id = announcement.last_turn_id WHERE subject = ?",
        (subject,),
    ).fetchone()
    return row is None or bool(row["awaits_words"])


def is_being_said(tx: Transaction, turn_id: str) -> bool:
    """Whether words of a turn still wait to be said, or are being said."""
    waiting = "SELECT 1 FROM delivery WHERE turn_id = ? AND channel = 'speech' AND status IN ('pending', 'attempting')"
    return tx.execute(waiting, (turn_id,)).fetchone() is not None


def is_answered(tx: Transaction, turn_id: str) -> bool:
    """Whether a person answered what a turn asked."""
    row = tx.execute(
        "SELECT 1 FROM action JOIN confirmation ON confirmation.action_id = action.id"
        " WHERE action.turn_id = ? AND confirmation.status IN ('yes', 'no')",
        (turn_id,),
    )
    return row.fetchone() is not None


def last_turn(tx: Transaction, subject: str) -> str | None:
    """Return the turn that told of a subject last, or None."""
    row = tx.execute("SELECT last_turn_id FROM announcement WHERE subject = ?", (subject,)).fetchone()
    return None if row is None else str(row["last_turn_id"])


def _announcement(row: sqlite3.Row) -> Announcement:
    return Announcement(
        subject=row["subject"],
        is_flood=bool(row["is_flood"]),
        turn_id=row["turn_id"],
        last_turn_id=row["last_turn_id"],
        again=row["again"],
        first_utc=to_utc(row["first_utc"]),
        first_mono_ns=row["first_mono_ns"],
        first_boot_id=row["first_boot_id"],
        first_clock_synced=bool(row["first_clock_synced"]),
        last_mono_ns=row["last_mono_ns"],
        last_boot_id=row["last_boot_id"],
    )
