"""What a turn does between two calls, on one page: the end of the step before, everything that needs nobody outside, and the
beginning of the next call. So a turn of n calls costs n + 1 commits, and nothing is called before all that came before it is on
disk.

Each step is looked at for stops in the transaction that would begin it. In: a page, the turn, where it stands. Out: where it
stands then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from pydantic import BaseModel

from appliance.contracts.clock import Clock
from appliance.contracts.effect import ConfirmationStatus, Effect, EffectStatus
from appliance.contracts.errors import FloorhandError, Malformed, OwnedElsewhere, Refused, StorageFullError
from appliance.contracts.interrupt import Cause, Interrupt
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.ports import Wording
from appliance.contracts.tool import EffectDisposition, LedgerTool, Tool, ToolCall, ToolContract, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.calls import call_of, known_to, surroundings
from appliance.execution.conditions import holds
from appliance.execution.journal import ANNOUNCED, CHECKING, GIVEN_UP, Page, Saying
from appliance.execution.results import failure, failure_of, stored, success
from appliance.execution.sentences import ON_HOLD, Sentences
from appliance.execution.settling import believed
from appliance.execution.stops import CANCELLED, STOPPED, code_of, result_of, whose
from appliance.execution.telemetry import CallLog
from appliance.execution.templates import render
from appliance.execution.toolbox import Toolbox, is_ledger_tool, is_outside_tool, record_of
from appliance.execution.tools.ask import Ask
from appliance.execution.untold import DELIVERY, untold
from appliance.store import actions, confirmations, deliveries, effects
from appliance.store import holds as hold_rows
from appliance.store.savepoints import savepoint
from appliance.store.step_names import named_in

QUESTIONS = frozenset({Ask.contract.name})
_CANCELLABLE = (ActionState.SKIPPED, ActionState.UNKNOWN)
_NONE, _APPLIED, _UNKNOWN = EffectDisposition.NONE, EffectDisposition.APPLIED, EffectDisposition.UNKNOWN


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
class Begun:
    """A call that is to be made next; its beginning is on disk."""

    action: Action
    tool: Tool
    call: ToolCall
    arguments: BaseModel
    call_log: CallLog


@dataclass(frozen=True, slots=True)
class Unsure:
    """An effect nobody is sure of; it was said so, and is to be checked next."""

    action: Action
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a turn stands: its steps, the position of the one that is under way, and what comes next."""

    steps: tuple[Action, ...]
    position: int
    next: Begun | Unsure | RunOutcome


@dataclass(slots=True)
class Way:
    """What the one who goes on knows: ``ending`` writes the end of the step under way, ``steered`` asks to be left at the next
    step boundary, ``unbegun`` says why an effect must not begin. ``intending`` is set to the step whose intent is written."""

    ending: Callable[[Page], Action] | None = None
    steered: bool = False
    unbegun: StorageFullError | None = None
    intending: str = field(default="", init=False)


