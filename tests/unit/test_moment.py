"""All rows of one transaction belong to one moment."""

from __future__ import annotations

from appliance.contracts.clock import Clock
from appliance.foundation.moment import Moment
from tests.support.clock import ManualClock


def test_a_moment_stands_still_while_its_clock_goes_on() -> None:
    clock = ManualClock()
    moment: Clock = Moment(clock)
    began, began_ns = clock.utc(), clock.monotonic_ns()
    clock.advance(5.0)
    clock.is_synced, clock.boot_id = False, "boot-2"
    assert (moment.utc(), moment.monotonic_ns()) == (began, began_ns)
    assert (moment.is_synced, moment.boot_id) == (True, "boot-1")
    assert not Moment(clock).is_synced and Moment(clock).monotonic_ns() == began_ns + 5_000_000_000
