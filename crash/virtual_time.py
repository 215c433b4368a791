"""A clock that moves only when told to, and jumps when told to; and ids that count across every life of one history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_BEGAN_UTC = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_AT_POWER_ON_UTC = datetime(2020, 1, 1, tzinfo=UTC)  # what a machine without a battery thinks until it is told


class VirtualClock:
    """Implements Clock."""

    def __init__(self) -> None:
        self._utc = _BEGAN_UTC
        self._mono_ns = 10**9
        self._boots = 1
        self.is_synced = True

    @property
    def boot_id(self) -> str:
        """One a boot."""
        return f"boot-{self._boots}"

    def utc(self) -> datetime:
        """Wall time, right or wrong."""
        return self._utc

    def monotonic_ns(self) -> int:
        """Time since power on."""
        self._mono_ns += 1_000  # nothing takes no time
        return self._mono_ns

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self._utc += timedelta(seconds=seconds)
        self._mono_ns += int(seconds * 1e9)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._utc += timedelta(seconds=seconds)

    def power_on(self) -> None:
        """Begin another boot, which does not know what time it is."""
        self._boots += 1
        self._mono_ns = 10**9
        self._utc = _AT_POWER_ON_UTC + timedelta(hours=self._boots)
        self.is_synced = False

    def be_told(self) -> None:
        """Learn the time."""
        self._utc = max(self._utc, _BEGAN_UTC + timedelta(days=self._boots))
        self.is_synced = True


class CountedIds:
    """Implements IdSource: ``prefix_00001`` …"""

    def __init__(self) -> None:
        self._count = 0

    def mint(self, prefix: str) -> str:
        """Return the next id."""
        self._count += 1
        return f"{prefix}_{self._count:05}"

    def digits(self, count: int) -> str:
        """Return the next digits."""
        self._count += 1
        return f"{self._count * 7_919 % 10**count:0{count}d}"
