"""The units (devices) behind a link: which are in sight, and how long a silent one is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from appliance.contracts.clock import Clock
from appliance.contracts.link import Link
from appliance.foundation.backoff import delays_s

FIRST_RETRY_S, LONGEST_RETRY_S = 0.1, 10.0
"""A silent unit, and a link that cannot be opened, is tried again after the first, doubling to the longest, with jitter."""


_LARGEST_SHARE = 0.2
"""Of the time of a link that a silent unit may take from others in sight: a second's time-out, then at least four of pause."""


class Unit:
    """One unit: in sight after a good answer, out of sight after silence; in between, ``failures`` are counted."""

    def __init__(self, device_id: int, timeout_s: float, retries: int, clock: Clock) -> None:
        self.id = device_id
        self.timeout_s = timeout_s
        self.retries = retries
        self.why: str | None = None
        """Why it is out of sight, "" while it is in sight, None before it was asked."""
        self.is_said_lost = False
        self.failures = 0
        self.resets = 0
        """Connections in a row that ended under its requests."""
        self._clock = clock
        self._answered_at_ns: int | None = None
        self._delays = delays_s(FIRST_RETRY_S, LONGEST_RETRY_S)
        self._retry_at_ns = 0

    @property
    def is_in_sight(self) -> bool:
        """Whether its newest exchange brought a good answer."""
        return self.why == ""

    @property
    def is_silent(self) -> bool:
        """Whether its newest exchange brought none."""
        return bool(self.why)

    def wait_s(self) -> float:
        """Seconds it is still to be left alone; not above 0 when it may be asked."""
        return (self._retry_at_ns - self._clock.monotonic_ns()) / 1e9

    def answered_within(self, seconds: float) -> bool:
        """Whether its last good answer is no older."""
        return self._answered_at_ns is not None and self._clock.monotonic_ns() - self._answered_at_ns <= seconds * 1e9

    def answered(self) -> None:
        """Note a good answer."""
        self._answered_at_ns = self._clock.monotonic_ns()
        self.why = ""
        self.resets = 0
        if self.failures:
            self.failures = 0
            self._delays = delays_s(FIRST_RETRY_S, LONGEST_RETRY_S)

    def failed(self, why: str) -> None:
        """Note that a request brought nothing, for a reason that is not the unit's own: the connection was lost."""
        self.why = why
        self.failures += 1

    def fell_silent(self, why: str, *, is_link_shared: bool) -> None:
        """Note silence; the unit is left alone for a while that grows each time, longer when others need the link."""
        self.failed(why)
        share_s = min(LONGEST_RETRY_S / 2, self.timeout_s * (1 / _LARGEST_SHARE - 1)) if is_link_shared else 0.0
        pause_s = next(self._delays)
        while pause_s < share_s:
            pause_s = next(self._delays)
        self._retry_at_ns = self._clock.monotonic_ns() + int(pause_s * 1e9)


class Units:
    """All units of a link, those that are asked and those that ``expected`` says will be."""

    def __init__(self, link: Link, clock: Clock, expected: Iterable[int]) -> None:
        self._link = link
        self._clock = clock
        self._by_id: dict[int, Unit] = {}
        for device_id in expected:
            self.of(device_id)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._by_id.values())

    def of(self, device_id: int) -> Unit:
        """Return the unit with its own or its link's settings."""
        unit = self._by_id.get(device_id)
        if unit is None:
            device, link = self._link.device(device_id), self._link
            timeout_s = link.timeout_s if device.timeout_s is None else device.timeout_s
            retries = link.retries if device.retries is None else device.retries
            unit = self._by_id[device_id] = Unit(device_id, timeout_s, retries, self._clock)
        return unit

    def is_in_sight(self, device_id: int) -> bool:
        """Whether this unit was asked and its newest exchange brought a good answer."""
        unit = self._by_id.get(device_id)
        return unit is not None and unit.is_in_sight

    def is_every_one_silent(self) -> bool:
        """Whether no unit is left that answers or might."""
        return all(unit.is_silent for unit in self)

    def is_other_in_sight(self, unit: Unit) -> bool:
        """Whether another unit answers."""
        return any(other.is_in_sight for other in self if other is not unit)

    def is_other_untried(self, unit: Unit) -> bool:
        """Whether another unit was not silent when it was last asked, or not asked yet."""
        return any(not other.is_silent for other in self if other is not unit)

    def is_any_heard_within(self, seconds: float, *, but: Unit | None = None) -> bool:
        """Whether some unit, ``but`` one, gave a good answer so lately that the connection must be sound."""
        return any(unit.answered_within(seconds) for unit in self if unit is not but)
