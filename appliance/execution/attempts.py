"""Making one call: a read again while the other side is away, an effect once, one that can be restored again after it was (T5).

In: a call whose beginning is on disk. Out: what writes its end. Nothing here writes, but for what has to be kept on the way out.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, TypeGuard, TypeVar

from appliance.contracts.approving import Approver
from appliance.contracts.errors import BrokenResult, Corrupt, Fault, FloorhandError, Unavailable, Uncertain
from appliance.contracts.plan import ActionState
from appliance.contracts.tool import EffectDisposition, RestorableTool, Tool, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.calling import Bell, Calls, Stopped
from appliance.execution.carry_through import record_in_passing
from appliance.execution.journal import Journal
from appliance.execution.results import TIMEOUT, failure, failure_of, whole
from appliance.execution.standing import Begun, Ending
from appliance.execution.step_ends import StepEnds
from appliance.execution.stops import result_of
from appliance.execution.tool_breaker import ToolBreaker, left_alone
from appliance.execution.toolbox.nested_calls import is_composed, run_composed
from appliance.execution.toolbox.toolbox import Toolbox, bound_s
from appliance.foundation.supervisor import Faults

T = TypeVar("T")

_NONE, _APPLIED, _UNKNOWN = EffectDisposition.NONE, EffectDisposition.APPLIED, EffectDisposition.UNKNOWN
_BEFOREHAND_S = 5.0  # reading the tags of an interlock, or what is there now; the bus answers or gives up well before
_NO_ANSWER = "stopped before an answer came"
INTERRUPTED = failure("interrupted", "the appliance stopped before it began", _NONE)


class _Ended(Exception):
    """A call with an effect came to its end before it brought anything."""

    def __init__(self, ending: Ending) -> None:
        super().__init__()
        self.ending = ending


class _Sending:
    """Whether a call with an effect has begun, and whether it may."""

    __slots__ = ("has_begun", "is_forbidden")

    def __init__(self) -> None:
        self.has_begun = False
        self.is_forbidden = False


def is_restorable(tool: Tool) -> TypeGuard[RestorableTool]:
    """Whether what was there before a call can be brought back."""
    return callable(getattr(tool, "snapshot", None)) and callable(getattr(tool, "restore", None))


class Attempts:
    """Makes calls. ``retry_waits`` yields the pauses before one is tried again, in s."""

    def __init__(
        self,
        toolbox: Toolbox,
        calls: Calls,
        breaker: ToolBreaker,
        approvals: Approver,
        ends: StepEnds,
        journal: Journal,
        faults: Faults,
        retry_waits: Callable[[], Iterator[float]],
    ) -> None:
        self._toolbox = toolbox
        self._calls = calls
        self._breaker = breaker
        self._approvals = approvals
        self._ends = ends
        self._journal = journal
        self._faults = faults
        self._retry_waits = retry_waits

    def closed(self, name: str) -> str:
        """Return why a tool is not called now, in words fit to be spoken; empty when it is."""
        if self._calls.is_clogged(name):
            return f"earlier calls of {name} have not ended"
        return self._breaker.why_not(name)

    async def make(self, turn: Turn, begun: Begun, bell: Bell, within_s: float = math.inf) -> Ending | None:
        """Make a call and return what writes its end; None when whoever goes on finds in the ledger what ended it. ``within_s``
        bounds a call without effect besides its contract; with 0 it is not made."""
        has_effect = begun.tool.contract.has_effect
        if bell.is_rung:  # between the look at the ledger and now: what was not called yet is not called
            wish = await bell.wish()
            if wish is not None:
                result = result_of(wish, _NONE)
                begun.prepared.call_log.ended(result)
                return self._uncalled(turn, begun, result, ActionState.SKIPPED) if has_effect else None
        try:
            if has_effect:
                return await self._with_effect(turn, begun, bell)
            why_not = self.closed(begun.call.tool)  # something may have happened to it while this call waited for its turn
            if why_not:
                return self._not_done(turn, begun, failure_of(left_alone(begun.call.tool, why_not), _NONE))
            return await self._without_effect(turn, begun, bell, within_s)
        except Stopped as stopped:
            begun.prepared.call_log.ended(result_of(stopped.wish, _UNKNOWN if has_effect else _NONE))
            return None

    # calls without effect -------------------------------------------------------------------------------------------
    async def _without_effect(self, turn: Turn, begun: Begun, bell: Bell, within_s: float) -> Ending:
        """Call a tool that changes nothing, again if the other side was away."""
        name, waits = begun.call.tool, None
        bound, tries_left = min(bound_s(begun.tool), within_s), begun.tool.contract.sla.retries
        if not bound:
            return self._not_done(turn, begun, failure(TIMEOUT, f"no time was left for {name}", _NONE))
        while True:
            try:
                result = self._checked(begun, await self._within(begun, partial(_running, begun), bound, bell), _NONE)
                break
            except TimeoutError:
                result = failure(TIMEOUT, f"{name} took too long", _NONE)
                break
            except Unavailable as error:
                result = failure_of(error, _NONE)
                if not tries_left:
                    break
            except FloorhandError as error:
                result = failure_of(error, _NONE)
                break
            tries_left -= 1
            waits = waits or self._retry_waits()
            await self._calls.within("pause", asyncio.sleep(next(waits)), None, bell)
        if not result.ok:
            return self._not_done(turn, begun, result)
        begun.prepared.call_log.ended(result)
        return lambda page: self._ends.done(page, turn, begun.prepared, result)

    # calls with an effect -------------------------------------------------------------------------------------------
    async def _with_effect(self, turn: Turn, begun: Begun, bell: Bell) -> Ending:
        """Call a tool whose intent is on disk: once, or again only after what was there before is restored."""
        try:
            if is_restorable(begun.tool):
                value = await self._with_restoring(turn, begun, begun.tool, bell)
            else:
                value = await self._effect(turn, begun, bell)
        except _Ended as ended:
            return ended.ending
        except FloorhandError as error:  # the tool says that nothing was changed
            return self._not_done(turn, begun, failure_of(error, _NONE))
        result = self._checked(begun, value, _APPLIED)
        begun.prepared.call_log.ended(result)
        return lambda page: self._ends.applied(page, turn, begun.prepared, result)

    async def _with_restoring(self, turn: Turn, begun: Begun, tool: RestorableTool, bell: Bell) -> Mapping[str, Any]:
        """Make a call again while the other side is away, each time after what was there before was brought back.

        Raises:
            FloorhandError: it failed for good, and is restored.
            _Ended: it is not made, or nobody knows what became of it.
        """
        call, arguments, waits = begun.call, begun.prepared.arguments, self._retry_waits()
        before = await self._beforehand(turn, begun, partial(tool.snapshot, call, arguments), bell)
        tries_left = tool.contract.sla.retries
        while True:
            try:
                return await self._effect(turn, begun, bell)
            except FloorhandError as error:
                await self._restored(turn, begun, partial(tool.restore, call, arguments, before), error, bell)
                if not tries_left or not isinstance(error, Unavailable):
                    raise
            tries_left -= 1
            wish = await bell.wish() if bell.is_rung else None
            if wish is not None:
                raise await self._unsent(turn, begun, Stopped(wish))
            await self._beforehand(turn, begun, partial(asyncio.sleep, next(waits)), bell)

    async def _beforehand(self, turn: Turn, begun: Begun, work: Callable[[], Awaitable[T]], bell: Bell) -> T:
        """Await what comes before a call with an effect: whatever keeps it from being made, nothing was sent.

        Raises:
            _Ended: the call is not made.
        """
        try:
            return await self._calls.within(begun.call.tool, self._faults.contained_in_call(work), _BEFOREHAND_S, bell)
        except BaseException as error:
            raise await self._unsent(turn, begun, error) from error

    async def _unsent(self, turn: Turn, begun: Begun, error: BaseException) -> _Ended:
        """Return the end of a call with an effect that was kept from being made; what passes on its way out is raised."""
        match error:
            case Stopped():
                result = result_of(error.wish, _NONE)
                begun.prepared.call_log.ended(result)
                return _Ended(self._uncalled(turn, begun, result, ActionState.SKIPPED))
            case TimeoutError():
                why = f"what has to be known before {begun.call.tool} could not be read in time"
                late = Unavailable(why).worded("not_known_in_time")
                return _Ended(self._not_done(turn, begun, failure_of(late, _NONE)))
            case FloorhandError():
                return _Ended(self._not_done(turn, begun, failure_of(error, _NONE)))
            case _:
                await record_in_passing(self._journal.write(self.interrupted(turn, begun)), error)
                raise error

    async def _effect(self, turn: Turn, begun: Begun, bell: Bell) -> Mapping[str, Any]:
        """Make the call itself, if what has to hold in the machine holds at this moment.

        Raises:
            FloorhandError: the tool says what kept it from its effect.
            _Ended: it was not made, or nobody knows whether it happened.
        """
        sending = _Sending()
        try:
            return await self._within(begun, partial(self._once_live, begun, sending), bound_s(begun.tool), bell)
        except BaseException as error:
            if not sending.has_begun:
                sending.is_forbidden = True
                raise await self._unsent(turn, begun, error) from error
            match error:
                case Uncertain() | Corrupt() | Fault():
                    raise _Ended(self._unsure(turn, begun, error.message)) from error
                case TimeoutError():
                    raise _Ended(self._unsure(turn, begun, f"{begun.call.tool} took too long")) from error
                case FloorhandError() | Stopped():
                    raise
                case _:  # cancelled: the call may have got through
                    await record_in_passing(self._journal.write(self._unsure(turn, begun, _NO_ANSWER)), error)
                    raise

    async def _once_live(self, begun: Begun, sending: _Sending) -> Mapping[str, Any]:
        """Ask whether it holds now, and then make the call, unless it was given up meanwhile."""
        await self._approvals.require_live(begun.call, begun.tool, begun.prepared.arguments)
        if sending.is_forbidden:
            raise Uncertain(f"{begun.call.tool} was given up before it was called")
        sending.has_begun = True
        return await _running(begun)

    async def _restored(
        self, turn: Turn, begun: Begun, restoring: Callable[[], Awaitable[None]], failed: FloorhandError, bell: Bell
    ) -> None:
        """Bring back what was there before a call that failed.

        Raises:
            _Ended: it could not be, or nobody knows.
        """
        try:
            work = self._faults.contained_in_call(restoring)
            await self._calls.within(begun.call.tool, work, bound_s(begun.tool), bell)
        except (FloorhandError, TimeoutError) as error:
            why = error.message if isinstance(error, FloorhandError) else "it took too long"
            said = f"it failed ({failed.message}), and what was before could not be restored: {why}"
            raise _Ended(self._unsure(turn, begun, said)) from error
        except Stopped:
            raise
        except BaseException as error:
            await record_in_passing(self._journal.write(self._unsure(turn, begun, _NO_ANSWER)), error)
            raise

    # common ---------------------------------------------------------------------------------------------------------
    async def _within(
        self, begun: Begun, running: Callable[[], Awaitable[Mapping[str, Any]]], bound: float, bell: Bell
    ) -> Mapping[str, Any]:
        """Await the tool within its bound, and note whether it keeps to it."""
        name = begun.call.tool
        try:
            value = await self._calls.within(name, self._faults.contained_in_call(running), bound, bell)
        except TimeoutError:
            self._breaker.timed_out(name)
            raise
        except FloorhandError:
            self._breaker.answered(name)
            raise
        self._breaker.answered(name)
        return value

    def _checked(self, begun: Begun, value: Mapping[str, Any], disposition: EffectDisposition) -> ToolResult:
        """Return what a tool brought; an effect that happened stays one even if the tool broke its result contract in telling."""
        try:
            return whole(self._toolbox.check_result(begun.call.tool, value), disposition)
        except BrokenResult as error:
            return failure_of(error, disposition)

    def _not_done(self, turn: Turn, begun: Begun, result: ToolResult) -> Ending:
        """Return what records a call that failed and changed nothing."""
        begun.prepared.call_log.ended(result)
        return lambda page: self._ends.not_done(page, turn, begun.prepared, result)

    def _unsure(self, turn: Turn, begun: Begun, why: str) -> Ending:
        """Return what declares a call unknown that ended without telling whether it happened."""
        begun.prepared.call_log.ended(failure(Uncertain.code, why, _UNKNOWN))
        return lambda page: self._ends.declared_unknown(page, turn, begun.action, begun.call.arguments, why)

    def _uncalled(self, turn: Turn, begun: Begun, why: ToolResult, state: ActionState) -> Ending:
        return lambda page: self._ends.uncalled(page, turn, begun.prepared, why, state)

    def interrupted(self, turn: Turn, begun: Begun) -> Ending:
        """Return what records that a call was not made since the appliance stops."""
        return self._uncalled(turn, begun, INTERRUPTED, ActionState.FAILED)


def _running(begun: Begun) -> Coroutine[Any, Any, Mapping[str, Any]]:
    tool, call, arguments = begun.tool, begun.call, begun.prepared.arguments
    return run_composed(tool, call, arguments) if is_composed(tool) else tool.run(call, arguments)
