"""A clock that moves only when told to, and ids that count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Virtual time for tests."""

    def __init__(self, start: datetime = datetime(2026, 3, 2, 8, 0, tzinfo=UTC), boot_id: str = "boot-1") -> None:
        self.now = start
        self.mono_ns = 1_000_000_000
        self.boot_id = boot_id
        self.is_synced = True

    def utc(self) -> datetime:
        return self.now

    def monotonic_ns(self) -> int:
        return self.mono_ns

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.mono_ns += int(seconds * 1e9)


class CountingIds:
    """``prefix_0001`` …"""

    def __init__(self) -> None:
        self.count = 0

    def mint(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count:04d}"

    def digits(self, count: int) -> str:
        self.count += 1
        return f"{self.count * 7_919 % 10**count:0{count}d}"
