"""What was read from, or written to, the field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from appliance.contracts.clock import Clock

Value = float | int | bool | str  # engineering value after decoding and scaling


class Quality(StrEnum):
    """GOOD: fresh answer. STALE: last good value, source time kept. BAD: never a number to act on."""

    GOOD = "good"
    STALE = "stale"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Reading:
    """One tag's value. ``value`` is None when quality is BAD. ``raw`` are the wire registers or bits.

    ``source_mono_ns`` is the moment of ``source_utc`` on this boot's monotonic clock, as it was known when the value came.
    """

    tag: str
    value: Value | None
    unit: str
    quality: Quality
    source_utc: datetime | None
    raw: tuple[int, ...] = ()
    why: str = ""
    source_mono_ns: int | None = None

    def age_s(self, clock: Clock) -> float | None:
        """Seconds since the value was true at the source, or None when it never was. Wall time may have been set since then."""
        if self.source_mono_ns is not None:
            return max(0.0, (clock.monotonic_ns() - self.source_mono_ns) / 1e9)
        return None if self.source_utc is None else max(0.0, (clock.utc() - self.source_utc).total_seconds())


class Repeat(Collection[Reading]):
    """The readings ``before``, by tag, once more: read again at ``source_utc``, and nothing but that is new.

    Most polls bring this. Each reading is made when somebody looks at it; a number that never was one keeps having no time.
    """

    __slots__ = ("before", "source_mono_ns", "source_utc")

    def __init__(self, before: Mapping[str, Reading], source_utc: datetime, source_mono_ns: int | None = None) -> None:
        self.before = before
        self.source_utc = source_utc
        self.source_mono_ns = source_mono_ns

    def __len__(self) -> int:
        return len(self.before)

    def __iter__(self) -> Iterator[Reading]:
        return map(self._again, self.before.values())

    def __contains__(self, reading: object) -> bool:
        return any(reading == each for each in self)

    def of(self, tag: str) -> Reading | None:
        """Return the reading of one tag, None when it is not among them."""
        before = self.before.get(tag)
        return None if before is None else self._again(before)

    def _again(self, before: Reading) -> Reading:
        if before.source_utc is None:
            return before
        return replace(before, source_utc=self.source_utc, source_mono_ns=self.source_mono_ns)


@dataclass(frozen=True, slots=True)
class Visibility:
    """A link, or with ``device_id`` one device behind it, came into sight (``why`` is empty) or was lost."""

    link: str
    device_id: int | None
    is_visible: bool
    why: str


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """A field write that was read back. ``verified`` is False when the read-back differs from ``wanted``."""

    tag: str
    wanted: Value
    read_back: Reading
    verified: bool
