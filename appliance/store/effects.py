"""Effects on the world: the intent is a row before the call, the outcome a change of that row after it.

An intent that a dead process left is unknown: it may have happened. Only evidence or a person settles it, once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.effect import Effect, EffectStatus
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import ActionState
from appliance.contracts.store import Transaction
from appliance.store import actions, operations
from appliance.store.columns import json_text, json_text_or_none, to_json, to_json_or_none, to_utc, to_utc_or_none, utc_text

SETTLED = (EffectStatus.APPLIED, EffectStatus.NONE)
"""Statuses an effect never leaves: what became of it is known."""


def intend(
    tx: Transaction,
    clock: Clock,
    *,
    action_id: str,
    turn_id: str,
    tool: str,
    arguments: Mapping[str, Any],
    epoch: int,
) -> None:
    """Record that a call with an effect is about to be made. Appends ``effect.intended`` (P1).

    Raises:
        Refused: the action already has its effect; a second one would be a repeat.
    """
    try:
        tx.execute(
            "INSERT INTO effect (action_id, turn_id, tool, arguments, status, epoch, intended_utc) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (action_id, turn_id, tool, json_text(arguments), EffectStatus.INTENDED, epoch, utc_text(clock.utc())),
        )
    except sqlite3.IntegrityError as error:
        if of_action(tx, action_id) is None:
            raise
        raise Refused(f"action {action_id} already has its effect", action=action_id) from error
    payload = {"turn": turn_id, "tool": tool, "arguments": dict(arguments), "epoch": epoch}
    operations.append(tx, clock, OperationLane.P1, "effect.intended", action_id, payload)


def conclude(
    tx: Transaction,
    clock: Clock,
    action_id: str,
    status: EffectStatus,
    *,
    settled_by: str,
    result: Mapping[str, Any] | None,
    note: str = "",
) -> None:
    """Say how an intended effect ended, or settle an unknown one. Appends ``effect.<status>`` (P1).

    ``settled_by`` is ``reply``, ``verify``, ``recovery`` or the person who says so.

    Raises:
        Refused: no such effect, it is settled, or ``status`` is not an ending.
    """
    effect = tx.execute("SELECT turn_id, tool, status, was_unknown FROM effect WHERE action_id = ?", (action_id,)).fetchone()
    if effect is None:
        raise Refused(f"action {action_id} has no effect to conclude", action=action_id)
    found = EffectStatus(effect["status"])
    if found in SETTLED or status is EffectStatus.INTENDED or status is found:
        raise Refused(f"an effect that is {found} cannot become {status}", action=action_id, status=found)
    unknown = status is EffectStatus.UNKNOWN
    tx.execute(
        "UPDATE effect SET status = ?, was_unknown = was_unknown OR ?, settled_by = ?, note = ?,"
        " result = coalesce(?, result), ended_utc = ? WHERE action_id = ?",
        (
            status,
            unknown,
            None if unknown else settled_by,
            note,
            json_text_or_none(result),
            None if unknown else utc_text(clock.utc()),
            action_id,
        ),
    )
    payload = {
        "turn": effect["turn_id"],
        "tool": effect["tool"],
        "by": settled_by,
        "note": note,
        "was_unknown": bool(effect["was_unknown"]) or unknown,
        "result": None if result is None else dict(result),
    }
    operations.append(tx, clock, OperationLane.P1, f"effect.{status}", action_id, payload)


def orphan(tx: Transaction, clock: Clock, epoch: int) -> list[str]:
    """Turn every intent of an epoch before ``epoch`` into an unknown, its action with it; return the ids of these actions."""
    left = """SELECT action_id FROM effect INDEXED BY effect_open
        WHERE status IN ('intended', 'unknown') AND status = 'intended' AND epoch < ? ORDER BY seq"""
    rows = tx.execute(left, (epoch,)).fetchall()
    for row in rows:
        action_id = row["action_id"]
        conclude(
            tx,
            clock,
            action_id,
            EffectStatus.UNKNOWN,
            settled_by="recovery",
            result=None,
            note="the process ended between the call and its answer",
        )
        state = tx.execute("SELECT state FROM action WHERE id = ?", (action_id,)).fetchone()["state"]
        if state not in actions.FINAL:
            actions.change(tx, action_id, ActionState.UNKNOWN)
    return [row["action_id"] for row in rows]


def is_overwritten(tx: Transaction, action_id: str, argument: str) -> bool:
    """Whether another call of the same tool, with the same value of an argument, may have come after this one's or beside it.

    What was intended later may have; what was intended earlier only if the same process left it open.
    """
    other = tx.execute(
        "SELECT 1 FROM effect AS this JOIN effect AS other ON other.tool = this.tool AND other.action_id <> this.action_id"
        " AND other.arguments ->> ? = this.arguments ->> ? AND (other.seq > this.seq AND other.status <> 'none'"
        " OR other.seq < this.seq AND other.status IN ('intended', 'unknown') AND other.epoch = this.epoch)"
        " WHERE this.action_id = ? LIMIT 1",
        (f"$.{argument}", f"$.{argument}", action_id),
    ).fetchone()
    return other is not None


def of_action(tx: Transaction, action_id: str) -> Effect | None:
    """Return an action's effect, or None if it never had one."""
    row = tx.execute("SELECT * FROM effect WHERE action_id = ?", (action_id,)).fetchone()
    return None if row is None else to_effect(row)


def unknown(tx: Transaction) -> list[Effect]:
    """Return the effects nobody has settled yet, oldest first."""
    return [to_effect(row) for row in tx.execute("SELECT * FROM effect WHERE status = 'unknown' ORDER BY seq")]


def to_effect(row: sqlite3.Row) -> Effect:
    """Read a row of ``effect``."""
    return Effect(
        seq=row["seq"],
        action_id=row["action_id"],
        turn_id=row["turn_id"],
        tool=row["tool"],
        arguments=to_json(row["arguments"]),
        status=EffectStatus(row["status"]),
        was_unknown=bool(row["was_unknown"]),
        settled_by=row["settled_by"],
        note=row["note"],
        result=to_json_or_none(row["result"]),
        epoch=row["epoch"],
        intended_utc=to_utc(row["intended_utc"]),
        ended_utc=to_utc_or_none(row["ended_utc"]),
    )