class Stretches:
    """Takes turns from call to call. ``is_clogged`` tells of a tool that has too many calls which were given up."""

    def __init__(self, toolbox: Toolbox, wording: Wording, clock: Clock, is_clogged: Callable[[str], bool]) -> None:
        self._toolbox = toolbox
        self._wording = wording
        self._clock = clock
        self._is_clogged = is_clogged

    def go_on(self, page: Page, turn: Turn, since: Reached | None, way: Way) -> Reached:
        """Write the end of the step under way and go on to the next call, or to the end. ``since`` None: from the ledger."""
        steps = list(actions.of_turn(page.tx, turn.id) if since is None else since.steps)
        position = 0 if since is None else since.position
        wishes = page.wishes(turn.id)
        stop = next((wish for wish in wishes if wish.action_id is None), None)
        is_fresh = way.ending is not None
        if way.ending is not None:
            steps[position] = way.ending(page)
        if stop is not None and not all(_has_ended(step, is_fresh) for step in steps[position:]):
            steps = self._stopped(page, turn, steps, stop)
            return Reached(tuple(steps), position, RunOutcome("stopped", "", stop.cause, stop.by, stop.reason))
        while position < len(steps):
            step = steps[position]
            is_new = is_fresh or not _has_ended(step, is_fresh)
            if not _has_ended(step, is_fresh):
                if way.steered and step.state is ActionState.PENDING:
                    return Reached(tuple(steps), position, RunOutcome("steered"))
                wish = next((wish for wish in wishes if wish.action_id == step.id), None)
                reached = self._advance(page, turn, step, steps[:position], wish, way)
                if not isinstance(reached, Action):
                    steps[position] = reached.action
                    return Reached(tuple(steps), position, reached)
                steps[position] = reached
            outcome = _outcome_of(steps[position])
            if outcome is not None:
                if outcome.kind == "failed" and is_new:
                    self._tell_done(page, turn, steps[:position])
                return Reached(tuple(steps), position, outcome)
            position, is_fresh = position + 1, False
        for wish in wishes:  # it came too late: everything had been done
            page.obeyed(wish)
        return Reached(tuple(steps), position, RunOutcome("finished"))

    # one step -------------------------------------------------------------------------------------------------------
    def _advance(
        self, page: Page, turn: Turn, action: Action, earlier: Sequence[Action], wish: Interrupt | None, way: Way
    ) -> Action | Begun | Unsure:
        """Bring one step from the state it was found in to the next one that lasts."""
        under_way = action.state in (ActionState.STARTED, ActionState.UNKNOWN)
        effect = effects.of_action(page.tx, action.id) if under_way else None
        if wish is not None:
            page.obeyed(wish)
            return self._ended_by(page, turn, action, effect, wish)
        if effect is not None:
            return self._after_effect(page, turn, action, effect)
        if action.state is ActionState.WAITING:
            return self._answered(page, action)
        try:
            if action.when and not holds(action.when, {a.step_id: a for a in earlier}, QUESTIONS):
                return page.change(action, ActionState.SKIPPED)
            cancelled = {a.step_id for a in earlier if a.state in _CANCELLABLE and code_of(a) == CANCELLED}
            missing = next((name for name in named_in(action.arguments) if name in cancelled), None) if cancelled else None
            if missing is not None:
                why = failure(CANCELLED, f"it needs {missing}, which was cancelled", _NONE)
                return page.change(action, ActionState.SKIPPED, stored(why))
            tool = self._toolbox.find(action.tool)
            around = surroundings(turn)
            rendered = render(
                action.arguments, known_to(around, earlier), lambda value: self._wording.spoken(value, turn.language)
            )
            arguments = self._toolbox.check_arguments(action.tool, rendered)
        except Malformed as error:
            return self.failed(page, turn, action, failure_of(error, _NONE))
        call = call_of(turn, action, arguments.model_dump(mode="json"), around)
        call_log = CallLog(tool.contract, call, self._clock)
        held = _held(page, tool.contract)
        if held is not None:
            return self.failed(page, turn, action, held, call_log)
        if is_ledger_tool(tool):
            return self._in_ledger(page, turn, action, tool, arguments, call, call_log, earlier)
        assert is_outside_tool(tool)  # the toolbox loads nothing else
        return self._begin(page, turn, Begun(action, tool, call, arguments, call_log), way)

    def _answered(self, page: Page, action: Action) -> Action:
        """Take a question's answer over into its action; an open one keeps waiting."""
        question = confirmations.by_id(page.tx, str((action.result or {}).get("confirmation")))
        match question.status:
            case ConfirmationStatus.PENDING:
                return action
            case ConfirmationStatus.YES | ConfirmationStatus.NO:
                answer = {"confirmed": question.status is ConfirmationStatus.YES, "answered_by": question.answered_by}
                return page.change(action, ActionState.DONE, {**(action.result or {}), **answer})
            case ConfirmationStatus.ABANDONED:
                return page.change(action, ActionState.FAILED, stored(failure("unanswered", "nobody answered", _NONE)))
            case _:
                assert_never(question.status)

    def _in_ledger(
        self,
        page: Page,
        turn: Turn,
        action: Action,
        tool: LedgerTool,
        arguments: BaseModel,
        call: ToolCall,
        call_log: CallLog,
        earlier: Sequence[Action],
    ) -> Action:
        """Do the tool's rows and the action's end together."""
        page.afterwards.append(call_log.started)
        state = ActionState.WAITING if action.tool in QUESTIONS else ActionState.DONE
        try:
            with savepoint(page.tx):
                value = self._toolbox.check_result(action.tool, tool.apply(page.tx, call, arguments))
                ended = page.change(action, state, stored(success(value, _NONE)))
        except OwnedElsewhere:
            raise
        except FloorhandError as error:
            return self.failed(page, turn, action, failure_of(error, _NONE), call_log)
        page.afterwards.append(lambda: call_log.ended(success({}, _NONE)))
        if DELIVERY in value and state is ActionState.DONE and untold(page.tx, earlier):
            deliveries.keep(page.tx, str(value[DELIVERY]))  # the turn's own words on what was done
        page.said = True  # the tool may have queued words
        return ended

    def _begin(self, page: Page, turn: Turn, begun: Begun, way: Way) -> Action | Begun:
        """Record that a call is about to be made, unless it must not be."""
        action, contract = begun.action, begun.tool.contract
        if self._is_clogged(action.tool):
            why = failure("unavailable", f"earlier calls of {action.tool} have not ended", _NONE)
            return self.failed(page, turn, action, why, begun.call_log)
        try:
            if contract.has_effect:
                page.require_lease(turn.id)
        except Refused as error:
            return self.failed(page, turn, action, failure_of(error, _NONE), begun.call_log)
        if not contract.has_effect:
            started = page.change(action, ActionState.STARTED)
        elif way.unbegun is not None:
            return self.failed(page, turn, action, failure_of(way.unbegun, _NONE), begun.call_log)
        else:
            way.intending = action.id
            started = page.intend(action, begun.call.arguments)
        page.afterwards.append(begun.call_log.started)
        return Begun(started, begun.tool, begun.call, begun.arguments, begun.call_log)

    # effects --------------------------------------------------------------------------------------------------------
    def _after_effect(self, page: Page, turn: Turn, action: Action, effect: Effect) -> Action | Unsure:
        """Go on with a step whose effect was intended, whatever became of it."""
        match effect.status:
            case EffectStatus.APPLIED:
                return page.change(action, ActionState.DONE, stored(success(effect.result or {}, _APPLIED)))
            case EffectStatus.NONE:
                return self.failed(page, turn, action, failure("not_applied", effect.note or "it did not happen", _NONE))
            case EffectStatus.INTENDED | EffectStatus.UNKNOWN:
                if effect.status is EffectStatus.INTENDED or ANNOUNCED not in (action.result or {}):
                    why = effect.note or "stopped before an answer came"
                    action = self.declared_unknown(page, turn, action, effect.arguments, why)
                return Unsure(action, call_of(turn, action, effect.arguments))
            case _:
                assert_never(effect.status)

    def declared_unknown(self, page: Page, turn: Turn, action: Action, arguments: Mapping[str, Any], why: str) -> Action:
        """Record and say that it is not known whether the effect happened, and that it is being checked."""
        saying = Saying(turn, Sentences(self._wording, turn.language).effect_unknown(action.tool, arguments))
        announced = (action.result or {}).get(ANNOUNCED)
        result = failure("uncertain", why, _UNKNOWN)
        return page.unknown(action, result, GIVEN_UP if announced == GIVEN_UP else CHECKING, saying)

    def settled(self, page: Page, turn: Turn, unsure: Unsure, found: ToolResult) -> Action:
        """Record and say what checking found."""
        action, call, sentences = unsure.action, unsure.call, Sentences(self._wording, turn.language)
        if found.disposition is not _UNKNOWN:
            found = believed(page.tx, self._toolbox.find(action.tool), action.id, found)
        match found.disposition:
            case EffectDisposition.APPLIED:
                saying = Saying(turn, sentences.effect_applied(action.tool, call.arguments), tells_effect=True)
                record = record_of(self._toolbox.find(action.tool), call, found.value)
                return page.conclude(action, EffectStatus.APPLIED, found, by="verify", saying=saying, record=record)
            case EffectDisposition.NONE:
                saying = Saying(turn, sentences.effect_not_applied(action.tool, call.arguments), tells_effect=True)
                return page.conclude(action, EffectStatus.NONE, found, by="verify", saying=saying)
            case EffectDisposition.UNKNOWN:
                saying = Saying(turn, sentences.effect_still_unknown(action.tool, call.arguments), tells_effect=True)
                return page.unknown(action, found, GIVEN_UP, saying)

    # stops ----------------------------------------------------------------------------------------------------------
    def _stopped(self, page: Page, turn: Turn, steps: Sequence[Action], stop: Interrupt) -> list[Action]:
        """End what is under way and skip what has not begun."""
        page.obeyed(stop)
        self._tell_done(page, turn, steps)
        ended = []
        for step in steps:
            if not _has_ended(step, is_fresh=False):
                effect = effects.of_action(page.tx, step.id)
                step = self._ended_by(page, turn, step, effect, stop)
            ended.append(step)
        return ended

    def _ended_by(self, page: Page, turn: Turn, action: Action, effect: Effect | None, wish: Interrupt) -> Action:
        """Skip a step because somebody wants it; one with an effect that may have happened is unknown, and that is said."""
        if effect is None or effect.status in effects.SETTLED:
            return page.change(action, ActionState.SKIPPED, stored(result_of(wish, _NONE)))
        text = Sentences(self._wording, turn.language).effect_stopped(action.tool, effect.arguments)
        saying = Saying(turn, text, tells_effect=True)
        return page.unknown(action, result_of(wish, _UNKNOWN), GIVEN_UP, saying)

    def _tell_done(self, page: Page, turn: Turn, steps: Sequence[Action]) -> None:
        """Say which effects have happened that the steps which are not done any more would have told of."""
        sentences = Sentences(self._wording, turn.language)
        for effect in untold(page.tx, steps):
            page.say(Saying(turn, sentences.effect_done(effect.tool, effect.arguments), tells_effect=True))

    # common ---------------------------------------------------------------------------------------------------------
    def failed(self, page: Page, turn: Turn, action: Action, result: ToolResult, call_log: CallLog | None = None) -> Action:
        """Record that the step was not done; say so if the turn needs it."""
        if call_log is not None:
            page.afterwards.append(lambda: call_log.ended(result))
        return page.change(action, ActionState.FAILED, stored(result), self.complaint(turn, action, result))

    def complaint(self, turn: Turn, action: Action, result: ToolResult) -> Saying | None:
        """Return what is said about a result: nothing when it is good or the step is optional."""
        if result.ok or action.optional:
            return None
        return Saying(turn, Sentences(self._wording, turn.language).step_failed(result))


