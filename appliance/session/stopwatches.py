"""Monotonic stopwatches by key, for times that stand still while this process is down."""

from __future__ import annotations

from collections.abc import Set

from appliance.contracts.clock import Clock


class Stopwatches:
    """Seconds since a key was started in this process, but for those it was paused. They live in memory: what must last is
    written by the caller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_mono_ns: dict[str, int] = {}
        self._paused_mono_ns: dict[str, int] = {}

    def restart(self, key: str) -> None:
        """Count from now."""
        self._started_mono_ns[key] = self._clock.monotonic_ns()

    def start(self, key: str) -> None:
        """Count from now unless the key counts already."""
        self._started_mono_ns.setdefault(key, self._clock.monotonic_ns())

    def stop(self, key: str) -> None:
        """Forget the key."""
        self._started_mono_ns.pop(key, None)
        self._paused_mono_ns.pop(key, None)

    def pause(self, key: str) -> None:
        """Stand still until :meth:`go_on`, also when it is started meanwhile."""
        self._paused_mono_ns.setdefault(key, self._clock.monotonic_ns())

    def go_on(self, key: str) -> None:
        """Count again; nothing if it was not paused."""
        paused_mono_ns = self._paused_mono_ns.pop(key, None)
        started_mono_ns = self._started_mono_ns.get(key)
        if paused_mono_ns is not None and started_mono_ns is not None:
            self._started_mono_ns[key] += self._clock.monotonic_ns() - max(paused_mono_ns, started_mono_ns)

    def keep_only(self, keys: Set[str]) -> None:
        """Forget all other keys."""
        for key in self.keys - keys:
            self.stop(key)

    @property
    def keys(self) -> frozenset[str]:
        """The keys that count."""
        return frozenset(self._started_mono_ns)

    @property
    def paused(self) -> frozenset[str]:
        """The keys that stand still."""
        return frozenset(self._paused_mono_ns)

    def read_s(self, key: str) -> float:
        """Return seconds that the key has counted, 0 for one that was not started."""
        started_mono_ns = self._started_mono_ns.get(key)
        if started_mono_ns is None:
            return 0.0
        return max(0, self._paused_mono_ns.get(key, self._clock.monotonic_ns()) - started_mono_ns) / 1e9
