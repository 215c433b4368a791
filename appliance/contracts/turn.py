"""A turn: one interaction, its states, its table and its snapshot hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from appliance.contracts.errors import StateViolationError


class TurnState(StrEnum):
    """Where a turn is (requirements S3). IDLE is both the birth and the ordinary end."""

    IDLE = "idle"
    LISTENING = "listening"
    PLANNING = "planning"
    EXECUTING = "executing"
    CONFIRMING = "confirming"
    FAILED = "failed"
    ABANDONED = "abandoned"


class TurnEvent(StrEnum):
    """What happened to a turn."""

    LISTEN = "listen"
    SILENCE = "silence"
    HEARD = "heard"
    PLANNED = "planned"
    PLAN_REJECTED = "plan_rejected"
    ASKED = "asked"
    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    FINISHED = "finished"
    FAILED = "failed"
    RESUMED = "resumed"
    STEERED = "steered"
    REDIRECTED = "redirected"
    STOPPED = "stopped"


S, E = TurnState, TurnEvent
TRANSITIONS: Mapping[tuple[TurnState, TurnEvent], TurnState] = {
    (S.IDLE, E.LISTEN): S.LISTENING,
    (S.IDLE, E.HEARD): S.PLANNING,
    (S.LISTENING, E.SILENCE): S.IDLE,
    (S.LISTENING, E.HEARD): S.PLANNING,
    (S.LISTENING, E.FAILED): S.FAILED,
    (S.PLANNING, E.PLANNED): S.EXECUTING,
    (S.PLANNING, E.PLAN_REJECTED): S.PLANNING,
    (S.PLANNING, E.FAILED): S.FAILED,
    (S.PLANNING, E.FINISHED): S.IDLE,
    (S.PLANNING, E.RESUMED): S.PLANNING,
    (S.EXECUTING, E.ASKED): S.CONFIRMING,
    (S.EXECUTING, E.FINISHED): S.IDLE,
    (S.EXECUTING, E.FAILED): S.FAILED,
    (S.EXECUTING, E.RESUMED): S.EXECUTING,
    (S.CONFIRMING, E.ANSWERED): S.EXECUTING,
    (S.CONFIRMING, E.UNANSWERED): S.ABANDONED,
    (S.CONFIRMING, E.FAILED): S.FAILED,
    (S.PLANNING, E.REDIRECTED): S.PLANNING,
    (S.EXECUTING, E.STEERED): S.EXECUTING,
    (S.EXECUTING, E.REDIRECTED): S.PLANNING,
    (S.PLANNING, E.STOPPED): S.ABANDONED,
    (S.EXECUTING, E.STOPPED): S.ABANDONED,
    (S.CONFIRMING, E.STOPPED): S.ABANDONED,
}
del S, E


def advance(state: TurnState, event: TurnEvent) -> TurnState:
    """Return the next state.

    Raises:
        StateViolationError: the table has no such transition.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise StateViolationError(f"a turn in {state} cannot take {event}", state=state, event=event)
    return following


@dataclass(frozen=True, slots=True)
class Turn:
    """One interaction as stored.

    ``context`` is the JSON the plan's templates read: ``alarm``, ``slots``, ``said`` … ``state_hash`` is SHA-256
    over the snapshot in ``store.snapshot``. ``lifespan_s`` is the remaining lifespan at ``updated_utc``.
    """

    id: str
    session_id: str
    admission_id: str
    lane: str
    language: str
    state: TurnState
    intent: str
    plan: Mapping[str, Any] | None
    context: Mapping[str, Any]
    blocking_reason: str
    failure: str
    state_hash: str
    lifespan_s: float
    offline: bool
    opened_utc: datetime
    updated_utc: datetime

    @property
    def is_about_alarms(self) -> bool:
        """Whether it is the conversation of an alarm or a flood."""
        return "alarm" in self.context or "flood" in self.context
