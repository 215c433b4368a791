"""Runs a turn's plan, from wherever the ledger says it stopped.

Nothing with an effect on the world is called before its intent is on disk, and what came of it is on disk before the next
step. After a crash the same ``run`` goes on: steps that are done stay done, read-only ones are run again, and an effect
that may have happened is checked, never repeated. What happens between two calls is ``stretch``'s matter.

In: a turn whose plan is stored. Out: finished, waiting for an answer, failed, stopped, or left for a steer. Who calls: the
conductor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from appliance.contracts.approving import Approver
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import Effect
from appliance.contracts.errors import Refused, StorageFullError
from appliance.contracts.escalation import Escalator
from appliance.contracts.plan import Action
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger
from appliance.contracts.turn import Turn
from appliance.execution.attempts import Attempts
from appliance.execution.calling import Bell, Calls, Stopped
from appliance.execution.carry_through import carry_through, record_in_passing
from appliance.execution.journal import Journal
from appliance.execution.settling import Settling, verify_waits
from appliance.execution.spill import Spill
from appliance.execution.standing import Begun, Ending, Reached, RunOutcome, Together, Unsure, Way
from appliance.execution.step_ends import StepEnds
from appliance.execution.step_starts import StepStarts
from appliance.execution.stretch import Stretches
from appliance.execution.together import Hands
from appliance.execution.tool_breaker import ToolBreaker
from appliance.execution.toolbox.nested_calls import give_callers
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.turn_signal import TurnSignal
from appliance.execution.unknowns import Unknowns
from appliance.foundation.backoff import delays_s
from appliance.foundation.supervisor import Degraded, Faults

__all__ = ["RunOutcome", "Runner"]


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
        approvals: Approver,
        escalator: Escalator,
        spill: Spill,
        faults: Faults | None = None,
        delivered: Callable[[], None] = lambda: None,
        progress: Callable[[str], None] = lambda _: None,
        settle_waits: Callable[[], Iterable[float]] = verify_waits,
        retry_waits: Callable[[], Iterator[float]] = retry_waits,
    ) -> None:
        """``approvals`` is asked about every call, ``escalator`` told of what has to be left to people, ``spill`` takes what is
        too long for the ledger, ``faults`` counts what breaks in a tool. ``delivered`` is called after a commit that queued
        words, ``progress`` with a turn's id after one that changed the state of a step. The two ``waits`` yield pauses in s; the
        first ends."""
        calls, breaker, ends = Calls(), ToolBreaker(clock), StepEnds(toolbox, wording, escalator, spill)
        faults = faults or Faults(Degraded())
        give_callers(toolbox, clock, approvals)
        self._calls = calls
        self._journal = Journal(ledger, clock, ids, epoch, delivered)
        self._settling = Settling(toolbox, calls, faults)
        self._attempts = Attempts(toolbox, calls, breaker, approvals, ends, self._journal, faults, retry_waits)
        self._hands = Hands()
        self._ends = ends
        starts = StepStarts(toolbox, wording, clock, approvals, ends, self._attempts.closed)
        self._stretches = Stretches(toolbox, approvals, starts, ends)
        self._unknowns = Unknowns(self._journal, toolbox, self._settling, clock)
        self._progress = progress
        self._settle_waits = settle_waits

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
        endings: dict[int, Ending] = {}
        while True:
            reached = await self._go_on(turn, reached, Way(endings, steered=signal is not None and signal.steered))
            self._progress(turn.id)
            match reached.next:
                case RunOutcome() as outcome:
                    return outcome
                case Together(calls):
                    ends = await self._call(turn, calls, signal)
                case Unsure() as unsure:
                    ends = [await self._settle(turn, unsure, self._bell(turn, unsure.action, signal))]
            endings = {at: ending for at, ending in enumerate(ends, reached.position) if ending is not None}

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
        """Write the ends of the steps under way, and go on to the next calls or to the end, in one commit."""
        writing = asyncio.ensure_future(self._journal.write(lambda page: self._stretches.go_on(page, turn, since, way)))
        try:
            return await carry_through(writing)
        except BaseException as error:
            if writing.exception() is None:  # cancelled while the commit was on its way
                await self._leave(turn, writing.result().next, error)
            else:  # what has happened is recorded, even if what follows cannot begin
                for ending in way.endings.values():
                    await record_in_passing(self._journal.write(ending), error)
            if not way.intending or not isinstance(error, StorageFullError):
                raise
            return await self._refuse_to_begin(turn, error)

    async def _leave(self, turn: Turn, coming: Together | Unsure | RunOutcome, error: BaseException) -> None:
        """Record of a call with an effect whose intent is on disk that it is not made."""
        for begun in coming.calls if isinstance(coming, Together) else ():
            if begun.tool.contract.has_effect:
                await record_in_passing(self._journal.write(self._attempts.interrupted(turn, begun)), error)

    async def _refuse_to_begin(self, turn: Turn, full: StorageFullError) -> Reached:
        """Fail the step whose intent cannot be made durable; it must not be called some time later when there is room (T6)."""
        way = Way(unbegun=full)
        try:
            return await self._journal.write(lambda page: self._stretches.go_on(page, turn, None, way))
        except StorageFullError as error:
            raise Refused(f"it could not be recorded and was not done: {full.message}").worded("not_recorded") from error

    def _bell(self, turn: Turn, action: Action, signal: TurnSignal | None) -> Bell:
        return Bell(signal, lambda: self._journal.wishes(turn.id), action.id)

    async def _call(self, turn: Turn, calls: Sequence[Begun], signal: TurnSignal | None) -> list[Ending | None]:
        """Make the calls that were begun together and return what writes their ends."""
        bells = {call.action.id: self._bell(turn, call.action, signal) for call in calls}

        async def make(call: Begun, within_s: float) -> Ending | None:
            return await self._attempts.make(turn, call, bells[call.action.id], within_s)

        return await self._hands.make_all(calls, make)

    async def _settle(self, turn: Turn, unsure: Unsure, bell: Bell) -> Ending | None:
        """Check an effect that was declared unknown and return what writes what was found."""
        try:
            found = await self._settling.check(unsure.call, bell, self._settle_waits)
        except Stopped:
            return None
        return lambda page: self._ends.settled(page, turn, unsure, found)
