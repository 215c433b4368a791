"""Turns as rows. A state changes only through :func:`move`, which follows the table, hashes the state and logs it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, StateViolationError
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState, advance
from appliance.store import confirmations, operations, snapshot
from appliance.store.columns import json_text, json_text_or_none, to_json, to_json_or_none, to_utc, utc_text

BY_ID = "SELECT * FROM turn WHERE id = ?"
"""Query of one turn, for :func:`to_turn`."""

ACTIVE = (TurnState.PLANNING, TurnState.EXECUTING)
"""States in which a turn has the appliance work for it, and its lifespan runs."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What a turn's lifespan is computed from: tools run, questions open and seconds of running time used."""

    tool_calls: int
    pending_confirmations: int
    spent_s: float


def insert(tx: Transaction, turn: Turn) -> Turn:
    """Store a new turn, IDLE as it is born; return it with its hash. Its first :func:`move` logs it."""
    born = replace(turn, state_hash=snapshot.state_hash(snapshot.take(tx, turn)))
    tx.execute(
        "INSERT INTO turn (id, session_id, admission_id, lane, language, state, intent, plan, context, blocking_reason,"
        " failure, state_hash, lifespan_s, offline, opened_utc, updated_utc)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            born.id,
            born.session_id,
            born.admission_id,
            born.lane,
            born.language,
            born.state,
            born.intent,
            json_text_or_none(born.plan),
            json_text(born.context),
            born.blocking_reason,
            born.failure,
            born.state_hash,
            born.lifespan_s,
            born.offline,
            utc_text(born.opened_utc),
            utc_text(born.updated_utc),
        ),
    )
    return born


def move(
    tx: Transaction,
    clock: Clock,
    turn_id: str,
    event: TurnEvent,
    *,
    admission_id: str | None = None,
    reason: str = "",
    plan: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    lifespan_s: float | None = None,
    spent_s: float | None = None,
) -> Turn:
    """Take one transition and return the turn as stored. What is not given stays. Appends ``turn.<state>`` (P1).

    ``reason`` becomes the failure of a turn that fails or is abandoned, whose open questions are closed with it; else it is
    what blocks the turn (cleared when empty). ``admission_id`` is the admission that moves it, for the record.

    Raises:
        StateViolationError: the table has no such transition; facts name the turn, nothing was written.
        Refused: no such turn.
    """
    before = by_id(tx, turn_id)
    try:
        state = advance(before.state, event)
    except StateViolationError as violation:
        violation.facts["turn"] = turn_id
        raise
    ended_badly = state in (TurnState.FAILED, TurnState.ABANDONED)
    if ended_badly:
        confirmations.abandon_of_turn(tx, clock, turn_id)
    elif event is TurnEvent.ASKED:
        reason = reason or "waiting for an answer"
    after = replace(
        before,
        state=state,
        plan=before.plan if plan is None else plan,
        context=before.context if context is None else context,
        blocking_reason="" if ended_badly else reason,
        failure=reason if ended_badly else before.failure,
        lifespan_s=before.lifespan_s if lifespan_s is None else lifespan_s,
        updated_utc=clock.utc(),
    )
    after = replace(after, state_hash=snapshot.state_hash(snapshot.take(tx, after)))
    tx.execute(
        "UPDATE turn SET state = ?, plan = ?, context = ?, blocking_reason = ?, failure = ?, state_hash = ?, lifespan_s = ?,"
        " spent_s = coalesce(?, spent_s), updated_utc = ? WHERE id = ?",
        (
            after.state,
            json_text_or_none(after.plan),
            json_text(after.context),
            after.blocking_reason,
            after.failure,
            after.state_hash,
            after.lifespan_s,
            spent_s,
            utc_text(after.updated_utc),
            after.id,
        ),
    )
    payload = {
        "session": after.session_id,
        "lane": after.lane,
        "intent": after.intent,
        "admission": admission_id,
        "event": str(event),
        "from": str(before.state),
        "reason": reason,
        "state_hash": after.state_hash,
    }
    operations.append(tx, clock, OperationLane.P1, f"turn.{after.state}", after.id, payload)
    return by_id(tx, turn_id)  # as stored: JSON knows no tuples


def by_id(tx: Transaction, turn_id: str) -> Turn:
    """Return one turn.

    Raises:
        Refused: no such turn.
    """
    row = tx.execute(BY_ID, (turn_id,)).fetchone()
    if row is None:
        raise _missing(turn_id)
    return to_turn(row)


def exists(tx: Transaction, turn_id: str) -> bool:
    """Tell whether a turn has this id."""
    return tx.execute("SELECT 1 FROM turn WHERE id = ?", (turn_id,)).fetchone() is not None


def spending(tx: Transaction, turn_id: str) -> Spending:
    """Return what the turn has used of its lifespan, as stored.

    Raises:
        Refused: no such turn.
    """
    row = tx.execute(
        "SELECT spent_s,"
        " (SELECT count(*) FROM action WHERE turn_id = turn.id AND state IN ('started', 'done', 'failed', 'unknown')) AS calls,"
        " (SELECT count(*) FROM confirmation WHERE turn_id = turn.id AND status = 'pending') AS open"
        " FROM turn WHERE id = ?",
        (turn_id,),
    ).fetchone()
    if row is None:
        raise _missing(turn_id)
    return Spending(row["calls"], row["open"], row["spent_s"])


def to_turn(row: sqlite3.Row) -> Turn:
    """Read a row of ``turn``."""
    return Turn(
        id=row["id"],
        session_id=row["session_id"],
        admission_id=row["admission_id"],
        lane=row["lane"],
        language=row["language"],
        state=TurnState(row["state"]),
        intent=row["intent"],
        plan=to_json_or_none(row["plan"]),
        context=to_json(row["context"]),
        blocking_reason=row["blocking_reason"],
        failure=row["failure"],
        state_hash=row["state_hash"],
        lifespan_s=row["lifespan_s"],
        offline=bool(row["offline"]),
        opened_utc=to_utc(row["opened_utc"]),
        updated_utc=to_utc(row["updated_utc"]),
    )


def _missing(turn_id: str) -> Refused:
    return Refused(f"there is no turn {turn_id}", turn=turn_id)
