"""How long it is until a check is due that was asked for in this boot or an earlier one. Pure.

Within a boot the monotonic clock tells. Across boots wall time does, if it was disciplined when the moment was set and is now: a
Pi has no clock that runs while it is off.
"""

from __future__ import annotations

from appliance.contracts.clock import Clock
from appliance.contracts.scheduled_check import ScheduledCheck


def left_s(clock: Clock, check: ScheduledCheck) -> float | None:
    """Return how many s are left, negative once it is due, None while nobody can tell."""
    if check.boot_id == clock.boot_id:
        return (check.due_mono_ns - clock.monotonic_ns()) / 1e9
    if not (check.clock_synced and clock.is_synced):
        return None
    return (check.due_utc - clock.utc()).total_seconds()
