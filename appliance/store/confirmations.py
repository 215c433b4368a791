"""Questions put to people. Each is addressable and answered at most once; silence leaves it pending."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import Confirmation, ConfirmationStatus
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import admissions, operations
from appliance.store.columns import json_text_or_none, to_json_or_none, to_utc, to_utc_or_none, utc_text

PENDING_COUNT = "SELECT count(*) AS pending FROM confirmation WHERE status = 'pending'"
"""Query of how many questions are open."""

WAITING_TURNS = """SELECT DISTINCT turn_id FROM confirmation JOIN turn ON turn.id = confirmation.turn_id
    WHERE confirmation.status = 'pending' AND turn.state = 'confirming'"""
"""Query of the turns that wait for an answer."""

UNASKED_TURNS = f"""{WAITING_TURNS} AND EXISTS
    (SELECT 1 FROM delivery d WHERE d.id = confirmation.delivery_id AND d.status = 'abandoned' AND d.failure = ?)"""
"""Query of those whose question nobody has heard, given why it was not said."""

_LATELY = 64  # questions; more are not asked in the two minutes in which a person may still mean one of them


def ask(
    tx: Transaction,
    clock: Clock,
    ids: IdSource,
    *,
    turn_id: str,
    action_id: str,
    question: str,
    delivery_id: str | None,
    code: str = "",
) -> Confirmation:
    """Record a question, asked by ``delivery_id``; a yes to it has to bring ``code``. Appends ``confirmation.asked`` (P1).

    Raises:
        Refused: the action has asked already.
    """
    if tx.execute("SELECT 1 FROM confirmation WHERE action_id = ?", (action_id,)).fetchone():
        raise Refused(f"action {action_id} has asked its question already", action=action_id)
    confirmation_id = ids.mint("cf")
    tx.execute(
        "INSERT INTO confirmation (id, turn_id, action_id, question, status, delivery_id, code, asked_seq, asked_utc,"
        " asked_after_seq) SELECT ?, ?, ?, ?, 'pending', ?, ?, coalesce(max(asked_seq), 0) + 1, ?,"
        f" {admissions.NEWEST_SEQ} FROM confirmation",
        (confirmation_id, turn_id, action_id, question, delivery_id, code, utc_text(clock.utc())),
    )
    return _told(tx, clock, confirmation_id, "asked", {"turn": turn_id, "action": action_id, "question": question})


def pending(tx: Transaction) -> list[Confirmation]:
    """Return the open questions, oldest first."""
    rows = tx.execute("SELECT * FROM confirmation WHERE status = 'pending' ORDER BY asked_seq")
    return [to_confirmation(row) for row in rows]


def open_before(tx: Transaction, admission_seq: int) -> list[Confirmation]:
    """Return the questions that had been asked before an admission and were open when it came, oldest first.

    Those closed since are among them: the answer may have been meant for one of these.
    """
    rows = tx.execute(
        """SELECT * FROM confirmation WHERE status = 'pending' AND asked_after_seq < ?1
           UNION ALL SELECT * FROM confirmation WHERE closed_after_seq >= ?1 AND asked_after_seq < ?1 ORDER BY asked_seq""",
        (admission_seq,),
    )
    return [to_confirmation(row) for row in rows]


def closed_lately(tx: Transaction, since_seq: int, admission_seq: int) -> list[Confirmation]:
    """Return the questions that were closed between two admissions, and asked before the second, oldest first: of the newest
    questions only."""
    rows = tx.execute(
        """SELECT * FROM (SELECT * FROM confirmation ORDER BY asked_seq DESC LIMIT ?)
           WHERE status <> 'pending' AND closed_after_seq >= ? AND closed_after_seq < ? AND asked_after_seq < ?
           ORDER BY asked_seq""",
        (_LATELY, since_seq, admission_seq, admission_seq),
    )
    return [to_confirmation(row) for row in rows]


def writes_asked_in(tx: Transaction, lane: str) -> list[str]:
    """Return the turns of a lane that wait for the keyword: those that would change the field, oldest question first."""
    rows = tx.execute(
        """SELECT turn.id FROM turn CROSS JOIN confirmation ON confirmation.turn_id = turn.id
           JOIN action ON action.id = confirmation.action_id
           WHERE turn.state IN ('planning', 'executing', 'confirming') AND turn.state = 'confirming' AND turn.lane = ?
             AND confirmation.status = 'pending' AND action.arguments ->> '$.requires_keyword' ORDER BY confirmation.asked_seq""",
        (lane,),
    )
    return [row["id"] for row in rows]


def by_id(tx: Transaction, confirmation_id: str) -> Confirmation:
    """Return one question.

    Raises:
        Refused: no such question.
    """
    row = tx.execute("SELECT * FROM confirmation WHERE id = ?", (confirmation_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no question {confirmation_id}", confirmation=confirmation_id)
    return to_confirmation(row)


def of_action(tx: Transaction, action_id: str) -> Confirmation | None:
    """Return the question of an ``ask`` step, None when it has not asked."""
    row = tx.execute("SELECT * FROM confirmation WHERE action_id = ?", (action_id,)).fetchone()
    return None if row is None else to_confirmation(row)


def codes_in_use(tx: Transaction) -> frozenset[str]:
    """Return the codes that open questions wait for: no two may have the same."""
    return frozenset(row["code"] for row in tx.execute("SELECT code FROM confirmation WHERE status = 'pending' AND code <> ''"))


def code_read(tx: Transaction, confirmation_id: str, answered_by: str) -> None:
    """Note that the answer in this admission brought the question's code."""
    tx.execute("UPDATE confirmation SET code_read_by = ? WHERE id = ?", (answered_by, confirmation_id))


