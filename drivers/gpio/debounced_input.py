"""A contact on a GPIO pin: push-to-talk button, acknowledge button, key switch.

In: edges of the pin, from gpiozero's thread. Out: ``on_change(is_active, mono_ns)`` on the event loop, once a real press or
release; ``mono_ns`` is the first edge that led to it. Who calls: the panel. While the pin cannot be had, the reason is named in
``degraded`` as ``part``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable
from appliance.foundation.supervisor import Degraded
from drivers.gpio.chip import Chip, keep_pin, open_pin, vendor_errors
from drivers.gpio.settings import InputPin

if TYPE_CHECKING:
    from gpiozero import DigitalInputDevice, Factory


class DebouncedInput:
    """One contact. Debounced here, because not every pin factory does it: a level counts once it was steady for long enough.

    A button is taken as released until it was read, so one that is pressed at start is a change; and so is one that was pressed
    and can no longer be read. A switch that stays as it was turned (``is_maintained``) tells its first reading, whatever it is,
    and stays what it was last read as while it cannot be read.
    """

    def __init__(
        self,
        part: str,
        pin: InputPin,
        chip: Chip,
        clock: Clock,
        degraded: Degraded,
        on_change: Callable[[bool, int], None],
        *,
        is_maintained: bool = False,
    ) -> None:
        self._part = part
        self._pin = pin
        self._chip = chip
        self._clock = clock
        self._degraded = degraded
        self._on_change = on_change
        self._is_maintained = is_maintained
        self._is_active = False
        self._is_told = not is_maintained
        self._edge = asyncio.Event()
        self._first_edge_ns: int | None = None

    @property
    def is_active(self) -> bool:
        """The debounced level: whether the contact is closed."""
        return self._is_active

    async def run(self) -> NoReturn:
        """Watch the contact; while its pin cannot be had, try again now and then. Ends only by cancellation."""
        await keep_pin(self._part, self._chip, self._degraded, self._watch)

    async def _watch(self, factory: Factory) -> NoReturn:
        """Open the pin and follow it.

        Raises:
            Unavailable: the pin cannot be opened or read.
        """
        what = f"GPIO pin {self._pin.pin} cannot be used"
        with open_pin(what, lambda: self._open(factory)) as device:
            self._degraded.clear(self._part)
            self._edge.set()  # it may be closed already
            while True:
                await self._settled()
                try:
                    with vendor_errors(what):
                        is_active = bool(device.is_active)
                except Unavailable:
                    if not self._is_maintained:
                        self._take_level(False)
                    raise
                self._take_level(is_active)

    def _open(self, factory: Factory) -> DigitalInputDevice:
        from gpiozero import DigitalInputDevice

        device = DigitalInputDevice(self._pin.pin, pull_up=not self._pin.active_high, pin_factory=factory)
        loop = asyncio.get_running_loop()

        def edge() -> None:  # on gpiozero's thread
            loop.call_soon_threadsafe(self._take_edge, self._clock.monotonic_ns())

        device.when_activated = edge
        device.when_deactivated = edge
        return device

    def _take_edge(self, mono_ns: int) -> None:
        if self._first_edge_ns is None:
            self._first_edge_ns = mono_ns
        self._edge.set()

    async def _settled(self) -> None:
        """Return once there was an edge, and then none for ``debounce_ms``."""
        await self._edge.wait()
        while self._edge.is_set():
            self._edge.clear()
            try:
                async with asyncio.timeout(self._pin.debounce_ms / 1000):
                    await self._edge.wait()
            except TimeoutError:
                return

    def _take_level(self, is_active: bool) -> None:
        first_edge_ns, self._first_edge_ns = self._first_edge_ns, None
        if is_active != self._is_active or not self._is_told:  # else a bounce came back to where it was
            self._is_active, self._is_told = is_active, True
            self._on_change(is_active, self._clock.monotonic_ns() if first_edge_ns is None else first_edge_ns)
