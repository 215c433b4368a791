"""Awaiting a call: within its bound, until it is stopped, and no longer than that even if it ignores both.

In: the coroutine of a tool. Out: what it returns or raises; :class:`Stopped` or ``TimeoutError`` if it did not say in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from appliance.contracts.errors import FloorhandError, Uncertain
from appliance.contracts.interrupt import GRACE_S, STOP_WITHIN_S, Interrupt
from appliance.execution.first_of import first_of
from appliance.execution.turn_signal import TurnSignal

log = logging.getLogger(__name__)

T = TypeVar("T")

_RECORD_WITHIN_S = 0.25  # of the second a stop may take, kept for two commits on a slow card
_ANSWER_WITHIN_S = STOP_WITHIN_S - _RECORD_WITHIN_S
MOST_GIVEN_UP = 3
"""Calls of one tool that were given up and have not ended. With so many, it is not called again."""


class Stopped(Exception):
    """A call was stopped and did not say what it had done. ``wish`` is what it was stopped for."""

    def __init__(self, wish: Interrupt) -> None:
        super().__init__(wish.reason)
        self.wish = wish


class Bell:
    """What is wanted of a turn while one of its steps is under way. ``look`` reads what is open from the ledger.

    Steps that run at the same time have a bell each: what one of them has looked for, the others have still to look for."""

    def __init__(self, signal: TurnSignal | None, look: Callable[[], Awaitable[Sequence[Interrupt]]], action_id: str) -> None:
        self._signal = signal
        self._look = look
        self._action_id = action_id
        self._heard = 0 if signal is None else signal.answered

    @property
    def is_rung(self) -> bool:
        """Whether there is something to look for."""
        return self._signal is not None and self._signal.rings_so_far > self._heard

    @property
    def rung(self) -> tuple[asyncio.Future[Any], ...]:
        """What is done as soon as there is: one future, or none when nobody can ring."""
        if self._signal is None:
            return ()
        if self.is_rung and not self._signal.is_rung:  # another step has answered it
            rung: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            rung.set_result(None)
            return (rung,)
        return (self._signal.rung,)

    async def wish(self) -> Interrupt | None:
        """Return what stops the turn, or this step of it; None if it was rung for something else, or cannot be read now."""
        if self._signal is not None:
            self._heard = self._signal.rings_so_far
            self._signal.answer()
        try:
            open_wishes = await self._look()
        except FloorhandError as error:  # the next commit meets the same trouble, and says so
            log.warning("interrupts.unread", extra={"why": error.message})
            return None
        return next((each for each in open_wishes if each.action_id in (None, self._action_id)), None)


class Calls:
    """Awaits calls, and keeps those that were given up until they end. Used from one event loop."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._given_up: dict[asyncio.Task[Any], str] = {}

    def is_clogged(self, name: str) -> bool:
        """Whether so many calls of this tool were given up and have not ended that another one would be in vain."""
        return list(self._given_up.values()).count(name) >= MOST_GIVEN_UP

    async def within(self, name: str, work: Coroutine[Any, Any, T], bound_s: float | None, bell: Bell) -> T:
        """Return what ``work`` returns. What it returns or raises after it was told to stop counts, for less than a second.

        Raises:
            Stopped: somebody wanted it to stop.
            TimeoutError: it took longer than ``bound_s``.
            Uncertain: it was cancelled from within.
        """
        task = asyncio.create_task(work, name=f"call of {name}")
        try:
            wish = await self._until_told(task, bound_s, bell)
            was_told = not task.done()
            if was_told:
                await self._end(name, task)
        except asyncio.CancelledError:
            if not task.done():
                await self._end(name, task)
            raise
        if task.done() and not task.cancelled():
            return task.result()
        if wish is not None:
            raise Stopped(wish)
        if was_told:
            raise TimeoutError
        raise Uncertain(f"{name} was cancelled from within")

    async def _until_told(self, task: asyncio.Task[Any], bound_s: float | None, bell: Bell) -> Interrupt | None:
        """Return when the task has ended, when its time is over (None), or when it has to stop (why)."""
        clock = asyncio.get_running_loop().time
        due_s = None if bound_s is None else clock() + bound_s
        while True:
            left_s = None if due_s is None else max(due_s - clock(), 0.0)
            await first_of((task, *bell.rung), left_s)
            if task.done() or not bell.is_rung:
                return None
            wish = await bell.wish()
            if wish is not None:
                return wish

    async def _end(self, name: str, task: asyncio.Task[Any]) -> None:
        """Cancel a task and wait for its last word; one that goes on regardless is given up."""
        task.cancel()
        try:
            await first_of((task,), _ANSWER_WITHIN_S)
        finally:
            if not task.done():
                self._give_up(name, task)

    def _give_up(self, name: str, task: asyncio.Task[Any]) -> None:
        self._given_up[task] = name
        late = asyncio.get_running_loop().call_later(
            self._grace_s, lambda: log.error("tool.ignores_stop", extra={"tool": name, "for_s": self._grace_s})
        )

        def ended(task: asyncio.Task[Any]) -> None:
            late.cancel()
            del self._given_up[task]
            failed = None if task.cancelled() else task.exception()
            log.warning("tool.ended_late", extra={"tool": name, "why": str(failed or "")})

        task.add_done_callback(ended)
