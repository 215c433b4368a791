"""Runs a turn's plan, from wherever the ledger says it stopped.

Nothing with an effect on the world is called before its intent is on disk, and what came of it is on disk before the next
step. After a crash the same ``run`` goes on: steps that are done stay done, read-only ones are run again, and an effect
that may have happened is checked, never repeated. What happens between two calls is ``stretch``'s matter.

In: a turn whose plan is stored. Out: finished, waiting for an answer, failed, stopped, or left for a steer. Who calls: the
conductor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import Effect, EffectStatus
from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, Refused, StorageFullError, Unavailable, Uncertain
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger
from appliance.contracts.tool import EffectDisposition, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.calling import Bell, Calls, Stopped
from appliance.execution.carry_through import carry_through, record_in_passing
from appliance.execution.journal import Journal, Page, Saying
from appliance.execution.results import TIMEOUT, failure, failure_of, stored, success
from appliance.execution.settling import Settling, verify_waits
from appliance.execution.stops import result_of
from appliance.execution.stretch import Begun, Reached, RunOutcome, Stretches, Unsure, Way
from appliance.execution.toolbox import Toolbox, bound_s, record_of
from appliance.execution.turn_signal import TurnSignal
from appliance.execution.unknowns import Unknowns
from appliance.foundation.backoff import delays_s

__all__ = ["RunOutcome", "Runner"]

Ending = Callable[[Page], Action]
"""Writes the end of the step under way. None: whoever goes on finds in the ledger what ended it."""

_NONE, _APPLIED, _UNKNOWN = EffectDisposition.NONE, EffectDisposition.APPLIED, EffectDisposition.UNKNOWN
_INTERRUPTED = failure("interrupted", "the appliance stopped before it began", _NONE)


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
        progress: Callable[[str], None] = lambda _: None,
        settle_waits: Callable[[], Iterable[float]] = verify_waits,
        retry_waits: Callable[[], Iterator[float]] = retry_waits,
    ) -> None:
        """``delivered`` is called after a commit that queued words, ``progress`` with a turn's id after one that changed the
        state of a step. The two ``waits`` yield pauses in s; the first ends."""
        self._toolbox = toolbox
        self._calls = Calls()
        self._journal = Journal(ledger, clock, ids, epoch, delivered)
        self._settling = Settling(toolbox, self._calls)
        self._stretches = Stretches(toolbox, wording, clock, self._calls.is_clogged)
        self._unknowns = Unknowns(self._journal, toolbox, self._settling, clock)
        self._progress = progress
        self._settle_waits = settle_waits
        self._retry_waits = retry_waits

    async def run(self, turn: Turn, signal: TurnSignal | None = None) -> RunOutcome:
        """Go on with the turn's first step that has not ended. Cancellation passes, after the unknown it made is recorded.

        ``signal`` is rung when an interrupt of the turn is on disk: what is under way has ended a second later. Without it a
        stop is obeyed at the next step.

        Raises:
            OwnedElsewhere: another process took the ledger over; nothing more is run.
            StorageFullError: what happened could not be made durable; the ledger says where to go on.
            Refused: an effect was not begun since its intent could not be made durable, and neither could that be recorded.
        """
        reached: Reached | None = None
        ending: Ending | None = None
        while True:
            reached = await self._go_on(turn, reached, Way(ending, steered=signal is not None and signal.steered))
            self._progress(turn.id)
            match reached.next:
                case RunOutcome() as outcome:
                    return outcome
                case Begun() as begun:
                    ending = await self._call(turn, begun, self._bell(turn, begun.action, signal))
                case Unsure() as unsure:
                    ending = await self._settle(turn, unsure, self._bell(turn, unsure.action, signal))

    async def settle_effect(self, action_id: str, verdict: Literal["done", "not-done"], note: str, by: str) -> Effect:
        """Record a person's word on an unknown effect. Appends ``audit.unknown_settled``.

        Raises:
            Refused: there is no such unknown, it is settled already, or the verdict is neither of the two.
        """
        if verdict not in ("done", "not-done"):
            raise Refused(f"an effect is settled as done or not-done, not as {verdict}")
        return await self._unknowns.settle(action_id, happened=verdict == "done", note=note, by=by)

    async def verify_unknown(self, action_id: str, by: str) -> Effect:
        """Have the tool find out, once, what became of an unknown effect. Appends ``audit.unknown_settled``, unless the tool
        cannot tell: then the effect is returned as it was.

        Raises:
            Refused: there is no such unknown, or the tool has no way to find out.
            Unavailable: the evidence cannot be had now; it stays unknown.
        """
        return await self._unknowns.verify(action_id, by)

    # pages ----------------------------------------------------------------------------------------------------------
    async def _go_on(self, turn: Turn, since: Reached | None, way: Way) -> Reached:
        """Write the end of the step under way, and go on to the next call or to the end, in one commit."""
        writing = asyncio.ensure_future(self._journal.write(lambda page: self._stretches.go_on(page, turn, since, way)))
        try:
            return await carry_through(writing)
        except BaseException as error:
            if writing.exception() is None:  # cancelled while the commit was on its way
                await self._leave(turn, writing.result().next, error)
            elif way.ending is not None:  # what has happened is recorded, even if what follows cannot begin
                await record_in_passing(self._journal.write(way.ending), error)
            if not way.intending or not isinstance(error, StorageFullError):
                raise
            return await self._refuse_to_begin(turn, error)

    async def _leave(self, turn: Turn, coming: Begun | Unsure | RunOutcome, error: BaseException) -> None:
        """Record of a call with an effect whose intent is on disk that it is not made."""
        if isinstance(coming, Begun) and coming.tool.contract.has_effect:
            saying = self._stretches.complaint(turn, coming.action, _INTERRUPTED)
            ending = _uncalled(coming, _INTERRUPTED, ActionState.FAILED, saying)
            await record_in_passing(self._journal.write(ending), error)

    async def _refuse_to_begin(self, turn: Turn, full: StorageFullError) -> Reached:
        """Fail the step whose intent cannot be made durable; it must not be called some time later when there is room (T6)."""
        way = Way(unbegun=full)
        try:
            return await self._journal.write(lambda page: self._stretches.go_on(page, turn, None, way))
        except StorageFullError as error:
            raise Refused(f"it could not be recorded and was not done: {full.message}") from error

    def _bell(self, turn: Turn, action: Action, signal: TurnSignal | None) -> Bell:
        return Bell(signal, lambda: self._journal.wishes(turn.id), action.id)

    # calls ----------------------------------------------------------------------------------------------------------
    async def _call(self, turn: Turn, begun: Begun, bell: Bell) -> Ending | None:
        """Make a call and return what writes its end."""
        has_effect = begun.tool.contract.has_effect
        if bell.is_rung:  # between the look at the ledger and now: what was not called yet is not called
            wish = await bell.wish()
            if wish is not None:
                begun.call_log.ended(result_of(wish, _NONE))
                return _uncalled(begun, result_of(wish, _NONE), ActionState.SKIPPED) if has_effect else None
        try:
            if has_effect:
                return await self._with_effect(turn, begun, bell)
            return await self._without_effect(turn, begun, bell)
        except Stopped as stopped:
            begun.call_log.ended(result_of(stopped.wish, _UNKNOWN if has_effect else _NONE))
            return None

    async def _without_effect(self, turn: Turn, begun: Begun, bell: Bell) -> Ending:
        """Call a tool that changes nothing, again if the other side was away."""
        action, tool = begun.action, begun.tool
        waits = self._retry_waits()
        for tries_left in range(tool.contract.sla.retries, -1, -1):
            try:
                value = await self._calls.within(action.tool, tool.run(begun.call, begun.arguments), bound_s(tool), bell)
                result = success(self._toolbox.check_result(action.tool, value), _NONE)
                break
            except TimeoutError:
                result = failure(TIMEOUT, f"{action.tool} took too long", _NONE)
                break
            except Unavailable as error:
                result = failure_of(error, _NONE)
                if tries_left:
                    await self._calls.within("pause", asyncio.sleep(next(waits)), None, bell)
            except FloorhandError as error:
                result = failure_of(error, _NONE)
                break
        if not result.ok:
            return lambda page: self._stretches.failed(page, turn, action, result, begun.call_log)
        begun.call_log.ended(result)
        return lambda page: page.change(action, ActionState.DONE, stored(result))

    async def _with_effect(self, turn: Turn, begun: Begun, bell: Bell) -> Ending:
        """Call once a tool whose intent is on disk."""
        action, tool, call = begun.action, begun.tool, begun.call
        try:
            value = await self._calls.within(action.tool, tool.run(call, begun.arguments), bound_s(tool), bell)
        except (Uncertain, Corrupt) as error:
            return self._unsure(turn, begun, error.message)
        except TimeoutError:
            return self._unsure(turn, begun, f"{action.tool} took too long")
        except FloorhandError as error:  # the tool says that nothing was changed
            result = failure_of(error, _NONE)
            begun.call_log.ended(result)
            saying = self._stretches.complaint(turn, action, result)
            return lambda page: page.conclude(action, EffectStatus.NONE, result, by="reply", saying=saying)
        except Stopped:
            raise
        except BaseException as error:  # cancelled, or a fault in the tool: the call may have got through
            await record_in_passing(self._journal.write(self._unsure(turn, begun, "stopped before an answer came")), error)
            raise
        result = self._kept(action.tool, value)
        begun.call_log.ended(result)
        saying = self._stretches.complaint(turn, action, result)
        record = record_of(tool, call, result.value) if result.ok else None
        return lambda page: page.conclude(action, EffectStatus.APPLIED, result, by="reply", saying=saying, record=record)

    def _unsure(self, turn: Turn, begun: Begun, why: str) -> Ending:
        """Return what declares a call unknown that ended without telling whether it happened."""
        begun.call_log.ended(failure("uncertain", why, _UNKNOWN))
        return lambda page: self._stretches.declared_unknown(page, turn, begun.action, begun.call.arguments, why)

    async def _settle(self, turn: Turn, unsure: Unsure, bell: Bell) -> Ending | None:
        """Check an effect that was declared unknown and return what writes what was found."""
        try:
            found = await self._settling.check(unsure.call, bell, self._settle_waits)
        except Stopped:
            return None
        return lambda page: self._stretches.settled(page, turn, unsure, found)

    def _kept(self, name: str, value: Mapping[str, Any]) -> ToolResult:
        """Return the result of an effect that happened, even if the tool broke its result contract in telling so."""
        try:
            return success(self._toolbox.check_result(name, value), _APPLIED)
        except Malformed as error:
            return failure_of(error, _APPLIED)


def _uncalled(begun: Begun, why: ToolResult, state: ActionState, saying: Saying | None = None) -> Ending:
    """Return what records that a call whose intent is on disk was not made after all."""
    return lambda page: page.conclude(begun.action, EffectStatus.NONE, why, by="reply", state=state, saying=saying)
