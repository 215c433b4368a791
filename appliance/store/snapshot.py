"""The state snapshot of a turn and its hash (requirements S1).

Two turns, or one turn at two moments, with the same hash are in the same state. The twelve fields:

| field | what |
|---|---|
| session | the conversation it belongs to |
| lane | where it is serialised |
| language | what it is spoken in |
| offline | whether it began without the coordinator |
| state | state of the turn |
| intent | what it is about |
| context | digest of what its templates read |
| plan | digest of its plan, empty before there is one |
| tools_run | ``[step, tool, state]`` of every action that left PENDING, in order |
| awaiting | ``[confirmation, action, digest of the action's parameters]`` of every open question, oldest first |
| blocking_reason | why it does not go on by itself, empty when it does |
| failure | why it failed or was abandoned, empty otherwise |

Texts that people said are in it as digests only. The hash is taken whenever the turn's row is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.foundation.canonical import canonical_json, digest, digest_of_text


class Written(NamedTuple):
    """A turn's plan (None before there is one) and context as they are stored: canonical JSON."""

    plan: str | None
    context: str


def take(tx: Transaction, turn: Turn, written: Written | None = None) -> dict[str, Any]:
    """Return the twelve fields, the turn's own from ``turn`` and the rest from its rows. ``written`` spares writing it again."""
    run = tx.execute(
        "SELECT step_id, tool, state FROM action WHERE turn_id = ? AND state <> 'pending' ORDER BY position", (turn.id,)
    )
    awaiting = tx.execute(
        "SELECT confirmation.id, confirmation.action_id, action.arguments FROM confirmation"
        " JOIN action ON action.id = confirmation.action_id"
        " WHERE confirmation.turn_id = ? AND confirmation.status = 'pending' ORDER BY asked_seq",
        (turn.id,),
    )
    return {
        **of_new(turn, written),
        "tools_run": [list(row) for row in run],
        "awaiting": [[row["id"], row["action_id"], digest_of_text(row["arguments"])] for row in awaiting],
    }


def of_new(turn: Turn, written: Written | None = None) -> dict[str, Any]:
    """Return the twelve fields of a turn that has no steps yet."""
    if written is None:
        written = Written(None if turn.plan is None else canonical_json(turn.plan), canonical_json(turn.context))
    return {
        "session": turn.session_id,
        "lane": turn.lane,
        "language": turn.language,
        "offline": turn.offline,
        "state": str(turn.state),
        "intent": turn.intent,
        "context": digest_of_text(written.context),
        "plan": "" if written.plan is None else digest_of_text(written.plan),
        "tools_run": [],
        "awaiting": [],
        "blocking_reason": turn.blocking_reason,
        "failure": turn.failure,
    }


def state_hash(snapshot: dict[str, Any]) -> str:
    """Return SHA-256 (hex) over the snapshot's canonical JSON."""
    return digest(snapshot)
