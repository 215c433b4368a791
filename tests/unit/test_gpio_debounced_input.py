"""Contacts on gpiozero's own mock pins, which bounce as they are driven."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gpiozero.pins.mock import MockFactory, MockPin

from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.gpio.chip import Chip
from drivers.gpio.debounced_input import DebouncedInput
from drivers.gpio.settings import InputPin
from tests.support.waiting import until

PIN, OTHER_PIN = 17, 27
PART = "push-to-talk"


class HeldPin(MockPin):
    """A pin whose contact is closed already: the pull-up does not move it."""

    def _set_pull(self, value: str) -> None:
        self._pull = value
        self._state = False


class BreakingPin(MockPin):
    """A pin that can be read until its chip goes away."""

    is_broken = False

    def _get_state(self) -> bool:
        if self.is_broken:
            raise OSError(19, "No such device")
        return bool(super()._get_state())


class Watched:
    def __init__(self, chip: Chip, **pin: Any) -> None:
        self.changes: list[tuple[bool, int]] = []
        self.degraded = Degraded()
        settings = InputPin(**{"pin": PIN} | pin)
        take = self.changes.append
        self.input = DebouncedInput(PART, settings, chip, SystemClock(), self.degraded, lambda *change: take(change))

    @property
    def levels(self) -> list[bool]:
        return [level for level, _ in self.changes]


@asynccontextmanager
async def watched(factory: MockFactory | None, devices: Path = Path("/dev"), **pin: Any) -> AsyncIterator[Watched]:
    it = Watched(Chip(factory, devices), **pin)
    task = asyncio.create_task(it.input.run())
    try:
        if factory is not None:
            wired = factory.pin(pin.get("pin", PIN))
            await until(lambda: it.degraded.reasons or wired.when_changed, "the pin is watched")
        yield it
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.req("F8")
async def test_a_press_and_a_release_arrive_once_each_on_the_loop() -> None:
    factory = MockFactory()
    async with watched(factory) as it:
        pin = factory.pin(PIN)
        before_ns = SystemClock().monotonic_ns()
        await asyncio.to_thread(pin.drive_low)  # from another thread, as gpiozero does
        pressed_ns = SystemClock().monotonic_ns()
        await until(lambda: it.levels == [True], "the press")
        assert it.input.is_active
        await asyncio.to_thread(pin.drive_high)
        await until(lambda: it.levels == [True, False], "the release")
        assert before_ns <= it.changes[0][1] <= pressed_ns < it.changes[1][1], "the moment of the first edge, not of the decision"


@pytest.mark.req("F8")
async def test_a_bouncing_contact_is_one_press() -> None:
    factory = MockFactory()
    async with watched(factory, debounce_ms=200) as it:
        pin = factory.pin(PIN)
        for _ in range(5):
            pin.drive_low()
            await _let_the_loop_see_it()
            pin.drive_high()
            await _let_the_loop_see_it()
        pin.drive_low()
        await until(lambda: it.levels, "the press")
        pin.drive_high()
        await until(lambda: len(it.levels) > 1, "the release")
        assert it.levels == [True, False]


async def _let_the_loop_see_it() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.req("F8")
async def test_a_spike_is_no_press() -> None:
    factory = MockFactory()
    async with watched(factory) as it, watched(factory, pin=OTHER_PIN, debounce_ms=60) as later:
        factory.pin(PIN).drive_low()
        factory.pin(PIN).drive_high()
        factory.pin(OTHER_PIN).drive_low()
        await until(lambda: later.levels, "a slower contact was taken, so the spike is over")
        assert it.levels == []


@pytest.mark.req("F8")
async def test_a_contact_to_the_supply_is_closed_when_high() -> None:
    factory = MockFactory()
    async with watched(factory, active_high=True) as it:
        factory.pin(PIN).drive_high()
        await until(lambda: it.levels == [True], "the press")


@pytest.mark.req("F8")
async def test_a_contact_that_is_closed_at_start_is_told() -> None:
    factory = MockFactory(pin_class=HeldPin)
    async with watched(factory) as it:
        await until(lambda: it.levels == [True], "the contact is closed")


@pytest.mark.req("F8")
async def test_a_contact_that_can_no_longer_be_read_is_open() -> None:
    factory = MockFactory(pin_class=BreakingPin)
    async with watched(factory) as it:
        pin = factory.pin(PIN)
        pin.drive_low()
        await until(lambda: it.input.is_active, "the contact is closed")
        pin.is_broken = True
        pin.drive_high()
        await until(lambda: it.degraded.reasons, "the degraded state")
        assert it.levels == [True, False]
        assert f"GPIO pin {PIN} cannot be used" in it.degraded.reasons[PART]


@pytest.mark.req("F8")
async def test_a_machine_without_a_chip_names_it(tmp_path: Path) -> None:
    async with watched(None, devices=tmp_path) as it:
        await until(lambda: it.degraded.reasons, "the degraded state")
        assert "no GPIO chip" in it.degraded.reasons[PART]


@pytest.mark.req("F8")
async def test_a_chip_without_permission_names_group_and_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpiochip0").touch()
    monkeypatch.setattr("os.access", lambda *_: False)  # tests may run as root, whom no mode keeps out
    async with watched(None, devices=tmp_path) as it:
        await until(lambda: it.degraded.reasons, "the degraded state")
        why = it.degraded.reasons[PART]
        assert "no permission for" in why and "into the group gpio" in why and 'GROUP="gpio"' in why


@pytest.mark.req("F8")
async def test_a_machine_without_the_library_names_its_cure(tmp_path: Path) -> None:
    (tmp_path / "gpiochip0").touch()
    async with watched(None, devices=tmp_path) as it:
        await until(lambda: it.degraded.reasons, "the degraded state")
        assert "lgpio" in it.degraded.reasons[PART]


@pytest.mark.req("F8")
async def test_a_pin_in_use_is_taken_once_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpiozero import Button

    monkeypatch.setattr("drivers.gpio.chip._FIRST_RETRY_S", 0.05)
    factory = MockFactory()
    taken = Button(PIN, pin_factory=factory)
    async with watched(factory) as it:
        await until(lambda: it.degraded.reasons, "the degraded state")
        assert f"GPIO pin {PIN} cannot be used" in it.degraded.reasons[PART]
        taken.close()
        await until(lambda: not it.degraded.reasons, "the pin is free again")
        factory.pin(PIN).drive_low()
        await until(lambda: it.levels == [True], "the press")
