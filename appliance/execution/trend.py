"""What a track of values amounts to: where it began and ended, how far it went, how fast, and what is missing. Pure.

Values were kept by exception: each holds until the next, so means and slopes are weighed by time, not by the number of points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from appliance.contracts.history import Track
from appliance.contracts.tag import Tag

LEAST_GAP_S = 10.0  # shorter ones are the hiccups of any link
_LATE_BEGINNING = 0.1  # of the time asked for; what begins later is said to
_LATELY = 1 / 3  # of the time, the last part
_MOST = 0.6  # of the change, in that part
_STEADY = 0.01  # of the value: less than a hundredth is no change to speak of


class Course(StrEnum):
    """How a value went, in one word."""

    ROSE = "rose"
    FELL = "fell"
    MOVED = "moved"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Span:
    """A value held from ``begin_s`` to ``end_s``."""

    begin_s: float
    end_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Trend:
    """Over good values only. ``window_s`` is what they cover from the first on, ``gaps`` are ``(begin_s, end_s)`` within it,
    counted from its beginning, ``lately_s`` the last part in which most of the change was, 0 when it was spread."""

    course: Course
    first: float
    last: float
    lowest: float
    highest: float
    mean: float
    slope_per_h: float
    window_s: float
    is_short: bool
    gaps: tuple[tuple[float, float], ...]
    lately_s: float

    @property
    def open_gap_s(self) -> float:
        """How long nothing is known up to now."""
        return self.gaps[-1][1] - self.gaps[-1][0] if self.gaps and self.gaps[-1][1] >= self.window_s else 0.0


def trend_of(track: Track, tag: Tag) -> Trend | None:
    """Return the trend, None when there is no good value."""
    spans = list(_spans(track))
    if not spans:
        return None
    began_s = spans[0].begin_s
    first, last = spans[0].value, spans[-1].value
    lowest, highest = min(span.value for span in spans), max(span.value for span in spans)
    window_s = track.length_s - began_s
    course = _course(first, last, lowest, highest, tag)
    lately_s = window_s * _LATELY
    before = next((span.value for span in reversed(spans) if span.begin_s <= track.length_s - lately_s), first)
    is_late = course in (Course.ROSE, Course.FELL) and (last - before) / (last - first) >= _MOST
    return Trend(
        course=course,
        first=first,
        last=last,
        lowest=lowest,
        highest=highest,
        mean=sum((s.end_s - s.begin_s) * s.value for s in spans) / sum(s.end_s - s.begin_s for s in spans),
        slope_per_h=_slope(spans) * 3600,
        window_s=window_s,
        is_short=began_s > track.length_s * _LATE_BEGINNING,
        gaps=tuple((begin - began_s, end - began_s) for begin, end in _gaps(spans, track.length_s)),
        lately_s=lately_s if is_late else 0.0,
    )


def _spans(track: Track) -> Iterator[Span]:
    ends = [*(point.at_s for point in track.points), track.length_s][1:]
    for point, end_s in zip(track.points, ends, strict=True):
        if point.value is not None and end_s > point.at_s:
            yield Span(point.at_s, end_s, point.value)


def _gaps(spans: Sequence[Span], length_s: float) -> Iterator[tuple[float, float]]:
    begins = [*(span.begin_s for span in spans[1:]), length_s]
    for span, next_s in zip(spans, begins, strict=True):
        if next_s - span.end_s >= LEAST_GAP_S:
            yield span.end_s, next_s


def _course(first: float, last: float, lowest: float, highest: float, tag: Tag) -> Course:
    least = max(tag.deadband or 0.0, 10.0**-tag.decimals, _STEADY * max(abs(lowest), abs(highest)))
    change, width = last - first, highest - lowest
    if width <= least:
        return Course.STEADY
    if abs(change) * 2 >= width:
        return Course.ROSE if change > 0 else Course.FELL
    return Course.MOVED


def _slope(spans: Sequence[Span]) -> float:
    """Return the straight line's slope, in units a second, that fits values held over time best (least squares)."""
    began_s = spans[0].begin_s
    weight = time = time_2 = value = time_value = 0.0
    for span in spans:
        begin, end = span.begin_s - began_s, span.end_s - began_s
        weight += end - begin
        time += (end**2 - begin**2) / 2
        time_2 += (end**3 - begin**3) / 3
        value += span.value * (end - begin)
        time_value += span.value * (end**2 - begin**2) / 2
    spread = time_2 - time**2 / weight
    return (time_value - time * value / weight) / spread if spread > 0 else 0.0
