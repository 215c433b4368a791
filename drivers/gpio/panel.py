"""The panel beside the machine: push-to-talk and acknowledge buttons, key switch, stack light, buzzer.

In: contacts, and the appliance's situation. Out: calls for what a person did, lamps and sound. Who calls: ``app``. What is not
wired is not there; what is wired and cannot be had is named in ``degraded`` by its own name, and the rest works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.contracts.clock import Clock
from appliance.foundation.supervisor import Degraded
from drivers.gpio.annunciator import DARK, Annunciation, Situation, annunciate
from drivers.gpio.chip import Chip
from drivers.gpio.debounced_input import DebouncedInput
from drivers.gpio.settings import GpioSettings, InputPin
from drivers.gpio.signal_output import SignalOutput

if TYPE_CHECKING:
    from gpiozero import Factory

OnChange = Callable[[bool, int], None]
"""Takes whether the contact is closed, and CLOCK_MONOTONIC in ns of the first edge. Called on the event loop."""


class Panel:
    """Everything on the GPIO header. ``on_acknowledge`` takes the moment of the press; the buzzer is silent by then. ``on_key``
    also hears how the key stands when it is first read."""

    def __init__(
        self,
        settings: GpioSettings,
        clock: Clock,
        degraded: Degraded,
        *,
        on_talk: OnChange,
        on_acknowledge: Callable[[int], None],
        on_key: OnChange,
        pin_factory: Factory | None = None,
        devices: Path = Path("/dev"),
    ) -> None:
        self._chip = Chip(pin_factory, devices)
        self._on_acknowledge = on_acknowledge
        self._situation: Situation | None = None
        self._silenced: frozenset[str] = frozenset()

        def contact(part: str, pin: InputPin | None, on_change: OnChange, *, stays: bool = False) -> DebouncedInput | None:
            return DebouncedInput(part, pin, self._chip, clock, degraded, on_change, is_maintained=stays) if pin else None

        light = settings.stack_light
        outputs = {"red": light.red, "amber": light.amber, "green": light.green, "buzzer": settings.buzzer}
        outputs |= {"hold": settings.hold_lamp}
        self._key = contact("key switch", settings.key_switch, on_key, stays=True)
        others = [
            contact("push-to-talk", settings.push_to_talk, on_talk),
            contact("acknowledge button", settings.acknowledge, self._acknowledge),
        ]
        self._inputs = [each for each in (self._key, *others) if each is not None]
        self._outputs = {
            name: SignalOutput(name if name == "buzzer" else f"{name} lamp", pin, self._chip, degraded)
            for name, pin in outputs.items()
            if pin is not None
        }

    @property
    def key_is_on(self) -> bool:
        """Whether the key switch is turned on, as it was last read. Without one nobody has turned it."""
        return self._key is not None and self._key.is_active

    async def run(self) -> None:
        """Run every device until cancelled; then all lamps and the buzzer are off."""
        try:
            async with asyncio.TaskGroup() as group:
                for contact in self._inputs:
                    group.create_task(contact.run())
                for output in self._outputs.values():
                    group.create_task(output.run())
        finally:
            self._chip.close()

    def show(self, situation: Situation) -> None:
        """Show ``situation`` from now on. Before the first one, everything is dark: nothing is known to be well."""
        self._situation = situation
        self._silenced &= situation.calling  # what comes again later sounds again
        self._refresh()

    def _acknowledge(self, is_pressed: bool, mono_ns: int) -> None:
        if not is_pressed:
            return
        if self._situation is not None:
            self._silenced = self._situation.calling
        self._refresh()
        self._on_acknowledge(mono_ns)

    def _refresh(self) -> None:
        shown: Annunciation = DARK if self._situation is None else annunciate(self._situation, self._silenced)
        for name, output in self._outputs.items():
            output.show(getattr(shown, name))
