"""The whole panel on gpiozero's mock pins: what a person does, and what lamps and buzzer show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gpiozero.pins.mock import MockFactory, MockPin

from appliance.contracts.alarm import AlarmState
from appliance.contracts.alarm_definition import Priority
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.gpio.annunciator import Pattern, Situation, StandingAlarm
from drivers.gpio.panel import Panel
from drivers.gpio.settings import GpioSettings
from tests.support.waiting import until

pytestmark = pytest.mark.req("F8")

TALK, ACKNOWLEDGE, KEY, RED, AMBER, GREEN, BUZZER = 17, 27, 22, 5, 6, 13, 19
WIRED = {
    "push_to_talk": {"pin": TALK},
    "acknowledge": {"pin": ACKNOWLEDGE},
    "key_switch": {"pin": KEY},
    "stack_light": {"red": {"pin": RED}, "amber": {"pin": AMBER}, "green": {"pin": GREEN}},
    "buzzer": {"pin": BUZZER},
}
HOT = StandingAlarm("plc:hot:1", Priority.HIGH, AlarmState.UNACKNOWLEDGED)
WORSE = StandingAlarm("plc:worse:1", Priority.CRITICAL, AlarmState.UNACKNOWLEDGED)
SEEN = StandingAlarm("plc:hot:1", Priority.HIGH, AlarmState.ACKNOWLEDGED)


class Watched:
    def __init__(self, factory: MockFactory | None, wired: dict[str, Any], devices: Path) -> None:
        self.did: list[tuple[str, bool]] = []
        self.degraded = Degraded()
        self.factory = factory
        self.panel = Panel(
            GpioSettings.model_validate(wired),
            SystemClock(),
            self.degraded,
            on_talk=lambda on, _: self.did.append(("talk", on)),
            on_acknowledge=lambda _: self.did.append(("acknowledge", True)),
            on_key=lambda on, _: self.did.append(("key", on)),
            pin_factory=factory,
            devices=devices,
        )

    def pin(self, number: int) -> MockPin:
        assert self.factory is not None
        return self.factory.pin(number)

    def lit(self) -> set[int]:
        return {number for number in (RED, AMBER, GREEN, BUZZER) if self.pin(number).state}

    async def until_flashing(self, number: int, times: int = 2) -> None:
        seen = len(self.pin(number).states)
        await until(lambda: len(self.pin(number).states) >= seen + 2 * times, f"pin {number} flashes")

    async def until_still(self, *lit: int) -> None:
        await until(lambda: self.lit() == set(lit), f"just {lit} lit")


@asynccontextmanager
async def panel(wired: dict[str, Any] = WIRED, devices: Path = Path("/dev"), *, mock: bool = True) -> AsyncIterator[Watched]:
    it = Watched(MockFactory() if mock else None, wired, devices)
    task = asyncio.create_task(it.panel.run())
    try:
        if it.factory is not None:
            await until(lambda: len(it.factory.pins) == len(dict(GpioSettings.model_validate(wired).pins())), "pins open")
        yield it
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_each_contact_does_its_own_thing() -> None:
    async with panel() as it:
        await until(lambda: it.did == [("key", False)], "how the key stands is told whatever it is")
        it.did.clear()
        for pin in (TALK, KEY):
            it.pin(pin).drive_low()
        await until(lambda: len(it.did) == 2, "talk and key")
        assert sorted(it.did) == [("key", True), ("talk", True)]
        assert it.panel.key_is_on
        it.pin(ACKNOWLEDGE).drive_low()
        await until(lambda: it.did[2:] == [("acknowledge", True)], "the press")
        for pin in (TALK, KEY, ACKNOWLEDGE):
            it.pin(pin).drive_high()
        await until(lambda: sorted(it.did[3:]) == [("key", False), ("talk", False)], "letting go of acknowledge is nothing")
        assert not it.panel.key_is_on


async def test_it_is_dark_until_something_is_known_and_green_when_all_is_well() -> None:
    async with panel() as it:
        assert it.lit() == set()
        it.panel.show(Situation())
        await it.until_still(GREEN)
        it.panel.show(Situation(is_degraded=True))
        await it.until_still(AMBER)


async def test_a_new_alarm_flashes_and_sounds_until_it_is_acknowledged() -> None:
    async with panel() as it:
        it.panel.show(Situation((HOT,)))
        await it.until_flashing(RED)
        await it.until_flashing(BUZZER)
        it.pin(ACKNOWLEDGE).drive_low()
        await until(lambda: ("acknowledge", True) in it.did, "the press")
        silent_at = len(it.pin(BUZZER).states)
        await it.until_flashing(RED)
        assert len(it.pin(BUZZER).states) <= silent_at + 1, "the buzzer is silent while the lamp goes on flashing"
        it.panel.show(Situation((HOT, WORSE)))
        await it.until_flashing(BUZZER, 1)
        it.panel.show(Situation((SEEN,)))
        await it.until_still(RED)
        it.panel.show(Situation((HOT,)))
        await it.until_flashing(BUZZER, 1)


async def test_an_alarm_that_comes_again_after_it_was_silenced_sounds_again() -> None:
    async with panel() as it:
        it.panel.show(Situation((HOT,)))
        it.pin(ACKNOWLEDGE).drive_low()
        await until(lambda: ("acknowledge", True) in it.did, "the press")
        it.panel.show(Situation())
        await it.until_still(GREEN)
        it.panel.show(Situation((HOT,)))
        await it.until_flashing(BUZZER, 1)


async def test_lamp_and_buzzer_flash_at_the_rate_they_should_and_together() -> None:
    async with panel() as it:
        it.panel.show(Situation((HOT,)))
        await it.until_flashing(RED, 1)
        it.pin(RED).clear_states()
        loop = asyncio.get_running_loop()
        start = loop.time()
        seen: set[frozenset[int]] = set()
        await until(lambda: seen.add(frozenset(it.lit())) or len(it.pin(RED).states) > 6, "three times on and off")
        rate_hz = Pattern.FAST.rate_hz
        assert rate_hz is not None
        assert 2.5 / rate_hz <= loop.time() - start, "three times on and off cannot be shorter than two and a half periods"
        assert seen == {frozenset(), frozenset({RED, BUZZER})}, "on and off together"


async def test_nothing_wakes_up_while_nothing_flashes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with panel() as it:
        it.panel.show(Situation((SEEN,)))
        await it.until_still(RED)
        loop = asyncio.get_running_loop()
        timers: list[float] = []
        real = loop.call_at
        monkeypatch.setattr(loop, "call_at", lambda when, *rest, **more: timers.append(when) or real(when, *rest, **more))
        it.panel.show(Situation((SEEN,), is_degraded=True))
        for _ in range(20):  # rounds of the loop; waiting by a timer would be counted
            await asyncio.sleep(0)
        assert it.lit() == {RED, AMBER}
        assert timers == []


async def test_everything_is_off_after_the_end() -> None:
    async with panel() as it:
        it.panel.show(Situation((HOT, WORSE), is_degraded=True))
        await it.until_flashing(RED)
        await until(lambda: {RED, AMBER, BUZZER} <= it.lit(), "all lit at once")
    assert it.lit() == set()


async def test_a_relay_board_that_pulls_in_when_low_is_off_when_high() -> None:
    async with panel({"buzzer": {"pin": BUZZER, "active_high": False}, "stack_light": {"red": {"pin": RED}}}) as it:
        await until(lambda: it.pin(BUZZER).state, "the relay is off")
        it.panel.show(Situation((HOT,)))
        await it.until_flashing(BUZZER, 1)
        it.panel.show(Situation((SEEN,)))
        await until(lambda: it.pin(RED).state and it.pin(BUZZER).state, "lamp on, relay off")
    assert it.pin(BUZZER).state


async def test_a_lamp_that_cannot_be_had_is_named_and_the_rest_works() -> None:
    from gpiozero import LED

    factory = MockFactory()
    taken = LED(RED, pin_factory=factory)
    it = Watched(factory, WIRED, Path("/dev"))
    task = asyncio.create_task(it.panel.run())
    it.panel.show(Situation((HOT,)))
    await it.until_flashing(BUZZER)
    assert list(it.degraded.reasons) == ["red lamp"]
    assert f"GPIO pin {RED} cannot be used" in it.degraded.reasons["red lamp"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    taken.close()


async def test_a_machine_without_a_chip_names_each_part(tmp_path: Path) -> None:
    async with panel(devices=tmp_path, mock=False) as it:
        await until(lambda: len(it.degraded.reasons) == 7, "every part is named")
        assert set(it.degraded.reasons) == {
            "push-to-talk", "acknowledge button", "key switch", "red lamp", "amber lamp", "green lamp", "buzzer"
        }  # fmt: skip
        it.panel.show(Situation((HOT,)))
        assert not it.panel.key_is_on