def _held(page: Page, contract: ToolContract) -> ToolResult | None:
    """Return why a call is not made while the appliance is on hold (R10), None if it is made."""
    if contract.has_effect or contract.is_held:
        try:
            hold_rows.require_none(page.tx)
        except Refused as error:
            return replace(failure(ON_HOLD, error.message, _NONE), value=error.facts)
    return None


def _has_ended(step: Action, is_fresh: bool) -> bool:
    """Whether nothing is to be done about a step: it is final, or it stays unknown. ``is_fresh``: this run has just ended it.

    An unknown that an earlier run gave up is checked again, unless somebody stopped it.
    """
    if step.state in actions.FINAL:
        return True
    if step.state is ActionState.UNKNOWN:
        given_up = (step.result or {}).get(ANNOUNCED) == GIVEN_UP
        return given_up and (is_fresh or code_of(step) in (STOPPED, CANCELLED))
    return False


def _outcome_of(step: Action) -> RunOutcome | None:
    """Return how the turn ends with this step; None if it goes on."""
    result, code = step.result or {}, code_of(step)
    match step.state:
        case ActionState.WAITING:
            return RunOutcome("waiting")
        case ActionState.SKIPPED | ActionState.UNKNOWN if code == STOPPED:
            return _stopped_by(result)
        case ActionState.FAILED | ActionState.UNKNOWN if not step.optional and code != CANCELLED:
            return RunOutcome("failed", f"{step.step_id}: {code}: {result.get('error')}")
        case _:
            return None


def _stopped_by(kept: Mapping[str, Any]) -> RunOutcome:
    cause, by, reason = whose(kept)
    return RunOutcome("stopped", cause=cause, by=by, reason=reason)
