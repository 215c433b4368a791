"""How a step ends, written on a page: done, failed, left to another tool, unknown, stopped, and what is said of each.

A call that failed goes through three levels (T5). What was there before is restored and the call tried again before anything
gets here (``attempts``); then the tool that stands in is tried, in the same step; then people are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from appliance.contracts.effect import ConfirmationStatus, Effect, EffectStatus
from appliance.contracts.errors import BrokenResult, Corrupt, Unavailable
from appliance.contracts.escalation import Escalator
from appliance.contracts.interrupt import Interrupt
from appliance.contracts.lane import typed_by
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.ports import Wording
from appliance.contracts.tool import EffectDisposition, ToolCall, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.calls import call_of
from appliance.execution.guardrails import HALTED
from appliance.execution.journal import ANNOUNCED, CHECKING, GIVEN_UP, Page, Saying
from appliance.execution.results import TIMEOUT, failure, failure_of, stored, success
from appliance.execution.sentences import IN_PLAN, Sentences
from appliance.execution.settling import believed
from appliance.execution.spill import Spill, is_lost
from appliance.execution.standing import Prepared, Unsure, fails_turn
from appliance.execution.stops import result_of
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox, record_of
from appliance.execution.untold import untold
from appliance.foundation.sentence import ended
from appliance.store import actions, confirmations, effects

STOOD_IN = "failed_before"
"""Field of the result of a step that another tool is tried for: the tools that failed, each with code and error."""
_FOR_ANOTHER = frozenset({Unavailable.code, TIMEOUT})
"""Codes of failures another tool may do better than. A refusal is an answer, and what is damaged or not known stays so."""
_FOR_PEOPLE = frozenset({Unavailable.code, TIMEOUT, Corrupt.code, BrokenResult.code, HALTED})

_NONE, _APPLIED, _UNKNOWN = EffectDisposition.NONE, EffectDisposition.APPLIED, EffectDisposition.UNKNOWN


class StepEnds:
    """Writes the ends of steps."""

    def __init__(self, toolbox: Toolbox, wording: Wording, escalator: Escalator, spill: Spill) -> None:
        self._toolbox = toolbox
        self._wording = wording
        self._escalator = escalator
        self._spill = spill

    # a call that came back ------------------------------------------------------------------------------------------
    def done(
        self, page: Page, turn: Turn, prepared: Prepared, result: ToolResult, state: ActionState = ActionState.DONE
    ) -> Action:
        """Record what a call without effect brought."""
        kept = self._bounded(page, prepared, result)
        if not kept.ok:
            return self._failed(page, turn, prepared.action, kept, prepared)
        notes = {**_failed_before(prepared.action), **prepared.notes}
        return page.change(prepared.action, state, {**stored(kept), **notes}, self._cut_short(page, turn, kept))

    def applied(self, page: Page, turn: Turn, prepared: Prepared, result: ToolResult) -> Action:
        """Record an effect that happened; one whose tool broke its result contract in telling so fails the step all the same."""
        kept = self._bounded(page, prepared, result)
        record = record_of(prepared.tool, prepared.call, result.value) if kept.ok else None
        saying = self._complaint(page, turn, prepared.action, kept, prepared) or self._cut_short(page, turn, kept)
        return page.conclude(
            prepared.action, EffectStatus.APPLIED, kept, by="reply", saying=saying, record=record, notes=prepared.notes
        )

    def not_done(self, page: Page, turn: Turn, prepared: Prepared, result: ToolResult) -> Action:
        """Record a call that failed and changed nothing: the step goes on with the tool that stands in, or fails."""
        passed_on = self.passed_on(page, prepared, result)
        if passed_on is not None:
            return passed_on
        if not prepared.tool.contract.has_effect:
            return self._failed(page, turn, prepared.action, result, prepared)
        saying = self._complaint(page, turn, prepared.action, result, prepared)
        return page.conclude(prepared.action, EffectStatus.NONE, result, by="reply", saying=saying, notes=prepared.notes)

    def passed_on(self, page: Page, prepared: Prepared, result: ToolResult) -> Action | None:
        """Leave a step whose call failed to the tool that stands in; None when there is none, or it would be in vain."""
        action, name = prepared.action, prepared.tool.contract.fallback_tool
        if not name or name not in self._toolbox.contracts or result.error_code not in _FOR_ANOTHER or page.turn_fails:
            return None
        failed: dict[str, Any] = {"tool": prepared.call.tool, "error_code": result.error_code, "error": result.error}
        failed |= {"reply": result.reply, "words": dict(result.words)} if result.reply else {}
        kept = {STOOD_IN: [*(action.result or {}).get(STOOD_IN, ()), failed]}
        effect = effects.of_action(page.tx, action.id) if prepared.tool.contract.has_effect else None
        if effect is None:
            return page.change(action, ActionState.STARTED, {**stored(result), **kept})
        return page.conclude(action, EffectStatus.NONE, result, by="reply", state=ActionState.STARTED, notes=kept)

    def standing_in(self, action: Action) -> str:
        """Return the tool that is to be tried for a step whose own has failed; empty for the step's own."""
        before = (action.result or {}).get(STOOD_IN)
        if action.state is not ActionState.STARTED or not before:
            return ""
        last = self._toolbox.contracts.get(before[-1]["tool"])
        return "" if last is None else last.fallback_tool

    def left(self, page: Page, action: Action) -> Action:
        """Fail a step that was left to another tool, quietly: its turn has failed already."""
        return page.change(action, ActionState.FAILED, action.result or stored(failure("interrupted", "its turn failed", _NONE)))

    def _bounded(self, page: Page, prepared: Prepared, result: ToolResult) -> ToolResult:
        """Return a result as long as the ledger keeps it; the rest is in a file."""
        try:
            kept = self._spill.bounded(page.tx, prepared.call, prepared.tool.contract, result)
        except BrokenResult as error:
            return failure_of(error, result.disposition)
        page.afterwards.append(lambda: self._spill.noted(kept))
        return kept

    def _cut_short(self, page: Page, turn: Turn, kept: ToolResult) -> Saying | None:
        """Return what is said of a result of which only the beginning could be kept: once a turn."""
        if not is_lost(kept.value) or any(is_lost(each.result or {}) for each in actions.of_turn(page.tx, turn.id)):
            return None
        return Saying(turn, self._wording.reply("result_cut_short", turn.language))

    def failed(self, page: Page, turn: Turn, action: Action, result: ToolResult, prepared: Prepared | None = None) -> Action:
        """Record that the step was not done; say so if the turn needs it. ``prepared`` is the call, if it came to one."""
        if prepared is not None:
            page.afterwards.append(lambda: prepared.call_log.ended(result))
        return self._failed(page, turn, action, result, prepared)

    def _failed(self, page: Page, turn: Turn, action: Action, result: ToolResult, prepared: Prepared | None) -> Action:
        result = _of_the_first(action, result)
        notes = {} if prepared is None else {**_failed_before(action), **prepared.notes}
        return page.change(
            action, ActionState.FAILED, {**stored(result), **notes}, self._complaint(page, turn, action, result, prepared)
        )

    def _complaint(self, page: Page, turn: Turn, action: Action, result: ToolResult, prepared: Prepared | None) -> Saying | None:
        """Return what is said of a result, and have people told if it is for them: once a turn, nothing if the turn goes on."""
        if result.ok or page.turn_fails or not fails_turn(action, result.error_code):
            return None
        page.turn_fails = True
        sentences = Sentences(self._wording, turn.language)
        said = sentences.step_failed(result, action.tool)
        if result.error_code in IN_PLAN and typed_by(turn.lane):
            said = f"{said} {sentences.see_turn(turn.id)}"
        if prepared is not None and result.error_code in _FOR_PEOPLE:
            told = self._escalated(page, turn, action, prepared.call, prepared.tool, result)
            said = f"{ended(said)} {told}" if told else said
        return Saying(turn, said)

    def uncalled(
        self, page: Page, turn: Turn, prepared: Prepared, why: ToolResult, state: ActionState = ActionState.FAILED
    ) -> Action:
        """Record that a call whose intent is on disk was not made after all."""
        saying = None if state is ActionState.SKIPPED else self._complaint(page, turn, prepared.action, why, prepared)
        return page.conclude(prepared.action, EffectStatus.NONE, why, by="reply", state=state, saying=saying)

    def _escalated(self, page: Page, turn: Turn, action: Action, call: ToolCall, tool: AnyTool, result: ToolResult) -> str:
        return self._escalator.open_in(page.tx, turn, action, call, tool.contract, result)

    # questions ------------------------------------------------------------------------------------------------------
    def answered(self, page: Page, action: Action) -> Action:
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

    # effects --------------------------------------------------------------------------------------------------------
    def after_effect(self, page: Page, turn: Turn, action: Action, effect: Effect) -> Action | Unsure:
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
                return self._given_up(page, turn, unsure, found)

    def _given_up(self, page: Page, turn: Turn, unsure: Unsure, found: ToolResult) -> Action:
        """Leave an effect to people: nothing the appliance can do tells whether it happened."""
        action, call = unsure.action, unsure.call
        said = Sentences(self._wording, turn.language).effect_still_unknown(action.tool, call.arguments)
        effect = effects.of_action(page.tx, action.id)
        is_open = effect is not None and effect.status not in effects.SETTLED and (action.result or {}).get(ANNOUNCED) != GIVEN_UP
        if is_open and not action.optional and action.tool in self._toolbox.contracts:
            said = f"{said} {self._escalated(page, turn, action, call, self._toolbox.find(action.tool), found)}".rstrip()
        return page.unknown(action, found, GIVEN_UP, Saying(turn, said, tells_effect=True))

    # stops ----------------------------------------------------------------------------------------------------------
    def stopped_by(self, page: Page, turn: Turn, action: Action, effect: Effect | None, wish: Interrupt) -> Action:
        """Skip a step because somebody wants it; one with an effect that may have happened is unknown, and that is said."""
        if effect is None or effect.status in effects.SETTLED:
            return page.change(action, ActionState.SKIPPED, stored(result_of(wish, _NONE)))
        text = Sentences(self._wording, turn.language).effect_stopped(action.tool, effect.arguments)
        saying = Saying(turn, text, tells_effect=True)
        return page.unknown(action, result_of(wish, _UNKNOWN), GIVEN_UP, saying)

    def tell_done(self, page: Page, turn: Turn, steps: Sequence[Action]) -> None:
        """Say which effects have happened that the steps which are not done any more would have told of."""
        sentences = Sentences(self._wording, turn.language)
        for effect in untold(page.tx, steps):
            page.say(Saying(turn, sentences.effect_done(effect.tool, effect.arguments), tells_effect=True))


def _of_the_first(action: Action, result: ToolResult) -> ToolResult:
    """Return the failure of a step's own tool, when those that stood in for it failed as well: that is what was asked for."""
    before = (action.result or {}).get(STOOD_IN)
    if not before or action.state is not ActionState.STARTED:
        return result
    first = before[0]
    both = failure(first["error_code"], f"{first['error']}; nor could another tool: {result.error}", _NONE)
    return replace(both, reply=first.get("reply", ""), words=first.get("words", {}))


def _failed_before(action: Action) -> dict[str, Any]:
    before = (action.result or {}).get(STOOD_IN)
    return {STOOD_IN: before} if before else {}
