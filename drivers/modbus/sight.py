"""What of a link is in sight, and telling of it: once a change, however many requests fail."""

from __future__ import annotations

import logging
from collections.abc import Callable

from appliance.contracts.clock import Clock
from drivers.modbus.units import Unit, Units

log = logging.getLogger(__name__)


class Sight:
    """The link is in sight while some unit is. When none is left the link is lost, and no unit is said lost beside it.

    In: what became of requests. Out: ``on_change(device_id, why)`` for a unit, ``on_change(None, why)`` for the link; ``why`` is
    empty when it came into sight again.
    """

    def __init__(self, link_id: str, units: Units, clock: Clock, on_change: Callable[[int | None, str], None]) -> None:
        self.why: str | None = None
        """Why the link is out of sight, "" while it is in sight, None before the first attempt."""
        self._link_id = link_id
        self._units = units
        self._clock = clock
        self._on_change = on_change
        self._failures = 0
        self._answered_at_ns: int | None = None

    def quiet_s(self) -> float | None:
        """Seconds since the last good answer, None when there never was one."""
        if self._answered_at_ns is None:
            return None
        return (self._clock.monotonic_ns() - self._answered_at_ns) / 1e9

    def answered(self, unit: Unit) -> None:
        """Note a good answer."""
        self._answered_at_ns = self._clock.monotonic_ns()
        failures = unit.failures
        unit.answered()
        if self.why != "":
            self._say_link("")
        if unit.is_said_lost:
            unit.is_said_lost = False
            log.info("modbus.device_recovered", extra={"link": self._link_id, "device_id": unit.id, "failures": failures})
            self._on_change(unit.id, "")

    def fell_silent(self, unit: Unit, why: str) -> None:
        """Note that a unit did not answer."""
        unit.fell_silent(why, is_link_shared=self._units.is_other_in_sight(unit))
        if self._units.is_every_one_silent():
            self._fail_link(why)
        elif not unit.is_said_lost:
            unit.is_said_lost = True
            log.warning("modbus.device_lost", extra={"link": self._link_id, "device_id": unit.id, "why": why})
            self._on_change(unit.id, why)

    def was_reset(self, unit: Unit, why: str) -> None:
        """Note that the connection ended under a unit's request.

        Whose fault that was shows when it is opened anew, or when it happens to the same unit again.
        """
        unit.resets += 1
        if unit.resets > 1 and self._units.is_other_untried(unit):
            self.fell_silent(unit, why)
            return
        unit.failed(why)
        if self._units.is_every_one_silent():
            self._fail_link(why)

    def lost(self, why: str) -> None:
        """Note that the link cannot be opened: nothing of it is in sight."""
        for unit in self._units:
            unit.failed(why)
        self._fail_link(why)

    def _fail_link(self, why: str) -> None:
        self._failures += 1
        if not self.why:
            self._say_link(why)

    def _say_link(self, why: str) -> None:
        self.why = why
        if why:
            log.warning("modbus.link_lost", extra={"link": self._link_id, "why": why})
        elif self._failures:
            log.info("modbus.link_recovered", extra={"link": self._link_id, "failures": self._failures})
            self._failures = 0
        self._on_change(None, why)
