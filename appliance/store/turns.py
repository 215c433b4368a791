"""Turns as rows. A state changes only through :func:`move`, which follows the table, hashes the state and logs it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, StateViolationError
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState, advance
from appliance.store import actions, confirmations, interrupts, operations, snapshot
from appliance.store.columns import json_text, json_text_or_none, to_json, to_json_or_none, to_utc, utc_text
from appliance.store.snapshot import Written

BY_ID = "SELECT * FROM turn WHERE id = ?"
"""Query of one turn, for :func:`to_turn`."""

_SPENDING = """SELECT id, spent_s,
    (SELECT count(*) FROM action WHERE turn_id = turn.id AND state IN ('started', 'done', 'failed', 'unknown')) AS calls,
    (SELECT count(*) FROM confirmation WHERE turn_id = turn.id AND status = 'pending') AS open FROM turn"""
SPENDING = f"{_SPENDING} WHERE id IN (SELECT value FROM json_each(?))"
"""Query of what turns have used of their lifespan, given a JSON list of ids, for :func:`to_spending`."""

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
    plan, context = json_text_or_none(turn.plan), json_text(turn.context)
    born = replace(turn, state_hash=snapshot.state_hash(snapshot.of_new(turn, Written(plan, context))))
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
            plan,
            context,
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
    intent: str | None = None,
    plan: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    lifespan_s: float | None = None,
    spent_s: float | None = None,
) -> Turn:
    """Take one transition and return the turn as stored. What is not given stays. Appends ``turn.<state>`` (P1).

    ``reason`` becomes the failure of a turn that fails or is abandoned: its open questions are closed with it, and the steps it
    has not begun are skipped. Else it is what blocks the turn (cleared when empty). ``admission_id`` is the admission that moves
    it, for the record. Once the turn neither works nor waits, what was still wanted of it (``interrupt``) counts as handled.

    Raises:
        StateViolationError: the table has no such transition; facts name the turn, nothing was written.
        Refused: no such turn.
    """
    row = _row(tx, turn_id)
    before = to_turn(row)
    try:
        state = advance(before.state, event)
    except StateViolationError as violation:
        violation.facts["turn"] = turn_id
        raise
    ended_badly = state in (TurnState.FAILED, TurnState.ABANDONED)
    if ended_badly:
        confirmations.abandon_of_turn(tx, clock, turn_id)
        actions.skip_rest(tx, turn_id, {"ended": str(state), "why": reason})
    elif event is TurnEvent.ASKED:
        reason = reason or "waiting for an answer"
    if state is not TurnState.CONFIRMING and state not in ACTIVE:
        interrupts.handle(tx, clock, turn_id)
    written = Written(row["plan"] if plan is None else json_text(plan), row["context"] if context is None else json_text(context))
    after = replace(
        before,
        state=state,
        intent=before.intent if intent is None else intent,
        plan=before.plan if plan is None else to_json_or_none(written.plan),  # as stored: JSON knows no tuples
        context=before.context if context is None else to_json(written.context),
        blocking_reason="" if ended_badly else reason,
        failure=reason if ended_badly else before.failure,
        lifespan_s=before.lifespan_s if lifespan_s is None else lifespan_s,
        updated_utc=clock.utc(),
    )
    after = replace(after, state_hash=snapshot.state_hash(snapshot.take(tx, after, written)))
    tx.execute(
        "UPDATE turn SET state = ?, intent = ?, plan = ?, context = ?, blocking_reason = ?, failure = ?, state_hash = ?,"
        " lifespan_s = ?, spent_s = coalesce(?, spent_s), updated_utc = ? WHERE id = ?",
        (
            after.state,
            after.intent,
            written.plan,
            written.context,
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
    return after


def by_id(tx: Transaction, turn_id: str) -> Turn:
    """Return one turn.

    Raises:
        Refused: no such turn.
    """
    return to_turn(_row(tx, turn_id))


def under_way(tx: Transaction) -> list[Turn]:
    """Return the turns that work, wait to go on after a restart, or wait for an answer, newest first."""
    rows = tx.execute(
        """SELECT * FROM turn WHERE state IN ('planning', 'executing', 'confirming') AND id IN (
               SELECT turn_id FROM admission WHERE status IN ('queued', 'started', 'unknown') AND status = 'started'
               UNION SELECT CASE WHEN json_valid(payload) THEN payload ->> '$.turn_id' END FROM admission
                   WHERE status = 'queued' AND kind = 'resume'
               UNION SELECT turn_id FROM confirmation WHERE status = 'pending') ORDER BY seq DESC"""
    )
    return [to_turn(row) for row in rows]


def newest_of(tx: Transaction, lane: str) -> Turn | None:
    """Return the newest turn of a lane's open session, whatever became of it."""
    row = tx.execute(
        """SELECT turn.* FROM turn JOIN session ON session.id = turn.session_id
           WHERE session.lane = ? AND session.state = 'open' ORDER BY turn.seq DESC LIMIT 1""",
        (lane,),
    ).fetchone()
    return None if row is None else to_turn(row)


def has_talked(tx: Transaction, lanes: Sequence[str], after_seq: int, before_seq: int, *, but: Sequence[str]) -> bool:
    """Whether an admission of one of the lanes, between two others, belongs to a turn of another intent than those of ``but``."""
    row = tx.execute(
        """SELECT 1 FROM admission JOIN turn ON turn.id = admission.turn_id
           WHERE admission.seq > ? AND admission.seq < ? AND admission.lane IN (SELECT value FROM json_each(?))
             AND turn.intent NOT IN (SELECT value FROM json_each(?)) LIMIT 1""",
        (after_seq, before_seq, json.dumps(list(lanes)), json.dumps(list(but))),
    ).fetchone()
    return row is not None


def lane_of(tx: Transaction, turn_id: str) -> str:
    """Return the lane of a turn.

    Raises:
        Refused: no such turn.
    """
    row = tx.execute("SELECT lane FROM turn WHERE id = ?", (turn_id,)).fetchone()
    if row is None:
        raise _missing(turn_id)
    return str(row["lane"])


def exists(tx: Transaction, turn_id: str) -> bool:
    """Tell whether a turn has this id."""
    return tx.execute("SELECT 1 FROM turn WHERE id = ?", (turn_id,)).fetchone() is not None


def spending(tx: Transaction, turn_id: str) -> Spending:
    """Return what the turn has used of its lifespan, as stored.

    Raises:
        Refused: no such turn.
    """
    row = tx.execute(f"{_SPENDING} WHERE id = ?", (turn_id,)).fetchone()
    if row is None:
        raise _missing(turn_id)
    return to_spending(row)


def to_spending(row: sqlite3.Row) -> Spending:
    """Read a row of :data:`SPENDING`."""
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


def _row(tx: Transaction, turn_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = tx.execute(BY_ID, (turn_id,)).fetchone()
    if row is None:
        raise _missing(turn_id)
    return row


def _missing(turn_id: str) -> Refused:
    return Refused(f"there is no turn {turn_id}", turn=turn_id)
