"""What is known of each tag, and what of it is news: quality with source time, report by exception.

In: answers and failures, block by block. Out: readings to listeners. A value keeps the time at which the device gave it; nothing
here ever makes an old value look new. Who calls: the bus and its pollers, on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from appliance.contracts.clock import Clock
from appliance.contracts.deadband import has_moved
from appliance.contracts.reading import Quality, Reading, Repeat
from appliance.contracts.tag import Tag
from drivers.modbus.blocks import Block
from drivers.modbus.codec import Codec

Listener = Callable[[Collection[Reading]], None]

_MISSED_SAMPLES = 3  # a sample is stale when so many polls went by without another
_UNPOLLED_S = 2.0  # what is read only on demand is taken to be as slow as this


@dataclass(slots=True, eq=False)
class Sample:
    """When an answer came. It moves on while the same answer comes again, for all tags that were in it.

    ``is_whole`` until something else becomes known of one of them.
    """

    utc: datetime
    at_ns: int
    is_whole: bool = True


@dataclass(slots=True)
class TagTrack:
    """What is known of one tag. ``interval_s``: how often it is polled, None when only on demand.

    ``sample`` is the time of ``newest``, None after a miss; a reading itself knows only when its value first came.
    """

    tag: Tag
    interval_s: float | None
    codec: Codec = field(init=False)
    where: str = field(init=False)
    newest: Reading | None = None
    sample: Sample | None = None
    good: Reading | None = None
    reported: Reading | None = None

    def __post_init__(self) -> None:
        self.codec = Codec(self.tag)
        self.where = self.tag.where

    def take(self, raw: tuple[int, ...], sample: Sample) -> Reading:
        """Note an answer that came now and return its reading."""
        known = self.good
        value = known.value if known is not None and known.raw == raw else self.codec.decode(raw)
        if value is None:
            self._keep_good()
            why = f"the device gives no number ({self.where})"
            reading = Reading(self.tag.key, None, self.tag.unit, Quality.BAD, None, raw, why)
        else:
            reading = self.good = Reading(
                self.tag.key, value, self.tag.unit, Quality.GOOD, sample.utc, raw, source_mono_ns=sample.at_ns
            )
        self._follow(reading, sample)
        return reading

    def miss(self, why: str) -> Reading:
        """Note that there was no answer, and return the last good value with its own time (STALE), or none (BAD)."""
        self._keep_good()
        why = why if self.where in why else f"{why} ({self.where})"
        if self.good is None:
            reading = Reading(self.tag.key, None, self.tag.unit, Quality.BAD, None, (), why)
        else:
            reading = replace(self.good, quality=Quality.STALE, why=why)
        self._follow(reading, None)
        return reading

    def _follow(self, reading: Reading, sample: Sample | None) -> None:
        if self.sample is not None:
            self.sample.is_whole = False
        self.newest, self.sample = reading, sample

    def _keep_good(self) -> None:
        """Let the last good value have the time at which it came last, before another reading follows it."""
        if self.good is not None and self.good is self.newest and self.sample is not None:
            self.good = replace(self.good, source_utc=self.sample.utc, source_mono_ns=self.sample.at_ns)

    def last(self, now_ns: int, lost_why: str) -> Reading | None:
        """Return the newest sample, STALE when it is too old or (``lost_why``) the device cannot be seen."""
        newest = self.newest
        sample = self.sample
        if newest is None or newest.quality is not Quality.GOOD or sample is None:
            return newest
        newest = replace(newest, source_utc=sample.utc, source_mono_ns=sample.at_ns)
        age_s = (now_ns - sample.at_ns) / 1e9
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


@dataclass(slots=True)
class TrackedBlock:
    """A block, where each of its tags stands in the answer, and what was polled last."""

    block: Block
    cuts: tuple[tuple[slice, TagTrack], ...]
    answer: tuple[int, ...] = ()
    sample: Sample | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)

    def repeated(self, answer: tuple[int, ...]) -> Sample | None:
        """Return the sample of last time if this is its answer again and nothing else became known of its tags since then."""
        sample = self.sample
        return sample if sample is not None and sample.is_whole and answer == self.answer else None

    def remember(self, answer: tuple[int, ...], readings: list[Reading]) -> None:
        """Keep what was polled now."""
        self.answer, self.readings = answer, {reading.tag: reading for reading in readings}
        self.sample = self.cuts[0][1].sample if self.cuts else None


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
        sample = Sample(self._clock.utc(), self._clock.monotonic_ns())
        return [track.take(answer[cut], sample) for cut, track in block.cuts]

    def polled(self, block: TrackedBlock, answer: tuple[int, ...]) -> None:
        """Note the answer of a polled block and tell of it. Most are as the one before: then only their time is new."""
        sample = block.repeated(answer)
        if sample is None:
            readings = self.take(block, answer)
            block.remember(answer, readings)
            self.tell(block, readings)
            return
        sample.utc, sample.at_ns = self._clock.utc(), self._clock.monotonic_ns()
        again = Repeat(block.readings, sample.utc, sample.at_ns)
        for listener in self.sample_listeners:
            listener(again)

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
