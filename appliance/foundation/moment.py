"""What the clock says, once: all rows that one transaction writes belong to the same moment."""

from __future__ import annotations

from datetime import datetime

from appliance.contracts.clock import Clock


class Moment:
    """A clock that stands still from the time it is made; implements :class:`appliance.contracts.clock.Clock`."""

    __slots__ = ("_monotonic_ns", "_utc", "boot_id", "is_synced")

    def __init__(self, clock: Clock) -> None:
        self.boot_id = clock.boot_id
        self.is_synced = clock.is_synced
        self._utc = clock.utc()
        self._monotonic_ns = clock.monotonic_ns()

    def utc(self) -> datetime:
        """Wall time, timezone-aware UTC."""
        return self._utc

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in ns."""
        return self._monotonic_ns
