"""What is known of each tag, and what of it is news: quality with source time, report by exception.

In: answers and failures, block by block. Out: readings to listeners. A value keeps the time at which the device gave it; nothing
here ever makes an old value look new. Who calls: the bus and its pollers, on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from appliance.contracts.clock import Clock
from appliance.contracts.deadband import has_moved
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.tag import Tag
from drivers.modbus.blocks import Block
from drivers.modbus.codec import Codec

Listener = Callable[[Sequence[Reading]], None]

_MISSED_SAMPLES = 3  # a sample is stale when so many polls went by without another
_UNPOLLED_S = 2.0  # what is read only on demand is taken to be as slow as this


@dataclass(slots=True)
class TagTrack:
    """What is known of one tag. ``interval_s``: how often it is polled, None when only on demand."""

    tag: Tag
    interval_s: float | None
    codec: Codec = field(init=False)
    where: str = field(init=False)
    newest: Reading | None = None
    newest_at_ns: int = 0
    good: Reading | None = None
    reported: Reading | None = None

    def __post_init__(self) -> None:
        self.codec = Codec(self.tag)
        self.where = self.tag.where

    def take(self, raw: tuple[int, ...], utc: datetime, now_ns: int) -> Reading:
        """Note an answer that came now and return its reading."""
        known = self.good
        # Most samples are like the one before: they are not decoded again.
        value = known.value if known is not None and known.raw == raw else self.codec.decode(raw)
        if value is None:
            why = f"the device gives no number ({self.where})"
            reading = Reading(self.tag.key, None, self.tag.unit, Quality.BAD, None, raw, why)
        else:
            reading = self.good = Reading(self.tag.key, value, self.tag.unit, Quality.GOOD, utc, raw)
        self.newest, self.newest_at_ns = reading, now_ns
        return reading

    def miss(self, why: str) -> Reading:
        """Note that there was no answer, and return the last good value with its own time (STALE), or none (BAD)."""
        why = why if self.where in why else f"{why} ({self.where})"
        if self.good is None:
            reading = Reading(self.tag.key, None, self.tag.unit, Quality.BAD, None, (), why)
        else:
            reading = replace(self.good, quality=Quality.STALE, why=why)
        self.newest = reading
        return reading

    def last(self, now_ns: int, lost_why: str) -> Reading | None:
        """Return the newest sample, STALE when it is too old or (``lost_why``) the device cannot be seen."""
        newest = self.newest
        if newest is None or newest.quality is not Quality.GOOD:
            return newest
        age_s = (now_ns - self.newest_at_ns) / 1e9
        if lost_why:
            return replace(newest, quality=Quality.STALE, why=f"{lost_why} ({self.where})")
        if age_s > _MISSED_SAMPLES * (self.interval_s or _UNPOLLED_S):
            return replace(newest, quality=Quality.STALE, why=f"not read for {age_s:.3g} s ({self.where})")
        return newest

    def is_news(self, reading: Reading) -> bool:
        """Whether the reading has to be reported: another quality, or a value that moved by the deadband or more."""
        before = self.reported
        if before is None or before.quality is not reading.quality or has_moved(self.tag, before.value, reading.value):
            self.reported = reading
            return True
        return False


@dataclass(frozen=True, slots=True)
class TrackedBlock:
    """A block, and where each of its tags stands in the answer."""

    block: Block
    cuts: tuple[tuple[slice, TagTrack], ...]


class Reporting:
    """The tracks of all tags of the bus, and who is told.

    ``sample_listeners`` hear every polled sample of a block, good or not. ``change_listeners`` hear only what is news; a value
    read on demand changes what is known, but is no news until the next poll finds it too.
    """

    def __init__(self, tags: Iterable[Tag], intervals_s: dict[str, float], clock: Clock) -> None:
        """``intervals_s`` by the name of the poll group."""
        self._clock = clock
        self.tracks = {tag.key: TagTrack(tag, intervals_s[tag.poll] if tag.poll else None) for tag in tags}
        self.sample_listeners: list[Listener] = []
        self.change_listeners: list[Listener] = []

    def tracked(self, block: Block) -> TrackedBlock:
        """Return the block with its tracks, prepared once for polling."""
        return TrackedBlock(block, tuple((block.part_of(tag), self.tracks[tag.key]) for tag in block.tags))

    def take(self, block: TrackedBlock, answer: tuple[int, ...]) -> list[Reading]:
        """Note a block's answer without telling anybody."""
        utc, now_ns = self._clock.utc(), self._clock.monotonic_ns()
        return [track.take(answer[cut], utc, now_ns) for cut, track in block.cuts]

    def miss(self, block: TrackedBlock, why: str) -> list[Reading]:
        """Note that a block could not be read, without telling anybody."""
        return [track.miss(why) for _, track in block.cuts]

    def tell(self, block: TrackedBlock, readings: list[Reading]) -> None:
        """Tell the listeners of a polled block; one without tracks only keeps the device in sight."""
        if not readings:
            return
        news = [reading for (_, track), reading in zip(block.cuts, readings, strict=True) if track.is_news(reading)]
        for listener in self.sample_listeners:
            listener(readings)
        if news:
            for listener in self.change_listeners:
                listener(news)
