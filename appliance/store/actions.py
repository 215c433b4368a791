"""Actions: the steps of a turn's plan as rows, each with its own state and result."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from appliance.contracts.clock import IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, ActionState, Step
from appliance.contracts.store import Transaction
from appliance.store.columns import json_text, json_text_or_none, to_json, to_json_or_none
from appliance.store.step_names import bound_again, renamed

FINAL = (ActionState.DONE, ActionState.SKIPPED, ActionState.FAILED)
"""States an action never leaves."""
_CHANGE = """UPDATE action SET state = ?, result = coalesce(?, result) WHERE id = ? AND state NOT IN ({})""".format(
    ", ".join(f"'{state}'" for state in FINAL)
)


def insert_plan(tx: Transaction, ids: IdSource, turn_id: str, steps: Sequence[Step]) -> list[Action]:
    """Store a turn's steps as pending actions, in order."""
    return _insert(tx, ids, turn_id, steps, 0)


def _insert(tx: Transaction, ids: IdSource, turn_id: str, steps: Sequence[Step], first: int) -> list[Action]:
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
            after=step.after,
            expects=step.expects,
        )
        for position, step in enumerate(steps, first)
    ]
    tx.executemany(
        "INSERT INTO action (id, turn_id, position, step_id, tool, arguments, condition, optional, state, after_steps, expects)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                a.id, a.turn_id, a.position, a.step_id, a.tool, json_text(a.arguments), a.when, a.optional, a.state,
                " ".join(a.after), a.expects,
            )
            for a in actions
        ],
    )  # fmt: skip
    return actions


def append_plan(tx: Transaction, ids: IdSource, turn_id: str, steps: Sequence[Step]) -> list[Action]:
    """Store further steps of a turn behind those it has, and return them. A step whose id is taken gets a number behind it;
    what the new steps say about each other (``when``, ``{steps.x.y}``) follows."""
    found = tx.execute("SELECT position, step_id FROM action WHERE turn_id = ?", (turn_id,)).fetchall()
    taken = {row["step_id"] for row in found} | {step.id for step in steps}
    names: dict[str, str] = {}
    for step in steps:
        names[step.id] = step.id
        if any(row["step_id"] == step.id for row in found):
            names[step.id] = next(name for number in count(2) if (name := f"{step.id}_{number}") not in taken)
            taken.add(names[step.id])
    after = max((row["position"] for row in found), default=-1) + 1
    return _insert(tx, ids, turn_id, bound_again([renamed(step, names) for step in steps], names), after)


def skip_rest(tx: Transaction, turn_id: str, why: Mapping[str, Any]) -> list[Action]:
    """Skip every step that has not begun and every question still open, with ``why`` as result, and return them as they are now.

    A question's confirmation is not touched. A step under way stays what it is: whoever runs it ends it.
    """
    rest = [a for a in of_turn(tx, turn_id) if a.state in (ActionState.PENDING, ActionState.WAITING)]
    skipped = [action.become(ActionState.SKIPPED, {**(action.result or {}), **why}) for action in rest]
    for action in skipped:
        change(tx, action.id, action.state, action.result)
    return skipped


def by_position(tx: Transaction, turn_id: str, number: int) -> Action | None:
    """Return the ``number``-th step of a turn, counted from 1 as people do; None if it has not so many."""
    row = tx.execute(
        "SELECT * FROM action WHERE turn_id = ? ORDER BY position LIMIT 1 OFFSET ?", (turn_id, max(number, 1) - 1)
    ).fetchone()
    return None if row is None or number < 1 else to_action(row)


def of_turn(tx: Transaction, turn_id: str) -> list[Action]:
    """Return a turn's actions in the order they run."""
    return [to_action(r) for r in tx.execute("SELECT * FROM action WHERE turn_id = ? ORDER BY position", (turn_id,))]


def kept_chars(tx: Transaction, turn_id: str) -> int:
    """Return how many characters the results of a turn's steps have together."""
    row = tx.execute("SELECT coalesce(sum(length(result)), 0) FROM action WHERE turn_id = ?", (turn_id,)).fetchone()
    return int(row[0])


def in_order(tx: Transaction, action_ids: Sequence[str]) -> list[str]:
    """Return those that there are, of the oldest turn first: in order of sequence, whatever the clock was."""
    rows = tx.execute(
        "SELECT action.id FROM action JOIN turn ON turn.id = action.turn_id"
        " WHERE action.id IN (SELECT value FROM json_each(?)) ORDER BY turn.seq, action.position",
        (json.dumps(list(action_ids)),),
    )
    return [row["id"] for row in rows]


def by_id(tx: Transaction, action_id: str) -> Action:
    """Return one action.

    Raises:
        Refused: no such action.
    """
    row = tx.execute("SELECT * FROM action WHERE id = ?", (action_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no action {action_id}", action=action_id)
    return to_action(row)


def change(tx: Transaction, action_id: str, state: ActionState, result: Mapping[str, Any] | None = None) -> None:
    """Set an action's state. A result already there is kept when none is given.

    Raises:
        Refused: no such action, or it is done, skipped or failed, which it stays.
    """
    changed = tx.execute(_CHANGE, (str(state), json_text_or_none(result), action_id))
    if changed.rowcount == 0:
        found = by_id(tx, action_id).state
        raise Refused(f"action {action_id} is {found} and cannot become {state}", action=action_id, state=found)


def annul_answer(tx: Transaction, action_id: str, result: Mapping[str, Any]) -> None:
    """Replace the result of a question that was answered: its yes does not count any more."""
    tx.execute("UPDATE action SET result = ? WHERE id = ? AND state = 'done'", (json_text_or_none(result), action_id))


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
        after=tuple(row["after_steps"].split()),
        expects=row["expects"],
    )
