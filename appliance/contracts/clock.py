"""Ports for time and identifiers. Order never comes from wall time; durations never do either."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time as seen by the product."""

    @property
    def boot_id(self) -> str:
        """Kernel boot id: monotonic stamps compare only within one boot."""
        ...

    @property
    def is_synced(self) -> bool:
        """Whether the kernel says wall time is disciplined (a Pi has no RTC)."""
        ...

    def utc(self) -> datetime:
        """Wall time, timezone-aware UTC, for records and people."""
        ...

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in ns: shared by all processes of one boot."""
        ...


class IdSource(Protocol):
    """Mints identifiers; injected so that tests are repeatable."""

    def mint(self, prefix: str) -> str:
        """Return a new ``prefix_xxxxxxxx`` id, unique on this appliance and sortable by creation."""
        ...

    def digits(self, count: int) -> str:
        """Return ``count`` decimal digits nobody can foresee."""
        ...
