"""How a step begins: everything that may keep it from beginning, in one order, and the row that says it has begun.

Its condition, what it needs of cancelled steps, its arguments, hold, the gate for calls, guardrails; then a ledger tool is done
at once, and an outside tool is ready to be called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from pydantic import BaseModel

from appliance.contracts.approval import Decision, Rule
from appliance.contracts.approving import Approver
from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Malformed, OwnedElsewhere, Refused
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.ports import Wording
from appliance.contracts.principal import UNATTENDED, principal_of
from appliance.contracts.tool import EffectDisposition, ToolContract, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.approval.writes import WRITE_TOOL
from appliance.execution.calls import call_of, known_to, surroundings
from appliance.execution.conditions import holds
from appliance.execution.guardrails import BLOCKED, HALTED, Weight, judge
from appliance.execution.journal import Page
from appliance.execution.results import NEEDS_YES, failure, failure_of, stored, whole
from appliance.execution.sentences import ON_HOLD
from appliance.execution.standing import Begun, Prepared, Way
from appliance.execution.step_ends import StepEnds
from appliance.execution.stops import CANCELLED, code_of
from appliance.execution.telemetry import CallLog
from appliance.execution.templates import render, texts_of
from appliance.execution.tool_breaker import left_alone
from appliance.execution.toolbox.toolbox import Toolbox, is_ledger_tool, is_outside_tool, unknown_tool
from appliance.execution.tools.ask import Ask
from appliance.execution.untold import DELIVERY, untold
from appliance.store import approvals, deliveries
from appliance.store import holds as hold_rows
from appliance.store.approvals import Decided
from appliance.store.savepoints import savepoint
from appliance.store.step_names import named_in

log = logging.getLogger(__name__)

QUESTIONS = frozenset({Ask.contract.name})
_CANCELLABLE = (ActionState.SKIPPED, ActionState.UNKNOWN)
_NONE = EffectDisposition.NONE


class Unfit(Exception):
    """A step that does not begin: skipped when ``is_skipped``, else failed with ``result``. ``prepared`` is its call if it came
    to one."""

    def __init__(self, result: ToolResult | None, prepared: Prepared | None = None, *, is_skipped: bool = False) -> None:
        super().__init__("" if result is None else result.error)
        self.result = result
        self.prepared = prepared
        self.is_skipped = is_skipped


class Closed(Unfit):
    """A step whose tool is not called now; another may stand in for it."""

    def __init__(self, result: ToolResult, prepared: Prepared) -> None:
        super().__init__(result, prepared)
        self.failed = result, prepared


class StepStarts:
    """Begins steps. ``closed`` tells why a tool is not called now, in words fit to be spoken; empty when it is."""

    def __init__(
        self,
        toolbox: Toolbox,
        wording: Wording,
        clock: Clock,
        approvals: Approver,
        ends: StepEnds,
        closed: Callable[[str], str],
    ) -> None:
        self._toolbox = toolbox
        self._wording = wording
        self._clock = clock
        self._approvals = approvals
        self._ends = ends
        self._closed = closed

    def begin(self, page: Page, turn: Turn, action: Action, earlier: Sequence[Action], way: Way) -> Action | Begun:
        """Begin a step: return it as it ended, or the call that is to be made for it."""
        while True:
            try:
                prepared = self.prepared(page, turn, action, earlier)
                if is_ledger_tool(prepared.tool):
                    return self._in_ledger(page, turn, prepared, earlier)
                return self._called(page, turn, prepared, way)
            except Closed as closed:
                result, prepared = closed.failed
                passed_on = self._ends.passed_on(page, prepared, result)
                if passed_on is None:
                    return self._ends.failed(page, turn, action, result, prepared)
                page.afterwards.append(partial(prepared.call_log.ended, result))
                action = passed_on
            except Unfit as unfit:
                if unfit.is_skipped or unfit.result is None:
                    return page.change(action, ActionState.SKIPPED, None if unfit.result is None else stored(unfit.result))
                return self._ends.failed(page, turn, action, unfit.result, unfit.prepared)

    def begin_beside(self, page: Page, turn: Turn, action: Action, earlier: Sequence[Action], way: Way) -> Begun | None:
        """Begin a step without effect beside others that have begun; None, and nothing written, when it cannot begin now."""
        try:
            with savepoint(page.tx):
                prepared = self.prepared(page, turn, action, earlier)
        except Unfit:  # once those others have ended it is looked at again, and then it is written
            return None
        return self._called(page, turn, prepared, way)

    def prepared(self, page: Page, turn: Turn, action: Action, earlier: Sequence[Action]) -> Prepared:
        """Return the call of a step that may begin.

        Raises:
            Unfit: it may not, or not now.
        """
        name = self._ends.standing_in(action) or action.tool
        try:
            if action.when and not holds(action.when, {a.step_id: a for a in earlier}, QUESTIONS):
                raise Unfit(None, is_skipped=True)
            cancelled = {a.step_id for a in earlier if a.state in _CANCELLABLE and code_of(a) == CANCELLED}
            missing = next((each for each in named_in(action.arguments) if each in cancelled), None) if cancelled else None
            if missing is not None:
                raise Unfit(failure(CANCELLED, f"it needs {missing}, which was cancelled", _NONE), is_skipped=True)
            tool = self._toolbox.find(name)
            around = surroundings(turn)
            known = known_to(around, earlier)
            arguments = self._arguments(page, name, turn, action, known)
        except Malformed as error:
            raise Unfit(failure_of(error, _NONE)) from error
        call = call_of(turn, action, arguments.model_dump(mode="json"), around, tool=name)
        prepared = Prepared(action, tool, call, arguments, CallLog(tool.contract, call, self._clock))
        held = _held(page, tool.contract)
        if held is not None and tool.contract.security.access_level <= call.principal.level:
            self._approvals.note_held(page.tx, turn, action, call, tool, held.error)
            raise Unfit(held, prepared)
        self._approve(page, turn, prepared, earlier)
        if name == action.tool:
            prepared = self._judge(turn, prepared, known, earlier)
        why_not = self._closed(name)
        if why_not:
            raise Closed(failure_of(left_alone(name, why_not), _NONE), prepared)
        return prepared

    def _arguments(self, page: Page, name: str, turn: Turn, action: Action, known: Mapping[str, Any]) -> BaseModel:
        """Fill in and check what a call is made with.

        Raises:
            Malformed: it cannot be. Whoever may not know of the tool learns no more of it than that there is none.
        """
        try:
            texts = texts_of(self._toolbox.contracts[name].schema.arguments)
            filled = render(action.arguments, known, lambda value: self._wording.spoken(value, turn.language), texts)
            return self._toolbox.check_arguments(name, filled)
        except Malformed as error:
            if self._toolbox.contracts[name].security.access_level > (who := principal_of(turn.context)).level:
                unknown = unknown_tool(name)
                hidden = Decided(
                    action.id, turn.id, turn.session_id, name, "", Decision.DENY, Rule.HARD_FLOOR, unknown.message, who,
                    is_automatic=True, is_hidden=True,
                )  # fmt: skip
                approvals.note(page.tx, self._clock, hidden)
                raise unknown from error
            raise

    def _approve(self, page: Page, turn: Turn, prepared: Prepared, earlier: Sequence[Action]) -> None:
        """Pass the gate of all calls.

        Raises:
            Unfit: the call is not allowed.
        """
        tool, call = prepared.tool, prepared.call
        verdict = self._approvals.decide(page.tx, turn, prepared.action, call, tool, prepared.arguments, earlier)
        if verdict.is_hidden:
            raise Unfit(failure_of(unknown_tool(call.tool), _NONE))
        match verdict.decision:
            case Decision.ALLOW:
                return
            case Decision.ASK:
                why = verdict.why or f"{call.tool} needs a person's yes, and nobody was asked"
                raise Unfit(failure(NEEDS_YES, why, _NONE), prepared)
            case Decision.DENY:
                raise Unfit(failure(Refused.code, verdict.why, _NONE), prepared)
            case _:
                assert_never(verdict.decision)

    def _judge(self, turn: Turn, prepared: Prepared, known: Mapping[str, Any], earlier: Sequence[Action]) -> Prepared:
        """Ask the guardrails, and return the call with their warning if they have one.

        Raises:
            Unfit: it is not made, or ends the turn.
        """
        action = prepared.action
        is_open = any(named_in(action.arguments))

        def alike(step: Action) -> bool:
            return any(named_in(step.arguments)) and self._filled(step, known, turn) == self._filled(action, known, turn)

        found = judge(action, earlier, alike if is_open else None, is_unattended=bool(turn.context.get(UNATTENDED)))
        if found is None:
            return prepared
        log.warning("guardrail.found", extra={"action": action.id, "tool": action.tool, "weight": found.weight.name.lower()})
        if found.weight is Weight.WARN:
            return replace(prepared, warning=found.why)
        code = BLOCKED if found.weight is Weight.BLOCK else HALTED
        raise Unfit(failure(code, found.why, _NONE), prepared)

    def _filled(self, step: Action, known: Mapping[str, Any], turn: Turn) -> Mapping[str, Any] | None:
        try:
            return render(step.arguments, known, lambda value: self._wording.spoken(value, turn.language))
        except Malformed:
            return None

    def _in_ledger(self, page: Page, turn: Turn, prepared: Prepared, earlier: Sequence[Action]) -> Action:
        """Do the tool's rows and the action's end together."""
        action, tool, call_log = prepared.action, prepared.tool, prepared.call_log
        assert is_ledger_tool(tool)
        page.afterwards.append(call_log.started)
        state = ActionState.WAITING if prepared.call.tool in QUESTIONS else ActionState.DONE
        try:
            with savepoint(page.tx):
                told = tool.apply(page.tx, prepared.call, prepared.arguments)
                value = self._toolbox.check_result(prepared.call.tool, told)
                ended = self._ends.done(page, turn, prepared, whole(value, _NONE), state)
        except OwnedElsewhere:
            raise
        except FloorhandError as error:
            if tool.contract.extends_plan and isinstance(error, Refused):
                self._note_refused(page, turn, action, error)
            return self._ends.failed(page, turn, action, failure_of(error, _NONE), prepared)
        page.afterwards.append(lambda: call_log.ended(whole({}, _NONE)))
        if DELIVERY in value and state is ActionState.DONE and untold(page.tx, earlier):
            deliveries.keep(page.tx, str(value[DELIVERY]))  # the turn's own words on what was done
        page.said = True  # the tool may have queued words
        return ended

    def _note_refused(self, page: Page, turn: Turn, action: Action, refused: Refused) -> None:
        """Note what a playbook that was to be run would have done and may not, or that it is not run at all: what the tool itself
        wrote is undone. One that is not there at all leaves no record, as a tool that is not there."""
        told = refused.facts
        if told.get("is_known") is False:
            return
        who, rule = principal_of(turn.context), Rule(str(told.get("rule") or Rule.HARD_FLOOR))
        tool = str(told.get("tool") or (WRITE_TOOL if "tag" in told else action.tool))
        denied = Decided(
            action.id, turn.id, turn.session_id, tool, str(told.get("tag") or ""), Decision.DENY, rule, refused.message, who,
            is_automatic=True, is_hidden=bool(told.get("is_hidden")), playbook=str(action.arguments.get("playbook") or ""),
        )  # fmt: skip
        approvals.note(page.tx, self._clock, denied)

    def _called(self, page: Page, turn: Turn, prepared: Prepared, way: Way) -> Begun:
        """Record that a call is about to be made.

        Raises:
            Unfit: the turn's lease is lost, or there is no room for the intent of an effect.
        """
        tool = prepared.tool
        assert is_outside_tool(tool)  # the toolbox loads nothing else
        if tool.contract.has_effect:
            try:
                page.require_lease(turn.id)
            except Refused as error:
                raise Unfit(failure_of(error, _NONE), prepared) from error
            if way.unbegun is not None:
                raise Unfit(failure_of(way.unbegun, _NONE), prepared)
            way.intending = prepared.action.id
            started = page.intend(prepared.action, prepared.call.arguments)
        else:
            started = page.change(prepared.action, ActionState.STARTED)
        page.afterwards.append(prepared.call_log.started)
        return Begun(started, prepared, tool)


def _held(page: Page, contract: ToolContract) -> ToolResult | None:
    """Return why a call is not made while the appliance is on hold (R10), None if it is made."""
    if contract.has_effect or contract.is_held:
        try:
            hold_rows.require_none(page.tx)
        except Refused as error:
            return replace(failure(ON_HOLD, error.message, _NONE), value=error.facts)
    return None
