"""Decisions about calls that do something: a row each, and what later decisions count of them (X2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from appliance.contracts.approval import Decision, Rule
from appliance.contracts.clock import Clock
from appliance.contracts.principal import Principal
from appliance.contracts.store import Transaction
from appliance.store import audit
from appliance.store.columns import json_text, to_json, utc_text

BREAKS_AT = 3
"""Automatic denials in a row that trip the breaker of a session (requirements X2)."""

MOST_KEPT = 50_000
"""Decisions that are kept; the oldest make room, in the transaction that adds one. What was denied stays in the audit log."""

RESET = "reset"
"""Decision of a row by which a person lets a session go on."""

NEWEST = """SELECT seq, decided_utc, session_id, turn_id, action_id, tool, subject, decision, rule, why, who, facts, is_automatic
    FROM approval WHERE ?1 = '' OR session_id = ?1 ORDER BY seq DESC LIMIT ?2"""
"""Query of the newest decisions, of a session or (empty) of all, for :func:`shown`."""

# The words of the index "approval_breaker", or it is not used.
_IN_A_ROW = """SELECT decision, rule, is_automatic FROM approval
    WHERE session_id = ? AND (decision IN ('deny', 'reset') OR rule = 'consent') ORDER BY seq DESC"""
_WRITES = """SELECT count(DISTINCT action_id) AS count FROM approval
    WHERE tool = ? AND subject = ? AND decision = 'allow' AND action_id <> ?
    AND CASE WHEN boot_id = ? THEN decided_mono_ns > ?
        ELSE ? AND (decided_utc > ? OR NOT (clock_synced AND ?)) END
    AND EXISTS (SELECT 1 FROM effect WHERE effect.action_id = approval.action_id AND effect.status <> 'none')"""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision. ``subject`` is what the call is about; ``facts`` are value, unit and limits of a write, and whose yes it was.

    ``is_automatic``: denied without a person having looked at it. ``playbook``: the one the call is a step of.
    """

    action_id: str
    turn_id: str
    session_id: str
    tool: str
    subject: str
    decision: Decision
    rule: Rule
    why: str
    who: Principal
    is_automatic: bool = False
    is_hidden: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    playbook: str = ""


def note(tx: Transaction, clock: Clock, decided: Decided) -> None:
    """Store a decision. One that denies is also appended as ``audit.call_denied``, or ``audit.call_hidden``."""
    _insert(tx, clock, decided, str(decided.decision))
    if decided.decision is Decision.DENY:
        tell_denied(tx, clock, decided)


def tell_denied(tx: Transaction, clock: Clock, decided: Decided) -> None:
    """Append a denial as ``audit.call_denied``, or ``audit.call_hidden``. Alone it counts for no later decision: so with what is
    left out of an alarm's plan, which nobody tried to have done."""
    payload = {
        "tool": decided.tool, "subject": decided.subject, "rule": str(decided.rule), "session": decided.session_id,
        "turn": decided.turn_id, "who": decided.who.to_json(), "why": decided.why,
    }  # fmt: skip
    payload |= {"playbook": decided.playbook} if decided.playbook else {}
    audit.note(tx, clock, "call_hidden" if decided.is_hidden else "call_denied", decided.action_id, payload)


def denials_in_a_row(tx: Transaction, session_id: str) -> int:
    """Return how often calls of a session were denied automatically since a person last said yes to one or let it go on; the
    breaker's own denials do not count, and no more than :data:`BREAKS_AT` are counted."""
    count = 0
    for row in tx.execute(_IN_A_ROW, (session_id,)):
        if row["decision"] == RESET or (row["rule"] == Rule.CONSENT and row["decision"] == Decision.ALLOW):
            break
        if row["decision"] == Decision.DENY and row["is_automatic"] and row["rule"] != Rule.BREAKER:
            count += 1
        if count == BREAKS_AT:
            break
    return count


def reset(tx: Transaction, clock: Clock, session_id: str, who: Principal, why: str) -> int:
    """Let a session go on; return how many denials in a row it had. Without one nothing is written.

    Appends ``audit.breaker_reset``.
    """
    count = denials_in_a_row(tx, session_id)
    if count:
        row = Decided("", "", session_id, "", "", Decision.ALLOW, Rule.BREAKER, why, who)
        _insert(tx, clock, row, RESET)
        audit.note(tx, clock, "breaker_reset", session_id, {"who": who.to_json(), "why": why, "denials": count})
    return count


