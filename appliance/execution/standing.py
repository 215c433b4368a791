"""Where a turn stands between two calls, in words: what is to be called next, what is not sure, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from appliance.contracts.errors import StorageFullError
from appliance.contracts.interrupt import Cause
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.tool import LedgerTool, Tool, ToolCall
from appliance.execution.guardrails import HALTED
from appliance.execution.journal import ANNOUNCED, GIVEN_UP, Page
from appliance.execution.stops import CANCELLED, STOPPED, code_of, whose
from appliance.execution.telemetry import CallLog
from appliance.store import actions

Ending = Callable[[Page], Action]
"""Writes the end of a step that was under way."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. ``failure`` is for the record; the sentence about it is queued already.

    ``stopped``: somebody's stop was obeyed, what was left is skipped; ``cause``, ``by`` and ``reason`` are of the interrupt.
    ``steered``: a step has ended and something waits in the turn's lane that wants to change the plan; run again afterwards.
    """

    kind: Literal["finished", "waiting", "failed", "stopped", "steered"]
    failure: str = ""
    cause: Cause | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call of a step that passed every check, of the step's tool or of one that stands in for it. ``warning`` is what a
    guardrail has to say of it."""

    action: Action
    tool: Tool | LedgerTool
    call: ToolCall
    arguments: BaseModel
    call_log: CallLog
    warning: str = ""

    @property
    def notes(self) -> dict[str, str]:
        """What is kept with the result besides what the tool said."""
        notes = {"warning": self.warning} if self.warning else {}
        return notes if self.call.tool == self.action.tool else {**notes, "answered_by": self.call.tool}


@dataclass(frozen=True, slots=True)
class Begun:
    """A call of an outside tool whose beginning is on disk; ``action`` is its step, begun."""

    action: Action
    prepared: Prepared
    tool: Tool

    @property
    def call(self) -> ToolCall:
        """What the tool gets."""
        return self.prepared.call


@dataclass(frozen=True, slots=True)
class Together:
    """Calls that are to be made next, of consecutive steps: one, or several that need nothing of each other."""

    calls: tuple[Begun, ...]


@dataclass(frozen=True, slots=True)
class Unsure:
    """An effect nobody is sure of; it was said so, and is to be checked next."""

    action: Action
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a turn stands: its steps, the position of the first that is under way, and what comes next."""

    steps: tuple[Action, ...]
    position: int
    next: Together | Unsure | RunOutcome


@dataclass(slots=True)
class Way:
    """What the one who goes on knows. ``endings`` write the ends of the steps under way, by their position; one that is missing
    finds in the ledger what ended it. ``steered`` asks to be left at the next step boundary, ``unbegun`` says why an effect must
    not begin. ``intending`` is set to the step whose intent is written."""

    endings: Mapping[int, Ending] = field(default_factory=dict)
    steered: bool = False
    unbegun: StorageFullError | None = None
    intending: str = field(default="", init=False)


def has_ended(step: Action, is_fresh: bool) -> bool:
    """Whether nothing is to be done about a step: it is final, or it stays unknown. ``is_fresh``: this run has just ended it.

    An unknown that an earlier run gave up is checked again, unless somebody stopped it.
    """
    if step.state in actions.FINAL:
        return True
    if step.state is ActionState.UNKNOWN:
        given_up = (step.result or {}).get(ANNOUNCED) == GIVEN_UP
        return given_up and (is_fresh or code_of(step) in (STOPPED, CANCELLED))
    return False


def fails_turn(step: Action, code: str) -> bool:
    """Whether the turn fails if this step ends with ``code``: what was halted ends it even where a step is optional."""
    return code == HALTED or (not step.optional and code != CANCELLED)


def outcome_of(step: Action) -> RunOutcome | None:
    """Return how the turn ends with this step; None if it goes on."""
    result, code = step.result or {}, code_of(step)
    match step.state:
        case ActionState.WAITING:
            return RunOutcome("waiting")
        case ActionState.SKIPPED | ActionState.UNKNOWN if code == STOPPED:
            return _stopped_by(result)
        case ActionState.FAILED | ActionState.UNKNOWN if fails_turn(step, code):
            return RunOutcome("failed", f"{step.step_id}: {code}: {result.get('error')}")
        case _:
            return None


def _stopped_by(kept: Mapping[str, object]) -> RunOutcome:
    cause, by, reason = whose(kept)
    return RunOutcome("stopped", cause=cause, by=by, reason=reason)
