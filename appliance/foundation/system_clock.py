"""The only reader of the operating system's clocks."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_ADJTIMEX_BUFFER_BYTES = 256  # struct timex is 208 bytes on 64-bit Linux (linux/timex.h); the rest is slack
_TIME_ERROR = 5  # adjtimex(2): clock not synchronized
_TIMESYNC_MARK = Path("/run/systemd/timesync/synchronized")  # systemd-timesyncd(8) makes it once time came from a server


class SystemClock:
    """Clock of the running machine."""

    @functools.cached_property
    def boot_id(self) -> str:
        """Kernel boot id, or ``unknown`` where /proc has none."""
        path = Path("/proc/sys/kernel/random/boot_id")
        return path.read_text(encoding="ascii").strip() if path.exists() else "unknown"

    @property
    def is_synced(self) -> bool:
        """Ask the kernel whether something disciplines wall time; where it may not be asked, see whether timesyncd says so."""
        state = kernel_clock_state()
        return _TIMESYNC_MARK.exists() if state is None else state < _TIME_ERROR

    def utc(self) -> datetime:
        """Wall time, timezone-aware UTC."""
        return datetime.now(UTC)

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in ns."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def kernel_clock_state() -> int | None:
    """Return adjtimex(2)'s state of the clock (5: not synchronised), None when it may not or cannot be asked."""
    adjtimex = _adjtimex()
    state = -1 if adjtimex is None else adjtimex(_question)
    return None if state < 0 else state


# All zeros: nothing is set, so that the answer, which is written over it, is all zeros where it asks to set something.
_question = ctypes.create_string_buffer(_ADJTIMEX_BUFFER_BYTES)


@functools.cache
def _adjtimex() -> Callable[[Any], int] | None:
    """Return the call, or None where there is none. It is too short to let another thread run meanwhile."""
    return getattr(ctypes.PyDLL(None), "adjtimex", None)
