"""What was read from, or written to, the field."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

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
