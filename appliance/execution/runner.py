"""Runs a turn's plan, step by step, from wherever the ledger says it stopped.

Nothing with an effect on the world is called before its intent is on disk, and what came of it is on disk before the next
step. After a crash the same ``run`` goes on: steps that are done stay done, read-only ones are run again, and an effect
that may have happened is checked, never repeated.

In: a turn whose plan is stored. Out: finished, waiting for an answer, or failed. Who calls: the conductor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from pydantic import BaseModel

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import ConfirmationStatus, Effect, EffectStatus
from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, OwnedElsewhere, Refused, Unavailable, Uncertain
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.tool import EffectDisposition, LedgerTool, Tool, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.calls import call_of, known_to
from appliance.execution.carry_through import carry_through
from appliance.execution.conditions import holds
from appliance.execution.journal import ANNOUNCED, Journal, Saying
from appliance.execution.results import TIMEOUT, failure, failure_of, stored, success
from appliance.execution.sentences import Sentences
from appliance.execution.settling import Settling, verify_waits
from appliance.execution.telemetry import CallLog
from appliance.execution.templates import render
from appliance.execution.toolbox import Toolbox, is_ledger_tool, is_outside_tool, record_of
from appliance.execution.tools.ask import Ask
from appliance.foundation.backoff import delays_s
from appliance.store.actions import FINAL

_QUESTIONS = frozenset({Ask.contract.name})
_NONE, _APPLIED = EffectDisposition.NONE, EffectDisposition.APPLIED


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. ``failure`` is for the record; the sentence about it is queued already."""

    kind: Literal["finished", "waiting", "failed"]
    failure: str = ""


def retry_waits() -> Iterator[float]:
    """Yield the pauses before a read-only call is tried again: 0.2 s doubling to 2 s."""
    return delays_s(0.2, 2.0)


