"""A lamp of the stack light, or the buzzer, on a GPIO pin.

In: the pattern to show. Out: levels of the pin. Who calls: the panel. While the pin cannot be had, the reason is named in
``degraded`` as ``part``. Flashing is timed here, not by gpiozero, whose blinking takes a thread a device and lets two lamps of
one rate drift apart: here the phase comes from the event loop's own time, so all that flash at one rate flash together, and
nothing wakes up while nothing flashes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from appliance.foundation.supervisor import Degraded
from drivers.gpio.annunciator import Pattern
from drivers.gpio.chip import Chip, keep_pin, open_pin, vendor_errors
from drivers.gpio.settings import OutputPin

if TYPE_CHECKING:
    from gpiozero import DigitalOutputDevice, Factory


class SignalOutput:
    """One output. It is off until told otherwise, and off after the end."""

    def __init__(self, part: str, pin: OutputPin, chip: Chip, degraded: Degraded) -> None:
        self._part = part
        self._pin = pin
        self._chip = chip
        self._degraded = degraded
        self._pattern = Pattern.OFF
        self._changed = asyncio.Event()

    def show(self, pattern: Pattern) -> None:
        """Show ``pattern`` from now on; while the pin cannot be had, as soon as it can."""
        if pattern is not self._pattern:
            self._pattern = pattern
            self._changed.set()

    async def run(self) -> NoReturn:
        """Drive the output; while its pin cannot be had, try again now and then. Ends only by cancellation."""
        await keep_pin(self._part, self._chip, self._degraded, self._drive)

    async def _drive(self, factory: Factory) -> NoReturn:
        """Open the pin and show what is to be shown.

        Raises:
            Unavailable: the pin cannot be opened or driven.
        """
        what = f"GPIO pin {self._pin.pin} cannot be used"
        with open_pin(what, lambda: self._open(factory)) as device:
            self._degraded.clear(self._part)
            while True:
                self._changed.clear()
                with vendor_errors(what):
                    next_edge = self._light(device)
                await self._until_changed(next_edge)

    def _open(self, factory: Factory) -> DigitalOutputDevice:
        from gpiozero import DigitalOutputDevice

        return DigitalOutputDevice(self._pin.pin, active_high=self._pin.active_high, pin_factory=factory)

    def _light(self, device: DigitalOutputDevice) -> float | None:
        """Set the level of this moment; return the loop time at which it changes by itself, None if it does not."""
        rate_hz = self._pattern.rate_hz
        if rate_hz is None:
            device.value = self._pattern is Pattern.STEADY
            return None
        half_s = 0.5 / rate_hz
        halves = asyncio.get_running_loop().time() // half_s
        device.value = halves % 2 == 0
        return (halves + 1) * half_s

    async def _until_changed(self, next_edge: float | None) -> None:
        try:
            async with asyncio.timeout_at(next_edge):
                await self._changed.wait()
        except TimeoutError:
            return
