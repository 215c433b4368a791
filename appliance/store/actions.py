"""Actions: the steps of a turn's plan as rows, each with its own state and result."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.clock import IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, ActionState, Step
from appliance.contracts.store import Transaction
from appliance.store.columns import json_text, json_text_or_none, to_json, to_json_or_none

FINAL = (ActionState.DONE, ActionState.SKIPPED, ActionState.FAILED)
"""States an action never leaves."""


def insert_plan(tx: Transaction, ids: IdSource, turn_id: str, steps: Sequence[Step]) -> list[Action]:
    """Store a turn's steps as pending actions, in order."""
    actions = [
        Action(
            id=ids.mint("ac"),
            turn_id=turn_id,
            position=position,
            step_id=step.id,
            tool=step.tool,
            arguments=step.arguments,
            when=step.when,
            optional=step.optional,
            state=ActionState.PENDING,
            result=None,
        )
        for position, step in enumerate(steps)
    ]
    tx.executemany(
        "INSERT INTO action (id, turn_id, position, step_id, tool, arguments, condition, optional, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(a.id, a.turn_id, a.position, a.step_id, a.tool, json_text(a.arguments), a.when, a.optional, a.state) for a in actions],
    )
    return actions


def of_turn(tx: Transaction, turn_id: str) -> list[Action]:
    """Return a turn's actions in the order they run."""
    return [to_action(r) for r in tx.execute("SELECT * FROM action WHERE turn_id = ? ORDER BY position", (turn_id,))]


def change(tx: Transaction, action_id: str, state: ActionState, result: Mapping[str, Any] | None = None) -> None:
    """Set an action's state. A result already there is kept when none is given.

    Raises:
        Refused: no such action, or it is done, skipped or failed, which it stays.
    """
    row = tx.execute("SELECT state FROM action WHERE id = ?", (action_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no action {action_id}", action=action_id)
    if row["state"] in FINAL:
        raise Refused(f"action {action_id} is {row['state']} and cannot become {state}", action=action_id, state=row["state"])
    tx.execute(
        "UPDATE action SET state = ?, result = coalesce(?, result) WHERE id = ?",
        (state, json_text_or_none(result), action_id),
    )


def to_action(row: sqlite3.Row) -> Action:
    """Read a row of ``action``."""
    return Action(
        id=row["id"],
        turn_id=row["turn_id"],
        position=row["position"],
        step_id=row["step_id"],
        tool=row["tool"],
        arguments=to_json(row["arguments"]),
        when=row["condition"],
        optional=bool(row["optional"]),
        state=ActionState(row["state"]),
        result=to_json_or_none(row["result"]),
    )
