"""A flood: so many alarms at once that they are told as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from appliance.contracts.alarm import Alarm


class FloodNews(StrEnum):
    """What there is to tell: it began, its number doubled, no more came, its last alarm went, or nobody has answered."""

    OPENED = "opened"
    GROWN = "grown"
    OVER = "over"
    CALM = "calm"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Flood:
    """One flood as stored. ``told_count``: alarms it had when its number was told last. ``newest_*``: its last alarm's coming."""

    id: str
    session_id: str
    lane: str
    told_count: int
    opened_utc: datetime
    newest_mono_ns: int
    boot_id: str
    closed_utc: datetime | None


@dataclass(frozen=True, slots=True)
class FloodSummary:
    """What is told of a flood. ``by_priority`` and ``by_asset`` count activations: all of them, or with ``active`` those that
    are still there. ``first`` is the first-out. ``is_found``: all were there before anybody looked, and are no news."""

    count: int
    active: int
    unacknowledged: int
    first: Alarm
    by_priority: Mapping[str, int]
    by_asset: Mapping[str, int]
    active_by_priority: Mapping[str, int]
    active_by_asset: Mapping[str, int]
    is_found: bool = False
