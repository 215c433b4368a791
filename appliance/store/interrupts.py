"""Interrupts: a row before the turn is disturbed, so that a stop holds whatever dies (R7)."""

from __future__ import annotations

import sqlite3

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.interrupt import Cause, Interrupt
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import to_utc, to_utc_or_none, utc_text

OPEN_TURNS = "SELECT DISTINCT turn_id FROM interrupt WHERE handled_utc IS NULL"
"""Query of the turns that somebody wants to stop, or to stop a step of."""


def ask(
    tx: Transaction,
    clock: Clock,
    ids: IdSource,
    turn_id: str,
    *,
    cause: Cause,
    by: str,
    reason: str,
    action_id: str | None = None,
) -> Interrupt:
    """Record that a turn, or one step of it, is to stop. Appends ``interrupt.asked`` (P1).

    From this commit on no step of the turn begins (or not that one): whoever begins one looks here in the same transaction.
    """
    interrupt_id = ids.mint("in")
    tx.execute(
        "INSERT INTO interrupt (id, turn_id, action_id, cause, by, reason, asked_utc) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (interrupt_id, turn_id, action_id, cause, by, reason, utc_text(clock.utc())),
    )
    facts = {"turn": turn_id, "action": action_id, "cause": str(cause), "by": by, "reason": reason}
    operations.append(tx, clock, OperationLane.P1, "interrupt.asked", interrupt_id, facts)
    return _to_interrupt(tx.execute("SELECT * FROM interrupt WHERE id = ?", (interrupt_id,)).fetchone())


def open_of(tx: Transaction, turn_id: str) -> list[Interrupt]:
    """Return what is wanted of a turn and not handled yet, oldest first."""
    rows = tx.execute("SELECT * FROM interrupt WHERE turn_id = ? AND handled_utc IS NULL ORDER BY seq", (turn_id,))
    return [_to_interrupt(row) for row in rows]


def stop_of(tx: Transaction, turn_id: str) -> Interrupt | None:
    """Return the first open wish to stop the whole turn, None if there is none."""
    return next((each for each in open_of(tx, turn_id) if each.action_id is None), None)


def handle(tx: Transaction, clock: Clock, turn_id: str, action_id: str | None = None) -> None:
    """Note that the turn obeyed, or ended: all its wishes with ``action_id`` None, else the one about that step."""
    at = utc_text(clock.utc())
    if action_id is None:
        tx.execute("UPDATE interrupt SET handled_utc = ? WHERE turn_id = ? AND handled_utc IS NULL", (at, turn_id))
    else:
        about = "turn_id = ? AND action_id = ? AND handled_utc IS NULL"
        tx.execute(f"UPDATE interrupt SET handled_utc = ? WHERE {about}", (at, turn_id, action_id))


def _to_interrupt(row: sqlite3.Row) -> Interrupt:
    return Interrupt(
        seq=row["seq"],
        id=row["id"],
        turn_id=row["turn_id"],
        action_id=row["action_id"],
        cause=Cause(row["cause"]),
        by=row["by"],
        reason=row["reason"],
        asked_utc=to_utc(row["asked_utc"]),
        handled_utc=to_utc_or_none(row["handled_utc"]),
    )
