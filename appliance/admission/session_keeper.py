"""Closes the sessions that nobody goes on with, so that there is room for others (R10)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger
from appliance.store import sessions

log = logging.getLogger(__name__)

IDLE_S = 1800.0  # as long as a question may wait (requirements S7): nobody who comes back to one finds the session closed
_LOOK_EVERY_S = 60.0  # the limit is half an hour, so a minute more does not matter
_AT_ONCE = 50  # closed in one transaction: a lane that begins a turn waits for that long and no longer


class SessionKeeper:
    """Service that closes idle sessions.

    A session's rest counts from the first look that sees it, on the monotonic clock: wall time may jump, and nobody can go on
    with a conversation while the appliance is down, so a restart gives them the whole time again.
    """

    def __init__(self, ledger: Ledger, clock: Clock, *, idle_s: float = IDLE_S, look_every_s: float = _LOOK_EVERY_S) -> None:
        self._ledger = ledger
        self._clock = clock
        self._idle_s = idle_s
        self._look_every_s = look_every_s
        self._resting: dict[str, tuple[int, int]] = {}  # session -> its newest turn, and when it was first seen to rest with it

    async def run(self) -> None:
        """Close for ever."""
        while True:
            await self.close_idle()
            await asyncio.sleep(self._look_every_s)

    async def close_idle(self) -> list[str]:
        """Look once; close what has rested for long enough and return it."""
        now_ns = self._clock.monotonic_ns()
        seen: dict[str, tuple[int, int]] = {}
        for row in await self._ledger.fetch(sessions.RESTING):
            newest, since_ns = self._resting.get(row["id"], (row["newest"], now_ns))
            seen[row["id"]] = (newest, since_ns) if newest == row["newest"] else (row["newest"], now_ns)
        self._resting = seen
        idle = [(each, newest) for each, (newest, since_ns) in seen.items() if now_ns - since_ns >= self._idle_s * 1e9]
        closed: list[str] = []
        for first in range(0, len(idle), _AT_ONCE):
            some = dict(idle[first : first + _AT_ONCE])
            closed += await self._ledger.transaction(partial(sessions.close_idle, clock=self._clock, idle=some))
        if closed:
            log.info("sessions.closed", extra={"count": len(closed)})
        return closed