class Runner:
    """Executes plans. One instance serves all turns; a turn is run by one caller at a time."""

    def __init__(
        self,
        ledger: Ledger,
        toolbox: Toolbox,
        clock: Clock,
        ids: IdSource,
        epoch: int,
        wording: Wording,
        *,
        delivered: Callable[[], None] = lambda: None,
        settle_waits: Callable[[], Iterable[float]] = verify_waits,
        retry_waits: Callable[[], Iterator[float]] = retry_waits,
    ) -> None:
        """``delivered`` is called after a commit that queued words. The two ``waits`` yield pauses in s; the first ends."""
        self._toolbox = toolbox
        self._clock = clock
        self._wording = wording
        self._journal = Journal(ledger, clock, ids, epoch, delivered)
        self._settling = Settling(self._journal, toolbox, wording, settle_waits)
        self._retry_waits = retry_waits

    async def run(self, turn: Turn) -> RunOutcome:
        """Go on with the turn's first step that is not final. Cancellation passes, after the unknown it made is recorded.

        Raises:
            OwnedElsewhere: another process took the ledger over; nothing more is run.
            StorageFullError: what happened could not be made durable.
        """
        actions = await self._journal.actions(turn.id)
        for position, found in enumerate(actions):
            action = found if found.state in FINAL else await self._advance(turn, found, actions[:position])
            actions[position] = action
            match action.state:
                case ActionState.WAITING:
                    return RunOutcome("waiting")
                case ActionState.FAILED | ActionState.UNKNOWN if not action.optional:
                    result = action.result or {}
                    return RunOutcome("failed", f"{action.step_id}: {result.get('error_code')}: {result.get('error')}")
        return RunOutcome("finished")

    async def settle_effect(self, action_id: str, verdict: Literal["done", "not-done"], note: str, by: str) -> Effect:
        """Record a person's word on an unknown effect.

        Raises:
            Refused: there is no such unknown, it is settled already, or the verdict is neither of the two.
        """
        if verdict not in ("done", "not-done"):
            raise Refused(f"an effect is settled as done or not-done, not as {verdict}")
        return await self._journal.settled_by_person(action_id, happened=verdict == "done", note=note, by=by)

    # one step -------------------------------------------------------------------------------------------------------
    async def _advance(self, turn: Turn, action: Action, earlier: Sequence[Action]) -> Action:
        """Bring one step from the state it was found in to the next one that lasts."""
        if action.state is ActionState.WAITING:
            return await self._answered(turn, action)
        if action.state in (ActionState.STARTED, ActionState.UNKNOWN):
            effect = await self._journal.effect_of(action)
            if effect is not None:
                return await self._after_effect(turn, action, effect)
        try:
            if not holds(action.when, {a.step_id: a for a in earlier}, _QUESTIONS):
                return await self._journal.changed(action, ActionState.SKIPPED)
            tool = self._toolbox.find(action.tool)
            known = known_to(turn, earlier)
            rendered = render(action.arguments, known, lambda value: self._wording.spoken(value, turn.language))
            arguments = self._toolbox.check_arguments(action.tool, rendered)
        except Malformed as error:
            return await self._failed(turn, action, failure_of(error, _NONE))
        if is_ledger_tool(tool):
            return await self._in_ledger(turn, action, tool, arguments)
        assert is_outside_tool(tool)  # the toolbox loads nothing else
        if tool.contract.has_effect:
            return await self._with_effect(turn, action, tool, arguments)
        return await self._without_effect(turn, action, tool, arguments)

    async def _answered(self, turn: Turn, action: Action) -> Action:
        """Take a question's answer over into its action; an open one keeps waiting."""
        question = await self._journal.question(str((action.result or {}).get("confirmation")))
        match question.status:
            case ConfirmationStatus.PENDING:
                return action
            case ConfirmationStatus.YES | ConfirmationStatus.NO:
                answer = {"confirmed": question.status is ConfirmationStatus.YES, "answered_by": question.answered_by}
                return await self._journal.changed(action, ActionState.DONE, {**(action.result or {}), **answer})
            case ConfirmationStatus.ABANDONED:
                result = failure("unanswered", "nobody answered", _NONE)
                return await self._journal.changed(action, ActionState.FAILED, stored(result))
            case _:
                assert_never(question.status)

    async def _in_ledger(self, turn: Turn, action: Action, tool: LedgerTool, arguments: BaseModel) -> Action:
        """Do the tool's rows and the action's end in one transaction."""
        call = call_of(turn, action, arguments.model_dump(mode="json"))
        call_log = CallLog(tool.contract, call, self._clock)
        call_log.started()

        def work(tx: Transaction) -> Mapping[str, Any]:
            return stored(success(self._toolbox.check_result(action.tool, tool.apply(tx, call, arguments)), _NONE))

        state = ActionState.WAITING if action.tool in _QUESTIONS else ActionState.DONE
        try:
            ended = await self._journal.ledger_call(action, state, work)
        except OwnedElsewhere:
            raise
        except FloorhandError as error:
            return await self._failed(turn, action, failure_of(error, _NONE), call_log)
        call_log.ended(success({}, _NONE))
        return ended

    async def _without_effect(self, turn: Turn, action: Action, tool: Tool, arguments: BaseModel) -> Action:
        """Call a tool that changes nothing, again if the other side was away, and keep what it says."""
        call = call_of(turn, action, arguments.model_dump(mode="json"))
        call_log = CallLog(tool.contract, call, self._clock)
        call_log.started()
        waits = self._retry_waits()
        for tries_left in range(tool.contract.sla.retries, -1, -1):
            try:
                value = await self._timed(tool, tool.run(call, arguments))
                result = success(self._toolbox.check_result(action.tool, value), _NONE)
                break
            except TimeoutError:
                result = failure(TIMEOUT, f"{action.tool} took too long", _NONE)
                break
            except Unavailable as error:
                result = failure_of(error, _NONE)
                if tries_left:
                    await asyncio.sleep(next(waits))
            except FloorhandError as error:
                result = failure_of(error, _NONE)
                break
        if not result.ok:
            return await self._failed(turn, action, result, call_log)
        call_log.ended(result)
        return await self._journal.changed(action, ActionState.DONE, stored(result))

    # effects --------------------------------------------------------------------------------------------------------
    async def _with_effect(self, turn: Turn, action: Action, tool: Tool, arguments: BaseModel) -> Action:
        """Make the intent durable, call once, make the outcome durable."""
        sent = arguments.model_dump(mode="json")
        call = call_of(turn, action, sent)
        call_log = CallLog(tool.contract, call, self._clock)
        await self._journal.intend(action, sent)
        call_log.started()
        try:
            value = await self._timed(tool, tool.run(call, arguments))
        except (Uncertain, Corrupt) as error:
            return await self._unsure(turn, action, sent, error.message, call_log)
        except TimeoutError:
            return await self._unsure(turn, action, sent, f"{action.tool} took too long", call_log)
        except FloorhandError as error:  # the tool says that nothing was changed
            result = failure_of(error, _NONE)
            call_log.ended(result)
            saying = self._complaint(turn, action, result)
            ending = self._journal.conclude(action, EffectStatus.NONE, result, by="reply", saying=saying)
            return await carry_through(ending)
        except BaseException:  # cancelled, or a fault in the tool: the call may have got through
            await carry_through(self._settling.declare_unknown(turn, action, sent, "stopped before an answer came"))
            raise
        result = self._kept(action.tool, value)
        call_log.ended(result)
        saying = self._complaint(turn, action, result)
        record = record_of(tool, call, result.value) if result.ok else None
        ending = self._journal.conclude(action, EffectStatus.APPLIED, result, by="reply", saying=saying, record=record)
        return await carry_through(ending)

    async def _unsure(self, turn: Turn, action: Action, sent: Mapping[str, Any], why: str, call_log: CallLog) -> Action:
        """Settle a call that ended without telling whether it happened."""
        call_log.ended(failure("uncertain", why, EffectDisposition.UNKNOWN))
        declared = await carry_through(self._settling.declare_unknown(turn, action, sent, why))
        return await self._settling.settle(turn, declared, call_of(turn, declared, sent))

    async def _after_effect(self, turn: Turn, action: Action, effect: Effect) -> Action:
        """Go on after a restart with a step whose effect was intended, whatever became of it."""
        match effect.status:
            case EffectStatus.APPLIED:
                applied = success(effect.result or {}, _APPLIED)
                return await self._journal.changed(action, ActionState.DONE, stored(applied))
            case EffectStatus.NONE:
                missing = failure("not_applied", effect.note or "it did not happen", _NONE)
                return await self._failed(turn, action, missing)
            case EffectStatus.INTENDED | EffectStatus.UNKNOWN:
                if effect.status is EffectStatus.INTENDED or ANNOUNCED not in (action.result or {}):
                    why = effect.note or "stopped before an answer came"
                    action = await self._settling.declare_unknown(turn, action, effect.arguments, why)
                return await self._settling.settle(turn, action, call_of(turn, action, effect.arguments))
            case _:
                assert_never(effect.status)

    # common ---------------------------------------------------------------------------------------------------------
    @staticmethod
    async def _timed(tool: Tool, running: Any) -> Mapping[str, Any]:
        """Await a call within its contract's bound."""
        async with asyncio.timeout(tool.contract.sla.max_execution_time_ms / 1000):
            value: Mapping[str, Any] = await running
            return value

    def _kept(self, name: str, value: Mapping[str, Any]) -> ToolResult:
        """Return the result of an effect that happened, even if the tool broke its result contract in telling so."""
        try:
            return success(self._toolbox.check_result(name, value), _APPLIED)
        except Malformed as error:
            return failure_of(error, _APPLIED)

    async def _failed(self, turn: Turn, action: Action, result: ToolResult, call_log: CallLog | None = None) -> Action:
        """Record that the step was not done; say so if the turn needs it."""
        if call_log is not None:
            call_log.ended(result)
        saying = self._complaint(turn, action, result)
        return await self._journal.changed(action, ActionState.FAILED, stored(result), saying)

    def _complaint(self, turn: Turn, action: Action, result: ToolResult) -> Saying | None:
        """Return what is said about a result: nothing when it is good or the step is optional."""
        if result.ok or action.optional:
            return None
        return Saying(turn, Sentences(self._wording, turn.language).step_failed(result))
