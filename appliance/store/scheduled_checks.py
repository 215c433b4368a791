"""Checks that are due later: a row each from being asked for to its one end (FC-R07, FC-R08).

    WAITING --start--> STARTED      its admission is entered in the same transaction; whoever comes second finds it started
       |------miss---> MISSED       it was due and could not be made in time
       '-----cancel--> CANCELLED

Each end is a compare-and-set. Operations (lane P1): ``check.scheduled``, ``.started``, ``.missed``, ``.cancelled``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.principal import Principal
from appliance.contracts.scheduled_check import CheckStatus, ScheduledCheck
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import json_text, to_json, to_utc, to_utc_or_none, utc_text

WAITING = "SELECT * FROM scheduled_check WHERE status = 'waiting' ORDER BY due_utc, seq"
"""Query of what waits, soonest first."""

LISTED = """SELECT c.*, a.status AS admission_status, a.outcome, a.turn_id FROM scheduled_check c
    LEFT JOIN admission a ON a.id = c.admission_id
    WHERE ?1 = 0 OR c.status = 'waiting' ORDER BY c.seq DESC LIMIT ?2"""
"""Query of checks with what became of those that were started, newest first; parameters: only those that wait (1 or 0), limit."""

MOST_ENDED = 10_000
"""Checks that have ended are kept; the oldest make room, in the transaction that adds one."""

_SEE = "`floorhand checks list` shows those that wait."


def schedule(
    tx: Transaction,
    clock: Clock,
    ids: IdSource,
    *,
    turn_id: str,
    lane: str,
    language: str,
    principal: Principal,
    intent: str,
    slots: Mapping[str, Any],
    what: str,
    after_s: float,
) -> ScheduledCheck:
    """Insert a check that is due ``after_s`` from now."""
    check_id = ids.mint("check")
    now, now_ns = clock.utc(), clock.monotonic_ns()
    tx.execute(
        """INSERT INTO scheduled_check (id, asked_turn_id, lane, language, principal, intent, slots, what, after_s, due_utc,
                                        due_mono_ns, boot_id, clock_synced, status, created_utc)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?)""",
        (
            check_id, turn_id, lane, language, json_text(principal.to_json()), intent, json_text(slots), what, after_s,
            utc_text(now + timedelta(seconds=after_s)), now_ns + round(after_s * 1e9), clock.boot_id, clock.is_synced,
            utc_text(now),
        ),
    )  # fmt: skip
    tx.execute(
        "DELETE FROM scheduled_check WHERE seq <= (SELECT max(seq) FROM scheduled_check) - ? AND status <> 'waiting'",
        (MOST_ENDED,),
    )
    check = load(tx, check_id)
    facts = {"id": check_id, "turn_id": turn_id, "intent": intent, "slots": dict(slots), "after_s": after_s, "by": principal.by}
    operations.append(tx, clock, OperationLane.P1, "check.scheduled", check_id, facts)
    return check


def load(tx: Transaction, check_id: str) -> ScheduledCheck:
    """Return one check.

    Raises:
        Refused: there is none of this id.
    """
    row = tx.execute("SELECT * FROM scheduled_check WHERE id = ?", (check_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no check {check_id}", check=check_id, cure=_SEE).worded("no_such_check")
    return to_check(row)


def waiting(tx: Transaction) -> list[ScheduledCheck]:
    """Return what waits, soonest first."""
    return [to_check(row) for row in tx.execute(WAITING).fetchall()]


def start(tx: Transaction, clock: Clock, check_id: str, admission_id: str, *, late_s: float) -> bool:
    """Note that a check was admitted; False when it had ended already: then nothing of the transaction may stay."""
    if not _end(tx, clock, check_id, CheckStatus.STARTED, "", admission_id):
        return False
    facts = {"id": check_id, "admission": admission_id, "late_s": round(late_s, 1)}
    operations.append(tx, clock, OperationLane.P1, "check.started", check_id, facts)
    return True


def miss(tx: Transaction, clock: Clock, check_id: str, why: str) -> bool:
    """Note that a check was not made, and why; False when it had ended already."""
    if not _end(tx, clock, check_id, CheckStatus.MISSED, why, None):
        return False
    operations.append(tx, clock, OperationLane.P1, "check.missed", check_id, {"id": check_id, "why": why})
    return True


def cancel(tx: Transaction, clock: Clock, check_id: str, by: str) -> ScheduledCheck:
    """Cancel a check that waits.

    Raises:
        Refused: there is no such check, or it does not wait any more.
    """
    known = load(tx, check_id)
    why = f"cancelled by {by}" if by else "cancelled"
    if not _end(tx, clock, check_id, CheckStatus.CANCELLED, why, None):
        raise Refused(f"the check {check_id} is {known.status} already", check=check_id, cure=_SEE).worded("check_over")
    operations.append(tx, clock, OperationLane.P1, "check.cancelled", check_id, {"id": check_id, "by": by})
    return load(tx, check_id)


def to_check(row: sqlite3.Row) -> ScheduledCheck:
    """Read a row of ``scheduled_check``."""
    return ScheduledCheck(
        id=row["id"],
        seq=row["seq"],
        asked_turn_id=row["asked_turn_id"],
        lane=row["lane"],
        language=row["language"],
        principal=Principal.from_json(json.loads(row["principal"])),
        intent=row["intent"],
        slots=to_json(row["slots"]),
        what=row["what"],
        after_s=row["after_s"],
        due_utc=to_utc(row["due_utc"]),
        due_mono_ns=row["due_mono_ns"],
        boot_id=row["boot_id"],
        clock_synced=bool(row["clock_synced"]),
        status=CheckStatus(row["status"]),
        why=row["why"],
        admission_id=row["admission_id"],
        created_utc=to_utc(row["created_utc"]),
        ended_utc=to_utc_or_none(row["ended_utc"]),
    )


def _end(tx: Transaction, clock: Clock, check_id: str, status: CheckStatus, why: str, admission_id: str | None) -> bool:
    ended = tx.execute(
        """UPDATE scheduled_check SET status = ?, why = ?, admission_id = ?, ended_utc = ?
           WHERE id = ? AND status = 'waiting'""",
        (status, why, admission_id, utc_text(clock.utc()), check_id),
    )
    return ended.rowcount == 1
