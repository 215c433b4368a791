"""What was said and done in a session before, as the ledger holds it: what a model is shown of it is a shortened copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action
from appliance.contracts.principal import AccessLevel, principal_of
from appliance.contracts.store import Ledger
from appliance.contracts.turn import Turn
from appliance.foundation.sentence import joined
from appliance.store import actions, turns
from appliance.store.columns import to_json, to_utc

_TURNS = """SELECT id, language, context, opened_utc FROM turn
    WHERE session_id = ?1 AND (?2 = '' OR seq < (SELECT seq FROM turn WHERE id = ?2)) ORDER BY seq DESC LIMIT ?3"""
_ACTIONS = "SELECT * FROM action WHERE turn_id IN (SELECT value FROM json_each(?)) ORDER BY turn_id, position"
_SAID = """SELECT turn_id, lead, text FROM delivery WHERE channel = 'speech' AND status <> 'abandoned'
    AND turn_id IN (SELECT value FROM json_each(?)) ORDER BY seq"""
_NEWEST = "SELECT * FROM turn WHERE session_id = ? ORDER BY seq DESC LIMIT 1"
_EXISTS = "SELECT 1 FROM session WHERE id = ?"


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn of a conversation: what was said to the appliance (empty for an alarm), its steps, what it said. ``level`` is that
    of whoever asked."""

    id: str
    language: str
    said: str
    steps: tuple[Action, ...]
    replies: tuple[str, ...]
    opened_utc: datetime
    level: AccessLevel


async def earlier(ledger: Ledger, session_id: str, before_turn: str, most: int) -> list[PastTurn]:
    """Return the last ``most`` turns of a session, oldest first; those before ``before_turn`` (empty: all)."""
    rows = await ledger.fetch(_TURNS, (session_id, before_turn, most))
    ids = _json_list([row["id"] for row in rows])
    steps: dict[str, list[Action]] = {}
    for row in await ledger.fetch(_ACTIONS, (ids,)):
        steps.setdefault(row["turn_id"], []).append(actions.to_action(row))
    replies: dict[str, list[str]] = {}
    for row in await ledger.fetch(_SAID, (ids,)):
        replies.setdefault(row["turn_id"], []).append(joined(row["lead"], row["text"]))
    return [
        PastTurn(
            id=row["id"],
            language=row["language"],
            said=_said(to_json(row["context"])),
            steps=tuple(steps.get(row["id"], ())),
            replies=tuple(replies.get(row["id"], ())),
            opened_utc=to_utc(row["opened_utc"]),
            level=principal_of(to_json(row["context"])).level,
        )
        for row in reversed(rows)
    ]


async def newest(ledger: Ledger, session_id: str) -> Turn | None:
    """Return the newest turn of a session, None before its first.

    Raises:
        Refused: no such session.
    """
    rows = await ledger.fetch(_NEWEST, (session_id,))
    if not rows and not await ledger.fetch(_EXISTS, (session_id,)):
        cure = "`floorhand sessions list` shows those there are."
        raise Refused(f"there is no session {session_id}", session=session_id, cure=cure)
    return turns.to_turn(rows[0]) if rows else None


def _said(context: dict[str, Any]) -> str:
    return str(context.get("said", ""))


def _json_list(ids: Sequence[str]) -> str:
    return "[" + ",".join(f'"{identity}"' for identity in ids) + "]"
