"""What a turn lets its steps see: the call a tool gets, and the names a step's templates can reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from appliance.contracts.plan import Action
from appliance.contracts.principal import principal_of
from appliance.contracts.tool import ToolCall
from appliance.contracts.turn import Turn


def surroundings(turn: Turn) -> dict[str, Any]:
    """Return the turn's context with ``turn`` added: its id, language and opening time, which never change."""
    facts = {"id": turn.id, "language": turn.language, "opened_utc": turn.opened_utc.isoformat()}
    return {**turn.context, "turn": facts}


def known_to(around: Mapping[str, Any], earlier: Iterable[Action]) -> dict[str, Any]:
    """Return what templates of a step may name: its surroundings, and ``steps`` with the results of those before it."""
    return {**around, "steps": {a.step_id: a.result for a in earlier if a.result is not None}}


def call_of(
    turn: Turn,
    action: Action,
    arguments: Mapping[str, Any],
    around: Mapping[str, Any] | None = None,
    *,
    tool: str = "",
) -> ToolCall:
    """Return the call of an action with its resolved arguments. ``around``: the turn's surroundings, if they are at hand.
    ``tool`` is called in place of the action's own."""
    return ToolCall(
        tool=tool or action.tool,
        arguments=arguments,
        turn_id=turn.id,
        session_id=turn.session_id,
        action_id=action.id,
        lane=turn.lane,
        language=turn.language,
        context=surroundings(turn) if around is None else around,
        principal=principal_of(turn.context),
    )
