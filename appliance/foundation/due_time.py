"""How long it is until something is due that was set in this boot or an earlier one. Pure.

Within a boot the monotonic clock tells. Across boots wall time does, if it was disciplined when the moment was set and is now: a
Pi has no clock that runs while it is off.
"""

from __future__ import annotations

from datetime import datetime

from appliance.contracts.clock import Clock


def left_s(clock: Clock, *, due_mono_ns: int, due_utc: datetime, boot_id: str, was_synced: bool) -> float | None:
    """Return how many s are left, negative once it is due, None when nobody can tell (yet, if ``was_synced``)."""
    if boot_id == clock.boot_id:
        return (due_mono_ns - clock.monotonic_ns()) / 1e9
    if not (was_synced and clock.is_synced):
        return None
    return (due_utc - clock.utc()).total_seconds()