def writes_since(tx: Transaction, clock: Clock, tool: str, subject: str, within_s: float, but: str) -> int:
    """Return how many calls about a subject were allowed in the last ``within_s`` seconds, on the monotonic clock. What never
    began, or is known to have done nothing, does not count, nor does action ``but``.

    Those of earlier boots are older than this boot, so none counts once it has run for ``within_s``. Until then wall time tells,
    if it was disciplined then and is now; else nobody knows how old they are, and they count.
    """
    since_ns = clock.monotonic_ns() - int(within_s * 1e9)
    since_utc = utc_text(clock.utc() - timedelta(seconds=within_s))
    is_young = int(since_ns < 0)  # CLOCK_MONOTONIC counts from the boot
    (row,) = tx.execute(_WRITES, (tool, subject, but, clock.boot_id, since_ns, is_young, since_utc, int(clock.is_synced)))
    return int(row["count"])


def unanswered(
    tx: Transaction, clock: Clock, turn_id: str, session_id: str, who: Principal, why: str = "nobody answered"
) -> None:
    """Note the calls of a turn whose questions are being given up without a yes: they are denied. Call it while they are open."""
    rows = tx.execute(
        """SELECT asked.arguments ->> '$.approves' AS step
           FROM confirmation JOIN action AS asked ON asked.id = confirmation.action_id
           WHERE confirmation.turn_id = ? AND confirmation.status = 'pending' AND asked.arguments ->> '$.approves' <> ''""",
        (turn_id,),
    ).fetchall()
    for row in rows:
        found = tx.execute("SELECT id, tool FROM action WHERE turn_id = ? AND step_id = ?", (turn_id, row["step"])).fetchone()
        if found is not None:
            note(
                tx, clock,
                Decided(
                    found["id"], turn_id, session_id, found["tool"], "", Decision.DENY, Rule.UNATTENDED,
                    why, who, is_automatic=True,
                ),
            )  # fmt: skip


def yes_refused(tx: Transaction, clock: Clock, asking_id: str, turn_id: str, session_id: str, who: Principal) -> None:
    """Note the yes to a question of somebody who may not do what it would let be done. The question stays open."""
    row = tx.execute(
        """SELECT target.id, target.tool FROM action AS asking
           JOIN action AS target ON target.turn_id = asking.turn_id AND target.step_id = asking.arguments ->> '$.approves'
           WHERE asking.id = ?""",
        (asking_id,),
    ).fetchone()
    action_id, tool = (asking_id, "ask") if row is None else (row["id"], row["tool"])
    why = "a yes of somebody who may not do it"
    note(tx, clock, Decided(action_id, turn_id, session_id, tool, "", Decision.DENY, Rule.HARD_FLOOR, why, who))


def shown(row: sqlite3.Row) -> dict[str, Any]:
    """Read a row of :data:`NEWEST` for people."""
    told = dict(row) | {"who": to_json(row["who"]), "facts": to_json(row["facts"]), "is_automatic": bool(row["is_automatic"])}
    return told | {"by": told["who"]["by"], "identified": told["who"]["identified"]}


def _insert(tx: Transaction, clock: Clock, decided: Decided, decision: str) -> None:
    tx.execute(
        "INSERT INTO approval (action_id, turn_id, session_id, tool, subject, decision, rule, why, who, facts, is_automatic,"
        " decided_utc, decided_mono_ns, boot_id, clock_synced, epoch)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(epoch), 0) FROM owner))",
        (
            decided.action_id, decided.turn_id, decided.session_id, decided.tool, decided.subject, decision, decided.rule,
            decided.why, json_text(decided.who.to_json()), json_text(decided.facts), int(decided.is_automatic),
            utc_text(clock.utc()), clock.monotonic_ns(), clock.boot_id, int(clock.is_synced),
        ),
    )  # fmt: skip
    tx.execute("DELETE FROM approval WHERE seq <= (SELECT max(seq) FROM approval) - ?", (MOST_KEPT,))
