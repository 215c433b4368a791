"""The only reader of the operating system's clocks."""

from __future__ import annotations

import ctypes
import functools
import time
from datetime import UTC, datetime
from pathlib import Path

_ADJTIMEX_BUFFER_BYTES = 256  # struct timex is 208 bytes on 64-bit Linux (linux/timex.h); the rest is slack
_TIME_ERROR = 5  # adjtimex(2): clock not synchronized


class SystemClock:
    """Clock of the running machine."""

    @functools.cached_property
    def boot_id(self) -> str:
        """Kernel boot id, or ``unknown`` where /proc has none."""
        path = Path("/proc/sys/kernel/random/boot_id")
        return path.read_text(encoding="ascii").strip() if path.exists() else "unknown"

    @property
    def is_synced(self) -> bool:
        """Ask the kernel whether something disciplines wall time (adjtimex is not TIME_ERROR)."""
        libc = _libc()
        if not hasattr(libc, "adjtimex"):
            return False
        return bool(0 <= libc.adjtimex(ctypes.create_string_buffer(_ADJTIMEX_BUFFER_BYTES)) < _TIME_ERROR)

    def utc(self) -> datetime:
        """Wall time, timezone-aware UTC."""
        return datetime.now(UTC)

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in ns."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
