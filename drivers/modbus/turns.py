"""Whose turn it is on a link: one request at a time, units in rotation, first come first served within a unit."""

from __future__ import annotations

import asyncio
from collections import deque

from appliance.contracts.errors import Unavailable

MOST_WAITING = 500
"""Requests that may wait for one unit; a unit that far behind will not catch up, and more would only fill the memory."""


class TurnOrder:
    """Hands the link to one request after the other.

    A unit with fifty requests waiting does not delay another unit by more than one of them, and a unit that is held back delays
    nobody: its requests stay where they are until it is let go.
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}  # in rotation: the unit at the front is next
        self._held: dict[int, asyncio.TimerHandle] = {}

    async def take(self, device_id: int, *, first: bool = False) -> None:
        """Wait for a turn; ``first`` goes before the requests of the same unit. Every turn must be given back.

        Raises:
            Unavailable: too many wait for this unit already.
        """
        if not self._is_taken and device_id not in self._held:
            self._is_taken = True
            return
        queue = self._waiting.setdefault(device_id, deque())
        if len(queue) >= MOST_WAITING:
            raise Unavailable(f"{len(queue)} requests wait for device {device_id} already")
        turn = asyncio.get_running_loop().create_future()
        if first:
            queue.appendleft(turn)
        else:
            queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given in the moment of the cancellation
                self.give_back()
            else:
                self._withdraw(device_id, turn)
            raise

    def give_back(self) -> None:
        """End a turn; the next one begins."""
        self._is_taken = False
        self._pass_on()

    def hold(self, device_id: int, seconds: float) -> None:
        """Give this unit no turn for so long."""
        before = self._held.pop(device_id, None)
        if before is not None:
            before.cancel()
        self._held[device_id] = asyncio.get_running_loop().call_later(seconds, self.let_go, device_id)

    def let_go(self, device_id: int) -> None:
        """Hold this unit no longer."""
        timer = self._held.pop(device_id, None)
        if timer is not None:
            timer.cancel()
            self._pass_on()

    def close(self) -> None:
        """Hold nobody any more."""
        for device_id in list(self._held):
            self.let_go(device_id)

    def _pass_on(self) -> None:
        if self._is_taken:
            return
        for device_id, queue in list(self._waiting.items()):
            if device_id in self._held:
                continue
            while queue and queue[0].done():  # cancelled, and its task did not run since
                queue.popleft()
            del self._waiting[device_id]
            if not queue:
                continue
            turn = queue.popleft()
            if queue:
                self._waiting[device_id] = queue  # at the end of the rotation
            self._is_taken = True
            turn.set_result(None)
            return

    def _withdraw(self, device_id: int, turn: asyncio.Future[None]) -> None:
        """Take a cancelled turn out of its queue, where it may not be any more."""
        queue = self._waiting.get(device_id)
        if queue is None or turn not in queue:
            return
        queue.remove(turn)
        if not queue:
            del self._waiting[device_id]
