"""Push-to-talk on gpiozero's own mock pins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from gpiozero.pins.mock import MockFactory

from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.gpio.push_to_talk import PushToTalk
from tests.support.waiting import until

PIN = 17


class Watched:
    def __init__(self, factory: MockFactory | None, devices: Path = Path("/dev")) -> None:
        self.changes: list[tuple[bool, int]] = []
        self.degraded = Degraded()
        self.button = PushToTalk(
            PIN, SystemClock(), self.degraded, lambda *change: self.changes.append(change), pin_factory=factory, devices=devices
        )

    @property
    def levels(self) -> list[bool]:
        return [pressed for pressed, _ in self.changes]


@asynccontextmanager
async def watched(factory: MockFactory | None, devices: Path = Path("/dev")) -> AsyncIterator[Watched]:
    it = Watched(factory, devices)
    task = asyncio.create_task(it.button.run())
    try:
        if factory is not None:
            await until(lambda: any(pin.when_changed for pin in factory.pins.values()), "the pin is watched")
        yield it
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if factory is not None:
            factory.reset()


@pytest.mark.req("F8")
async def test_a_press_and_a_release_arrive_once_each_on_the_loop() -> None:
    factory = MockFactory()
    async with watched(factory) as it:
        pin = factory.pin(PIN)
        before_ns = SystemClock().monotonic_ns()
        await asyncio.to_thread(pin.drive_low)  # from another thread, as gpiozero does
        await until(lambda: it.levels == [True], "the press")
        await asyncio.to_thread(pin.drive_high)
        await until(lambda: it.levels == [True, False], "the release")
        assert before_ns <= it.changes[0][1] < it.changes[1][1] <= SystemClock().monotonic_ns()


@pytest.mark.req("F8")
async def test_a_bouncing_contact_is_one_press() -> None:
    factory = MockFactory()
    async with watched(factory) as it:
        pin = factory.pin(PIN)
        for _ in range(5):
            pin.drive_low()
            pin.drive_high()
        pin.drive_low()
        await until(lambda: it.levels, "the press")
        pin.drive_high()
        await until(lambda: len(it.levels) > 1, "the release")
        assert it.levels == [True, False]


async def test_a_spike_is_no_press() -> None:
    factory = MockFactory()
    async with watched(factory) as it:
        pin = factory.pin(PIN)
        pin.drive_low()
        pin.drive_high()
        await until(lambda: it.button._settling is None and it.button._first_edge_ns is None, "the pin is steady")
        assert it.levels == []


@pytest.mark.req("F8")
async def test_a_machine_without_a_chip_names_it(tmp_path: Path) -> None:
    async with watched(None, devices=tmp_path) as it:
        await until(lambda: it.degraded.reasons, "the degraded state")
        assert "no GPIO chip" in it.degraded.reasons["push-to-talk"]


@pytest.mark.req("F8")
async def test_a_machine_without_the_library_names_its_cure(tmp_path: Path) -> None:
    (tmp_path / "gpiochip0").touch()
    async with watched(None, devices=tmp_path) as it:
        await until(lambda: it.degraded.reasons, "the degraded state")
        assert "lgpio" in it.degraded.reasons["push-to-talk"]


async def test_a_pin_in_use_names_it() -> None:
    from gpiozero import Button

    factory = MockFactory()
    taken = Button(PIN, pin_factory=factory)
    try:
        it = Watched(factory)
        task = asyncio.create_task(it.button.run())
        await until(lambda: it.degraded.reasons, "the degraded state")
        assert f"GPIO pin {PIN} cannot be used" in it.degraded.reasons["push-to-talk"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    finally:
        taken.close()
        factory.reset()
