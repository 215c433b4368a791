"""Keeps what tags did, by exception, for the question how something changed. Implements ``TagHistory``.

In: news of readings from the field, on the event loop. Out: tracks of the past. Values are kept in memory for up to a minute and
then written by a thread of its own in one commit, so that the card is written rarely; what is asked for includes them. Whatever
goes wrong costs history alone and is named ``history`` in ``degraded``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, Refused, Unavailable
from appliance.contracts.history import MOST_MINUTES, Point, Track
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.refusals import no_tag
from appliance.contracts.tag import DataType, RegisterKind, Tag
from appliance.foundation.supervisor import Degraded
from appliance.store.history_file import HistoryFile, Moment
from appliance.store.history_settings import HistorySettings

log = logging.getLogger(__name__)

T = TypeVar("T")

PART, HISTORY_FILE = "history", "history.sqlite"
WRITE_EVERY_S = 60.0  # what a power cut costs, and the card is spared
MOST_WAITING = 50_000  # points in memory, about 5 MB; beyond, those that come are dropped and counted
_MANY_WAITING = 10_000  # written at once
_REPEAT_EVERY_MS = 600_000  # what a tag still has is written again after this, so that no look back goes further
_CLOSEST_MS = 1_000  # of two values within a second the later is kept


class History:
    """The ring of values and the thread that writes it. Used from one event loop."""

    def __init__(self, path: Path, plant: Plant, clock: Clock, degraded: Degraded, settings: HistorySettings) -> None:
        self._file = HistoryFile(path, settings.most_mb << 20, settings.most_days * 86_400)
        self._tags = plant.tag_by_key
        self._kept = frozenset(tag.key for tag in plant.tags if _is_kept(tag))
        self._clock = clock
        self._degraded = degraded
        self._thread = ThreadPoolExecutor(1, "history")
        self._using_file = asyncio.Lock()
        self._waiting: dict[str, list[tuple[int, float | None]]] = {}
        self._count = 0
        self._dropped = 0
        self._newest: dict[str, float | None] = {}
        self._repeated_ms = clock.monotonic_ns() // 1_000_000
        self._noted, self._pressing = asyncio.Event(), asyncio.Event()

    # in ---------------------------------------------------------------------------------------------------------------
    def note(self, readings: Collection[Reading]) -> None:
        """Take news of tags: a listener of the field bus and of the published values."""
        now_ms = self._clock.monotonic_ns() // 1_000_000
        for reading in readings:
            if reading.tag not in self._kept:
                continue
            value, at_ms = reading.value, now_ms
            if reading.quality is not Quality.GOOD or value is None or isinstance(value, str):
                value = None
            elif reading.source_mono_ns is not None:
                at_ms = reading.source_mono_ns // 1_000_000
            self._newest[reading.tag] = None if value is None else float(value)
            self._append(reading.tag, at_ms, self._newest[reading.tag])
        if self._count:
            self._noted.set()
        if self._count >= _MANY_WAITING:
            self._pressing.set()

    def _append(self, key: str, at_ms: int, value: float | None) -> None:
        points = self._waiting.setdefault(key, [])
        if points and at_ms - points[-1][0] < _CLOSEST_MS:
            points[-1] = (points[-1][0], value)
        elif self._count < MOST_WAITING:
            points.append((at_ms, value))
            self._count += 1
        else:
            self._dropped += 1
        if not points:
            del self._waiting[key]

    # out --------------------------------------------------------------------------------------------------------------
    def keeps(self, key: str) -> bool:
        """Whether the values of a tag are kept."""
        return key in self._kept

    async def track(self, key: str, minutes: float) -> Track:
        """Return a tag's last ``minutes``. See ``TagHistory``."""
        if key not in self._tags:
            raise no_tag(key, cure="`floorhand tags list` shows them.")
        if key not in self._kept:
            why = "it is no number" if self._tags[key].type is DataType.STRING else "it is read only when somebody asks"
            cure = "Give the tag a poll group in plant.yaml."
            raise Refused(f"no values of {key} are kept, because {why}", tag=key, cure="" if "number" in why else cure)
        if not 0 < minutes <= MOST_MINUTES:
            raise Malformed(f"the look back is 1 to {MOST_MINUTES} minutes, not {minutes:g}")
        async with self._using_file:
            now = self._moment()
            began_ms = now.mono_ms + now.offset_ms - int(minutes * 60_000)
            look_from_ms = began_ms - _REPEAT_EVERY_MS - int(WRITE_EVERY_S * 1000)
            points = await self._on_thread(lambda: self._file.read(key, look_from_ms, now))
            points += [(at_ms + now.offset_ms, value) for at_ms, value in self._waiting.get(key, ())]
        before = [value for at_ms, value in points if at_ms <= began_ms]
        kept = [Point((at_ms - began_ms) / 1000, value) for at_ms, value in points if at_ms > began_ms]
        held = [Point(0.0, before[-1])] if before and before[-1] is not None else []
        return Track(key, self._tags[key].unit, self._clock.utc() - timedelta(minutes=minutes), minutes * 60, (*held, *kept))

    # the service ------------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Write for ever, at most once a minute unless much is waiting."""
        while True:
            await self._noted.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_EVERY_S):
                    await self._pressing.wait()
            await self.write()

    async def write(self) -> None:
        """Write what is waiting. What cannot be written is dropped, and that is named."""
        async with self._using_file:
            now = self._moment()
            if now.mono_ms - self._repeated_ms >= _REPEAT_EVERY_MS:
                self._repeated_ms = now.mono_ms
                for key, value in self._newest.items():
                    self._append(key, now.mono_ms, value)
            batch, count, dropped = self._waiting, self._count, self._dropped
            self._waiting, self._count, self._dropped = {}, 0, 0
            self._noted.clear()
            self._pressing.clear()
            if not batch:
                return
            try:
                await self._on_thread(lambda: self._file.write(batch, now))
            except FloorhandError as error:
                self._degraded.mark(PART, f"values of tags are not kept: {error.message}")
                log.warning("history.lost", extra={"points": count + dropped, "why": error.message})
                return
        if dropped:
            self._degraded.mark(PART, f"{dropped} values of tags came faster than they could be kept")
        else:
            self._degraded.clear(PART)

    async def close(self) -> None:
        """Write what is waiting, and close the file."""
        await self.write()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
        self._thread.shutdown()

    async def _on_thread(self, work: Callable[[], T]) -> T:
        """Have the file's thread do it; a file that is damaged is set aside and begun anew.

        Raises:
            Unavailable: it cannot be had now.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._whole(work))
        except OSError as error:
            raise Unavailable(f"the file of values cannot be used: {error.strerror}").worded("history_away") from error

    def _whole(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Corrupt as error:
            log.error("history.damaged", extra={"why": error.message, "aside": str(self._file.set_aside())})
            return work()

    def _moment(self) -> Moment:
        mono_ms = self._clock.monotonic_ns() // 1_000_000
        offset_ms = int(self._clock.utc().timestamp() * 1000) - mono_ms
        return Moment(self._clock.boot_id, mono_ms, offset_ms, self._clock.is_synced)


def _is_kept(tag: Tag) -> bool:
    return tag.type is not DataType.STRING and not tag.flags and (tag.poll is not None or tag.kind is RegisterKind.PUBLISHED)
