"""The push-to-talk button on a GPIO pin.

In: edges of the pin, from gpiozero's thread. Out: ``on_change(is_pressed, mono_ns)`` on the event loop, once a real press or
release. Who calls: the voice process. Without a GPIO chip, its permission or its library the appliance works by wake word; the
reason is named in ``degraded`` as ``push-to-talk``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from appliance.contracts.clock import Clock
from appliance.foundation.backoff import delays_s
from appliance.foundation.supervisor import Degraded

if TYPE_CHECKING:
    from gpiozero import Button, Factory

_PART = "push-to-talk"
_FIRST_RETRY_S, _LONGEST_RETRY_S = 5.0, 300.0


class PushToTalk:
    """A button between ``pin`` (BCM numbering) and ground, with the Pi's own pull-up.

    Debounced here, because not every pin factory does it: a level counts once it was steady for ``steady_s``.
    """

    def __init__(
        self,
        pin: int,
        clock: Clock,
        degraded: Degraded,
        on_change: Callable[[bool, int], None],
        *,
        steady_s: float = 0.02,
        pin_factory: Factory | None = None,
        devices: Path = Path("/dev"),
    ) -> None:
        self._pin = pin
        self._clock = clock
        self._degraded = degraded
        self._on_change = on_change
        self._steady_s = steady_s
        self._pin_factory = pin_factory
        self._devices = devices
        self._is_pressed = False
        self._first_edge_ns: int | None = None
        self._settling: asyncio.TimerHandle | None = None

    @property
    def is_pressed(self) -> bool:
        """The debounced level."""
        return self._is_pressed

    async def run(self) -> None:
        """Watch the button; while it cannot be had, try again now and then. Ends only by cancellation."""
        waits = delays_s(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            why = await self._watch()
            self._degraded.mark(_PART, why)
            await asyncio.sleep(next(waits))

    async def _watch(self) -> str:
        """Open the pin and follow it until cancelled; return why it cannot be opened."""
        loop = asyncio.get_running_loop()
        try:
            from gpiozero import Button, GPIOZeroError

            button: Button | None = None
            try:
                button = Button(self._pin, pull_up=True, pin_factory=self._pin_factory or self._lgpio_factory())
                self._degraded.clear(_PART)
                self._follow(button, loop)
                await loop.create_future()  # edges arrive by callback until we are cancelled
            finally:
                if self._settling is not None:
                    self._settling.cancel()
                if button is not None:
                    button.close()
        except ImportError as error:
            return f"the library {error.name or 'gpiozero'} is missing; install python3-lgpio"
        except PermissionError:
            return "no permission for /dev/gpiochip*; put the service's user into the group gpio"
        except (GPIOZeroError, OSError) as error:
            return f"GPIO pin {self._pin} cannot be used: {error}"
        return "the button was closed"

    def _lgpio_factory(self) -> Factory:
        """Open the GPIO chip by lgpio, which serves every Pi.

        Raises:
            ImportError: lgpio or its Pi support is not installed.
            PermissionError: the chip may not be opened.
            OSError: there is no such chip.
        """
        chips = list(self._devices.glob("gpiochip*"))
        if not chips:
            raise FileNotFoundError(f"this machine has no GPIO chip ({self._devices}/gpiochip*)")
        if not any(os.access(chip, os.R_OK | os.W_OK) for chip in chips):  # lgpio itself does not say which of the two it is
            raise PermissionError(str(chips[0]))
        lgpio = import_module("lgpio")
        factory = import_module("gpiozero.pins.lgpio").LGPIOFactory
        try:
            return cast("Factory", factory())
        except lgpio.error as error:
            raise OSError(f"lgpio: {error}") from error

    def _follow(self, button: Button, loop: asyncio.AbstractEventLoop) -> None:
        def edge() -> None:  # on gpiozero's thread
            loop.call_soon_threadsafe(self._edge, button, self._clock.monotonic_ns())

        button.when_pressed = edge
        button.when_released = edge
        self._edge(button, None)  # it may be held down already

    def _edge(self, button: Button, mono_ns: int | None) -> None:
        if self._first_edge_ns is None:
            self._first_edge_ns = mono_ns
        if self._settling is not None:
            self._settling.cancel()
        self._settling = asyncio.get_running_loop().call_later(self._steady_s, self._settled, button)

    def _settled(self, button: Button) -> None:
        self._settling = None
        first_edge_ns, self._first_edge_ns = self._first_edge_ns, None
        is_pressed = bool(button.is_pressed)
        if is_pressed != self._is_pressed:  # else a bounce came back to where it was
            self._is_pressed = is_pressed
            self._on_change(is_pressed, self._clock.monotonic_ns() if first_edge_ns is None else first_edge_ns)
