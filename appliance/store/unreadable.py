"""Ends an input or a delivery whose rows cannot be gone on with, without reading what is in them: a row that nobody understands
costs itself.

Whatever is in the rows stays as it is, for whoever looks into it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

from appliance.contracts.admission import AdmissionStatus, Outcome
from appliance.contracts.clock import Clock
from appliance.contracts.delivery import DeliveryStatus
from appliance.contracts.errors import Fault, Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.contracts.turn import TurnState
from appliance.foundation.supervisor import contained_call
from appliance.store import audit, confirmations, deliveries, interrupts, leases, operations
from appliance.store.columns import json_text, utc_text
from appliance.store.faults import is_of_rows
from appliance.store.savepoints import savepoint

_TURN_OF = """SELECT status, coalesce(turn_id, CASE WHEN json_valid(payload) THEN payload ->> '$.turn_id' END) AS turn_id
    FROM admission WHERE id = ?"""


def fault_of(tx: Transaction, work: Callable[[], object]) -> Fault | None:
    """Do what concerns one input or turn; return what broke, with all it wrote taken back, when that is what is in its rows.

    Raises Corrupt, Unavailable and SQLite's own errors: then it is the storage that is broken.
    """

    def alone() -> None:
        with savepoint(tx):
            work()

    try:
        contained_call(alone)
    except Fault as fault:
        if isinstance(fault.__cause__, sqlite3.Error) and not is_of_rows(fault.__cause__):
            raise fault.__cause__ from None
        return fault
    except Refused as refused:  # rows that do not fit together: an input without its turn
        return Fault(refused.message)
    return None


def end(tx: Transaction, clock: Clock, admission_id: str, why: str) -> None:
    """End an admission as failed, and with it the turn that works for it. What has ended is left as it is.

    Appends ``audit.row_unreadable``, ``admission.terminal`` and, as :func:`end_turn` does it, ``turn.failed`` (P1).
    """
    found = tx.execute(_TURN_OF, (admission_id,)).fetchone()
    if found is None or found["status"] == AdmissionStatus.TERMINAL:
        return
    turn_id, at = found["turn_id"], utc_text(clock.utc())
    audit.note(tx, clock, "row_unreadable", admission_id, {"turn": turn_id, "why": why})
    tx.execute(
        "UPDATE admission SET status = 'terminal', outcome = ?, ended_utc = ? WHERE id = ?", (Outcome.FAILED, at, admission_id)
    )
    ended = {"turn": turn_id, "outcome": str(Outcome.FAILED), "by": ""}
    operations.append(tx, clock, OperationLane.P1, "admission.terminal", admission_id, ended)
    works = tx.execute("SELECT 1 FROM turn WHERE id = ? AND state IN ('planning', 'executing')", (turn_id,)).fetchone()
    if works is not None:
        end_turn(tx, clock, turn_id, why, admission_id)


def end_turn(tx: Transaction, clock: Clock, turn_id: str, why: str, admission_id: str | None = None) -> None:
    """End a turn as failed, its questions and what it has not begun with it. ``admission_id`` is what moved it. Appends
    ``turn.failed`` (P1).

    A call that may have had an effect stays unknown. The turn keeps the hash of the state it was in: a new one would be of rows
    that nobody can read.
    """
    at = utc_text(clock.utc())
    turn = tx.execute("SELECT id, session_id, lane, intent, state, state_hash FROM turn WHERE id = ?", (turn_id,)).fetchone()
    tx.execute(
        "UPDATE turn SET state = ?, failure = ?, blocking_reason = '', updated_utc = ? WHERE id = ?",
        (TurnState.FAILED, why, at, turn["id"]),
    )
    tx.execute(
        "UPDATE action SET state = 'skipped', result = ? WHERE turn_id = ? AND state IN ('pending', 'waiting')",
        (json_text({"ended": str(TurnState.FAILED), "why": why}), turn["id"]),
    )
    confirmations.abandon_of_turn(tx, clock, turn["id"])
    interrupts.handle(tx, clock, turn["id"])
    leases.release(tx, turn["id"])
    facts = {
        "session": turn["session_id"],
        "lane": turn["lane"],
        "intent": turn["intent"],
        "admission": admission_id,
        "event": "failed",
        "from": turn["state"],
        "reason": why,
        "state_hash": turn["state_hash"],
    }
    operations.append(tx, clock, OperationLane.P1, "turn.failed", turn["id"], facts)


def end_deliveries(tx: Transaction, clock: Clock) -> list[Fault]:
    """End as failed what waits to be said or sent and cannot be read; return what broke. To be called before anybody takes it.

    Appends ``audit.row_unreadable`` and ``delivery.failed`` (P1) for each.
    """
    faults: list[Fault] = []
    for row in tx.execute(f"SELECT id FROM delivery WHERE {deliveries.OPEN} ORDER BY seq").fetchall():
        delivery_id = row["id"]
        fault = fault_of(tx, partial(deliveries.load, tx, delivery_id))
        if fault is None:
            continue
        faults.append(fault)
        tx.execute(
            "UPDATE delivery SET status = ?, failure = ?, ended_utc = ?, ended_mono_ns = ?, ended_boot_id = ? WHERE id = ?",
            (DeliveryStatus.FAILED, fault.message, utc_text(clock.utc()), clock.monotonic_ns(), clock.boot_id, delivery_id),
        )
        audit.note(tx, clock, "row_unreadable", delivery_id, {"why": fault.message})
        operations.append(tx, clock, OperationLane.P1, "delivery.failed", delivery_id, {"id": delivery_id, "why": fault.message})
    return faults
