"""The GPIO chip: opened once for all pins, by lgpio; every fault of it said with its cure.

In: the first pin that is wanted. Out: gpiozero's pin factory, or Unavailable. Who calls: inputs and outputs, through
:func:`keep_pin`, which tries again now and then and names the part as degraded meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from appliance.contracts.errors import Unavailable
from appliance.foundation.backoff import delays_s
from appliance.foundation.supervisor import Degraded

if TYPE_CHECKING:
    from gpiozero import Device, Factory

log = logging.getLogger(__name__)

D = TypeVar("D", bound="Device")

_FIRST_RETRY_S, _LONGEST_RETRY_S = 5.0, 300.0
_UDEV_RULE = 'SUBSYSTEM=="gpio", KERNEL=="gpiochip*", GROUP="gpio", MODE="0660"'


class Chip:
    """The machine's GPIO chip. ``pin_factory`` stands in for it; ``devices`` is where chips are looked for."""

    def __init__(self, pin_factory: Factory | None = None, devices: Path = Path("/dev")) -> None:
        self._given = pin_factory
        self._opened: Factory | None = None
        self._devices = devices

    def factory(self) -> Factory:
        """Return the chip's pin factory, opening the chip if it is not open.

        Raises:
            Unavailable: no chip, no permission or no library; the message holds the cure.
        """
        if self._given is not None:
            return self._given
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def close(self) -> None:
        """Let go of the chip; its pins must be closed before."""
        opened, self._opened = self._opened, None
        if opened is not None:
            _let_go(opened.close, "the GPIO chip cannot be closed")

    def _open(self) -> Factory:
        chips = sorted(self._devices.glob("gpiochip*"))
        if not chips:
            raise Unavailable(f"this machine has no GPIO chip ({self._devices}/gpiochip*)")
        if not any(os.access(chip, os.R_OK | os.W_OK) for chip in chips):  # lgpio itself does not say which of the two it is
            raise Unavailable(
                f"no permission for {chips[0]}; put the service's user into the group gpio; where no udev rule gives that group "
                f"the chip, add {_UDEV_RULE}"
            )
        with vendor_errors("the GPIO chip cannot be opened"):
            import_module("lgpio")
            return cast("Factory", import_module("gpiozero.pins.lgpio").LGPIOFactory())


@contextmanager
def vendor_errors(what: str) -> Iterator[None]:
    """Turn what gpiozero, lgpio and the kernel raise into Unavailable: ``what``, and why."""
    try:
        yield
    except ImportError as error:
        raise Unavailable(f"the library {error.name or 'lgpio'} is missing; install python3-lgpio") from error
    except FileNotFoundError as error:
        if ".lgd-nfy" not in str(error.filename):
            raise Unavailable(f"{what}: {error}") from error
        cure = "set LG_WD to a folder the service may write to"  # lgpio makes a pipe in its working folder when imported
        raise Unavailable(f"{what}: lgpio may not write to {Path.cwd()}; {cure}") from error
    except _known_errors() as error:
        raise Unavailable(f"{what}: {error}") from error


@contextmanager
def open_pin(what: str, open_device: Callable[[], D]) -> Iterator[D]:
    """Open a device for the time of the block; an output is off at both ends.

    Raises:
        Unavailable: it cannot be opened: ``what``, and why.
    """
    with vendor_errors(what):
        device = open_device()
    try:
        yield device
    finally:
        if hasattr(device, "off"):
            _let_go(device.off, what)
        _let_go(device.close, what)


def _let_go(end: Callable[[], None], what: str) -> None:
    """Call ``end``. A chip that has gone cannot be told anything, and must not turn a cancellation into another error."""
    try:
        with vendor_errors(what):
            end()
    except Unavailable as error:
        log.warning("gpio.not_closed", extra={"why": error.message})


def _known_errors() -> tuple[type[Exception], ...]:
    """Return what the libraries raise. lgpio has an error class of its own, and may not be there at all."""
    from gpiozero import GPIOZeroError

    lgpio = sys.modules.get("lgpio")
    return (GPIOZeroError, OSError, *((lgpio.error,) if lgpio is not None else ()))


async def keep_pin(part: str, chip: Chip, degraded: Degraded, use: Callable[[Factory], Awaitable[NoReturn]]) -> NoReturn:
    """Run ``use`` for ever. When the pin cannot be had, say so as ``part`` and try again in 5 s, doubling to 5 min.

    ``use`` clears ``part`` once it has the pin. Ends only by cancellation.
    """
    waits = delays_s(_FIRST_RETRY_S, _LONGEST_RETRY_S)
    while True:
        try:
            await use(chip.factory())
        except Unavailable as error:
            degraded.mark(part, error.message)
        await asyncio.sleep(next(waits))
