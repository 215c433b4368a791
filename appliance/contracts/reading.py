"""What was read from, or written to, the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import overload

Value = float | int | bool | str  # engineering value after decoding and scaling


class Quality(StrEnum):
    """GOOD: fresh answer. STALE: last good value, source time kept. BAD: never a number to act on."""

    GOOD = "good"
    STALE = "stale"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Reading:
    """One tag's value. ``value`` is None when quality is BAD. ``raw`` are the wire registers or bits."""

    tag: str
    value: Value | None
    unit: str
    quality: Quality
    source_utc: datetime | None
    raw: tuple[int, ...] = ()
    why: str = ""

    def age_s(self, now: datetime) -> float | None:
        """Seconds since the value was true at the source, or None when it never was."""
        return None if self.source_utc is None else max(0.0, (now - self.source_utc).total_seconds())


class Repeat(Sequence[Reading]):
    """The readings ``before`` once more: read again at ``source_utc``, and nothing but that is new.

    Most polls bring this. Each reading is made when somebody looks at it; a number that never was one keeps having no time.
    """

    __slots__ = ("before", "source_utc")

    def __init__(self, before: Sequence[Reading], source_utc: datetime) -> None:
        self.before = before
        self.source_utc = source_utc

    def __len__(self) -> int:
        return len(self.before)

    @overload
    def __getitem__(self, index: int) -> Reading: ...
    @overload
    def __getitem__(self, index: slice) -> Repeat: ...
    def __getitem__(self, index: int | slice) -> Reading | Repeat:
        if isinstance(index, slice):
            return Repeat(self.before[index], self.source_utc)
        return self.of(self.before[index])

    def of(self, reading: Reading) -> Reading:
        """Return one of ``before`` as it is now."""
        return reading if reading.source_utc is None else replace(reading, source_utc=self.source_utc)


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
