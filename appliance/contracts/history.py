"""What a tag was some time ago: points by exception, each holding until the next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

MOST_MINUTES = 14 * 24 * 60
"""The longest look back; what is kept may reach less far."""


@dataclass(frozen=True, slots=True)
class Point:
    """From ``at_s`` (seconds since the track's beginning) on the tag had this value; None: nothing good is known of it."""

    at_s: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Track:
    """One tag from ``from_utc`` for ``length_s`` seconds, which end now. Before its first point nothing is known. On and off are
    1 and 0."""

    key: str
    unit: str
    from_utc: datetime
    length_s: float
    points: tuple[Point, ...]


class TagHistory(Protocol):
    """Reads what was kept."""

    def keeps(self, key: str) -> bool:
        """Whether the values of a tag are kept: it is polled or published, and is a number or on and off."""
        ...

    async def track(self, key: str, minutes: float) -> Track:
        """Return a tag's last ``minutes``.

        Raises:
            Refused: there is no such tag, or its values are not kept.
            Malformed: minutes is not above 0 and at most :data:`MOST_MINUTES`.
            Unavailable: what was kept cannot be read now.
        """
        ...
