"""Whether the coordinator can be reached, told once per change and kept in the operation log.

In: what sync finds out. Out: ``link.lost`` and ``link.back`` in lane P1, the degraded mark ``coordinator``, listeners.
The log tells, for any other entry, whether it was written on line or off; nothing local ever waits for this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from appliance.contracts.clock import Clock
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import operations, uplink

log = logging.getLogger(__name__)

PART = "coordinator"
LOST, BACK = "link.lost", "link.back"

_MISSES = 2  # one lost request is radio noise; with sync's first wait of at most 1 s a real loss is known in about a second


class Availability:
    """Implements :class:`appliance.contracts.ports.Reachability`.

    Before anything is known the coordinator counts as reachable, unless the log ends in a loss: then a restart does not
    make it a new one. An appliance without a coordinator never feeds this and is always on line.

    ``listeners`` are called on the event loop once per change with (is_online, why).
    """

    def __init__(self, ledger: Ledger, clock: Clock, degraded: Degraded, *, misses: int = _MISSES) -> None:
        self._ledger = ledger
        self._clock = clock
        self._degraded = degraded
        self._misses_to_lose = misses
        self._missed_in_a_row = 0
        self._is_loaded = False
        self._logged_lost = False
        self._turn = asyncio.Lock()
        self._online = asyncio.Event()
        self._online.set()
        self.listeners: list[Callable[[bool, str], None]] = []

    @property
    def is_online(self) -> bool:
        """False from a loss until the coordinator is back."""
        return self._online.is_set()

    async def load(self) -> None:
        """Take up what the log says; done by itself at the first word of sync."""
        async with self._turn:
            await self._load()

    async def reached(self) -> None:
        """Say that the coordinator answered. Returns once a change is in the log."""
        async with self._turn:
            await self._load()
            self._missed_in_a_row = 0
            await self._become(online=True, why="")

    async def missed(self, why: str) -> None:
        """Say that it did not; the second time in a row is a loss. Returns once a change is in the log."""
        async with self._turn:
            await self._load()
            self._missed_in_a_row += 1
            if self._missed_in_a_row >= self._misses_to_lose or not self.is_online:
                await self._become(online=False, why=why)

    async def until_online(self) -> None:
        """Return as soon as :attr:`is_online`."""
        await self._online.wait()

    async def _load(self) -> None:
        if self._is_loaded:
            return
        last = await uplink.newest_of(self._ledger, OperationLane.P1, (LOST, BACK), PART)
        self._is_loaded = True
        if last is not None and last.kind == LOST:
            self._logged_lost = True
            self._online.clear()
            self._degraded.mark(PART, f"not reached since {last.at_utc}")

    async def _become(self, *, online: bool, why: str) -> None:
        """Change state at once, then log it. A state that could not be logged (no room) is logged at the next word."""
        if online != self.is_online:
            if online:
                self._online.set()
                self._degraded.clear(PART)
            else:
                self._online.clear()
                self._degraded.mark(PART, why)
            log.warning("link.changed", extra={"online": online, "why": why})
            for listener in tuple(self.listeners):
                listener(online, why)
        if online == self._logged_lost:
            await self._ledger.transaction(lambda tx: self._log(tx, online, why))
            self._logged_lost = not online

    def _log(self, tx: Transaction, online: bool, why: str) -> None:
        operations.append(tx, self._clock, OperationLane.P1, BACK if online else LOST, PART, {"why": why})
