"""The conductor's lanes: one turn a lane, ever. Which are led in, which are put off while draining, and who waits for one."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Awaitable, Callable, Set


class Lanes:
    """Lanes by name, and the admissions that are led. ``freed`` is called after each lane that became free, or was let in again.

    Implements ``contracts.operating_acts.Draining``.
    """

    def __init__(self, freed: Callable[[], None]) -> None:
        self._freed = freed
        self._busy: dict[str, None] = {}
        self._put_off: dict[str, None] = {}
        self._led: dict[str, bool] = {}  # admission -> whether it is talk
        self._is_draining = False
        self.closed: Set[str] = ChainMap(self._busy, self._put_off).keys()
        """A live view of the lanes from which nothing may be taken now."""
        self.ended = asyncio.Condition()
        """Notified whenever a lane becomes free, and by whoever else has something to tell those that wait here."""

    @property
    def led(self) -> int:
        """How many admissions are led now."""
        return len(self._led)

    def is_busy(self, lane: str) -> bool:
        """Whether a turn is led in the lane."""
        return lane in self._busy

    def begin(self, admission_id: str, lane: str, *, is_talk: bool) -> None:
        """An admission is led in its lane from now on."""
        self._busy[lane] = None
        self._led[admission_id] = is_talk

    async def end(self, admission_id: str, lane: str) -> None:
        """An admission is not led any more."""
        del self._led[admission_id]
        await self.free(lane)

    async def lead_once_free(self, lane: str, own: str, is_wanted: Callable[[], Awaitable[bool]]) -> bool:
        """Wait for a lane that another turn may hold, then lead in it too; who leads in it already (``own``) need not wait.

        Returns False as soon as it is not wanted any more.
        """
        async with self.ended:
            while True:
                if not await is_wanted():
                    return False
                if lane == own or lane not in self._busy:
                    self._busy[lane] = None
                    return True
                await self.ended.wait()

    async def free(self, lane: str) -> None:
        """Nothing is led in the lane any more."""
        async with self.ended:
            self._busy.pop(lane, None)
            self.ended.notify_all()
        self._freed()

    # draining -------------------------------------------------------------------------------------------------------
    @property
    def is_draining(self) -> bool:
        """Whether no talk is begun, and no work of before a restart gone on with: before an update (R10)."""
        return self._is_draining

    def drain(self) -> None:
        """Begin no talk from now on. Alarms and interjections are led as ever. Again is harmless."""
        self._is_draining = True

    def undrain(self) -> None:
        """Take everything again, what waited first. Again is harmless."""
        self._is_draining = False
        self._put_off.clear()
        self._freed()

    async def drained(self) -> None:
        """Return once no talk is led; at once when that is so already."""
        async with self.ended:
            await self.ended.wait_for(lambda: not any(self._led.values()))

    def put_off(self, lane: str) -> None:
        """Take nothing from the lane until :meth:`undrain`."""
        self._put_off[lane] = None
