"""The only mint of identifiers."""

from __future__ import annotations

import secrets
import threading

from appliance.contracts.clock import Clock


def request_key() -> str:
    """Return a name for one request, so that it can be sent again and is done once. Unique anywhere: any client may make one."""
    return secrets.token_hex(8)


class SystemIds:
    """Ids ``prefix_<48-bit ms time><32-bit random>`` in hex: sortable by creation, unique on one appliance."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last_ms = 0

    def mint(self, prefix: str) -> str:
        """Return a new id; time never runs backwards within one process, whatever the wall clock does."""
        with self._lock:
            self._last_ms = max(self._last_ms + 1, int(self._clock.utc().timestamp() * 1000))
            return f"{prefix}_{self._last_ms:012x}{secrets.token_hex(4)}"

    def digits(self, count: int) -> str:
        """Return ``count`` decimal digits from the kernel's generator."""
        return f"{secrets.randbelow(10**count):0{count}d}"
