"""Monotonic stopwatches by key, for times that stand still while this process is down."""

from __future__ import annotations

from collections.abc import Set

from appliance.contracts.clock import Clock


class Stopwatches:
    """Seconds since a key was started in this process. They live in memory: what must last is written by the caller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_mono_ns: dict[str, int] = {}

    def restart(self, key: str) -> None:
        """Count from now."""
        self._started_mono_ns[key] = self._clock.monotonic_ns()

    def start(self, key: str) -> None:
        """Count from now unless the key counts already."""
        self._started_mono_ns.setdefault(key, self._clock.monotonic_ns())

    def stop(self, key: str) -> None:
        """Forget the key."""
        self._started_mono_ns.pop(key, None)

    def keep_only(self, keys: Set[str]) -> None:
        """Forget all other keys."""
        for key in self._started_mono_ns.keys() - keys:
            del self._started_mono_ns[key]

    @property
    def keys(self) -> frozenset[str]:
        """The keys that count."""
        return frozenset(self._started_mono_ns)

    def read_s(self, key: str) -> float:
        """Return seconds since the key was started, 0 for one that was not."""
        started_mono_ns = self._started_mono_ns.get(key)
        return 0.0 if started_mono_ns is None else (self._clock.monotonic_ns() - started_mono_ns) / 1e9
