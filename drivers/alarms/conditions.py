"""What each kind of condition says about a reading: it holds, it does not, or this reading does not tell. Pure.

A stale or bad reading tells nothing about a value: an alarm neither comes nor goes because nobody looked. Only ``bad_value`` is
about the quality itself: the device answers, but with what it declares to be no measurement.
"""

from __future__ import annotations

from collections import deque
from math import isfinite
from typing import ClassVar, Protocol

from appliance.contracts.alarm_definition import HIGH_LIMITS, LOW_LIMITS, Condition, ConditionKind
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.tag import MQTT_LINK, Tag

RATE_SLOTS = 256
"""A window of a rate is kept in so many slots: bounded memory, for a change that is found up to 1/256 of the window too old."""


class Judge(Protocol):
    """Judges the readings of one condition's tag, in their order. With ``is_memoryless`` the same reading again, after what was
    said of it, says the same again."""

    is_memoryless: ClassVar[bool]

    def judge(self, reading: Reading, at_mono_ns: int, held: bool) -> bool | None:
        """Return whether the condition holds, or None when the reading does not tell. ``held`` is what was said last."""
        ...

    def lose_sight(self) -> None:
        """Say that readings went missing."""
        ...


def judge_of(condition: Condition, tag: Tag) -> Judge:
    """Return the judge of a condition over ``tag``; an ``unreachable`` one is about a link and has none.

    Raises:
        ValueError: it is an ``unreachable`` one.
    """
    kind = condition.kind
    if kind is ConditionKind.BIT:
        return BitJudge(condition.active_when)
    if kind is ConditionKind.BAD_VALUE:
        return BadValueJudge(is_published=tag.link == MQTT_LINK)
    if condition.limit is None:
        raise ValueError(f"condition {kind} has no limit")
    if kind in HIGH_LIMITS:
        return HighJudge(condition.limit, condition.hysteresis)
    if kind in LOW_LIMITS:
        return LowJudge(condition.limit, condition.hysteresis)
    return RateJudge(condition.limit, condition.hysteresis, condition.within_s)


class _Memoryless:
    """A judge to whom every reading is new."""

    __slots__ = ()

    is_memoryless: ClassVar[bool] = True

    def lose_sight(self) -> None:
        """Nothing was remembered."""


class BitJudge(_Memoryless):
    """Holds while a bool is ``active_when``."""

    __slots__ = ("_active_when",)

    def __init__(self, active_when: bool) -> None:
        self._active_when = active_when

    def judge(self, reading: Reading, at_mono_ns: int, held: bool) -> bool | None:
        """See ``Judge``."""
        value = reading.value
        if reading.quality is not Quality.GOOD or not isinstance(value, bool):
            return None
        return value is self._active_when


class HighJudge(_Memoryless):
    """Holds from ``limit`` on, until the value is below it by more than ``hysteresis``."""

    __slots__ = ("_back", "_limit")

    def __init__(self, limit: float, hysteresis: float) -> None:
        self._limit = limit
        self._back = limit - hysteresis

    def judge(self, reading: Reading, at_mono_ns: int, held: bool) -> bool | None:
        """See ``Judge``."""
        value = reading.value
        if reading.quality is not Quality.GOOD or not isinstance(value, float | int) or not isfinite(value):
            return None
        return value >= (self._back if held else self._limit)


class LowJudge(_Memoryless):
    """Holds from ``limit`` down, until the value is above it by more than ``hysteresis``."""

    __slots__ = ("_back", "_limit")

    def __init__(self, limit: float, hysteresis: float) -> None:
        self._limit = limit
        self._back = limit + hysteresis

    def judge(self, reading: Reading, at_mono_ns: int, held: bool) -> bool | None:
        """See ``Judge``."""
        value = reading.value
        if reading.quality is not Quality.GOOD or not isinstance(value, float | int) or not isfinite(value):
            return None
        return value <= (self._back if held else self._limit)


class BadValueJudge(_Memoryless):
    """Holds while the device answers and gives no number.

    Without raw registers a bad reading is silence: that the device cannot be reached is another alarm. What is published by MQTT
    never has registers; there a bad value is one the gateway published as such.
    """

    __slots__ = ("_is_published",)

    def __init__(self, *, is_published: bool) -> None:
        self._is_published = is_published

    def judge(self, reading: Reading, at_mono_ns: int, held: bool) -> bool | None:
        """See ``Judge``."""
        if reading.quality is Quality.GOOD:
            return False
        return True if reading.quality is Quality.BAD and (reading.raw or self._is_published) else None


class RateJudge:
    """Holds while two good readings at most ``within_s`` apart differ by ``limit``, up or down, and both are no older than that.

    It is over once no two differ by more than ``limit`` less ``hysteresis``; but that can only be said of a time that was looked
    at without a gap. Time is the monotonic time at which readings were taken. The highest and the lowest reading of each slot
    of the window are enough: two queues, each sorted by value.
    """

    __slots__ = ("_highest", "_limit", "_lowest", "_over", "_seen_since_ns", "_slot_ns", "_window_ns")

    is_memoryless: ClassVar[bool] = False

    def __init__(self, limit: float, hysteresis: float, within_s: float) -> None:
        self._limit = limit
        self._over = limit - hysteresis
        self._window_ns = round(within_s * 1e9)
        self._slot_ns = max(1, self._window_ns // RATE_SLOTS)
        self._highest: deque[tuple[int, float]] = deque()
        self._lowest: deque[tuple[int, float]] = deque()
        self._seen_since_ns: int | None = None

    def judge(self, reading: Reading, at_mono_ns: int, held: bool) -> bool | None:
        """See ``Judge``."""
        value = reading.value
        if reading.quality is not Quality.GOOD or not isinstance(value, float | int) or not isfinite(value):
            self.lose_sight()
            return None
        if self._seen_since_ns is None:
            self._seen_since_ns = at_mono_ns
        oldest_ns = at_mono_ns - self._window_ns
        self._keep(self._highest, at_mono_ns, value, oldest_ns, 1.0)
        self._keep(self._lowest, at_mono_ns, value, oldest_ns, -1.0)
        change = self._highest[0][1] - self._lowest[0][1]
        if change >= (self._over if held else self._limit):
            return True
        return False if self._seen_since_ns <= oldest_ns or not held else None

    def lose_sight(self) -> None:
        """Start the time that was looked at anew. What was read before stays: a change since then is a change."""
        self._seen_since_ns = None

    def _keep(self, queue: deque[tuple[int, float]], at_ns: int, value: float, oldest_ns: int, sign: float) -> None:
        """Add a reading to a queue whose first is the most extreme (``sign`` 1: highest) of the window and whose last is new."""
        while queue and queue[0][0] < oldest_ns:
            queue.popleft()
        while queue and sign * queue[-1][1] <= sign * value:
            queue.pop()
        if queue and queue[-1][0] // self._slot_ns == at_ns // self._slot_ns:
            # One a slot: the more extreme stays, as if it were new, so that no change within the window is ever missed.
            value = queue.pop()[1]
        queue.append((at_ns, value))