def wrong_code(tx: Transaction, confirmation_id: str) -> int:
    """Note that an answer brought another code; return how often one did."""
    row = tx.execute(
        "UPDATE confirmation SET wrong_codes = wrong_codes + 1 WHERE id = ? RETURNING wrong_codes", (confirmation_id,)
    ).fetchone()
    return int(row["wrong_codes"])


def answer(
    tx: Transaction, clock: Clock, confirmation_id: str, yes: bool, answered_by: str, who: Mapping[str, Any] | None = None
) -> Confirmation:
    """Close a question with a person's word. ``answered_by`` is the admission that carried it, ``who`` its principal.

    Appends ``confirmation.yes`` or ``confirmation.no`` (P1).

    Raises:
        Refused: no such question, it is not open any more, or it needs a code that this admission did not bring.
    """
    asked = by_id(tx, confirmation_id)
    if yes and asked.code and asked.code_read_by != answered_by:
        raise Refused("a yes to this question has to bring its code", confirmation=confirmation_id)
    status = ConfirmationStatus.YES if yes else ConfirmationStatus.NO
    return _close(tx, clock, confirmation_id, status, answered_by, who)


def abandon(tx: Transaction, clock: Clock, confirmation_id: str) -> Confirmation:
    """Close a question nobody answered. Appends ``confirmation.abandoned`` (P1).

    Raises:
        Refused: no such question, or it is not open any more.
    """
    return _close(tx, clock, confirmation_id, ConfirmationStatus.ABANDONED, None)


def abandon_of_turn(tx: Transaction, clock: Clock, turn_id: str) -> None:
    """Close all open questions of a turn that will not take an answer any more."""
    rows = tx.execute(
        "SELECT id FROM confirmation WHERE turn_id = ? AND status = 'pending' ORDER BY asked_seq", (turn_id,)
    ).fetchall()
    for row in rows:
        abandon(tx, clock, row["id"])


def to_confirmation(row: sqlite3.Row) -> Confirmation:
    """Read a row of ``confirmation``."""
    return Confirmation(
        id=row["id"],
        turn_id=row["turn_id"],
        action_id=row["action_id"],
        question=row["question"],
        status=ConfirmationStatus(row["status"]),
        delivery_id=row["delivery_id"],
        asked_seq=row["asked_seq"],
        asked_after_seq=row["asked_after_seq"],
        asked_utc=to_utc(row["asked_utc"]),
        answered_by=row["answered_by"],
        answered_utc=to_utc_or_none(row["answered_utc"]),
        code=row["code"],
        wrong_codes=row["wrong_codes"],
        code_read_by=row["code_read_by"],
        answered_who=to_json_or_none(row["answered_who"]),
        answered_mono_ns=row["answered_mono_ns"],
        answered_boot_id=row["answered_boot_id"],
    )


def _close(
    tx: Transaction,
    clock: Clock,
    confirmation_id: str,
    status: ConfirmationStatus,
    answered_by: str | None,
    who: Mapping[str, Any] | None = None,
) -> Confirmation:
    asked = by_id(tx, confirmation_id)
    if asked.status is not ConfirmationStatus.PENDING:
        raise Refused(f"this question is closed already: {asked.status}", confirmation=confirmation_id, status=asked.status)
    tx.execute(
        "UPDATE confirmation SET status = ?, answered_by = ?, answered_who = ?, answered_utc = ?,"
        f" closed_after_seq = {admissions.NEWEST_SEQ}, answered_mono_ns = ?, answered_boot_id = ? WHERE id = ?",
        (status, answered_by, json_text_or_none(who), utc_text(clock.utc()), *_came_at(tx, clock, answered_by), confirmation_id),
    )
    payload: dict[str, Any] = {"turn": asked.turn_id, "action": asked.action_id, "by": answered_by}
    if who is not None:
        payload |= {"who": who["by"], "identified": who["identified"], "with_code": bool(asked.code)}
    return _told(tx, clock, confirmation_id, str(status), payload)


def _came_at(tx: Transaction, clock: Clock, answered_by: str | None) -> tuple[int, str]:
    """Return when an answer came, and in which boot: it may have waited in its lane since."""
    row = tx.execute("SELECT admitted_mono_ns, boot_id FROM admission WHERE id = ?", (answered_by,)).fetchone()
    return (clock.monotonic_ns(), clock.boot_id) if row is None else (row["admitted_mono_ns"], row["boot_id"])


def _told(tx: Transaction, clock: Clock, confirmation_id: str, what: str, payload: dict[str, Any]) -> Confirmation:
    operations.append(tx, clock, OperationLane.P1, f"confirmation.{what}", confirmation_id, payload)
    return by_id(tx, confirmation_id)
