"""Published values: the newest of each tag, honest about its age; and one field bus for these and those behind Modbus."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.ports import FieldBus
from appliance.contracts.reading import Quality, Reading, Value, WriteReceipt
from appliance.foundation.system_clock import SystemClock
from drivers.field_bus import FieldRouter
from drivers.mqtt.published import PublishedValues
from tests.support.clock import ManualClock
from tests.support.gateways import gateway_plant
from tests.support.waiting import until

PLANT = gateway_plant()
OIL, SPEED, MODE, PRESSURE = "press_1.oil", "press_1.speed", "press_1.mode", "press_1.pressure"


class Heard:
    """Published values and what their listeners were told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.values = PublishedValues(PLANT, self.clock)
        self.samples: list[Reading] = []
        self.changes: list[Reading] = []
        self.values.sample_listeners.append(self.samples.extend)
        self.values.change_listeners.append(self.changes.extend)

    def take(self, key: str, value: Value, quality: Quality = Quality.GOOD) -> None:
        self.values.take([Reading(key, value, "", quality, self.clock.utc())])

    def now(self, key: str) -> Reading:
        return self.values.read([key])[key]


@pytest.mark.req("F5")
def test_the_newest_value_is_read_and_one_never_published_is_bad() -> None:
    heard = Heard()
    assert (heard.now(OIL).quality, heard.now(OIL).value, heard.now(OIL).why) == (Quality.BAD, None, "not published yet")
    heard.take(OIL, 90.0)
    heard.take(OIL, 91.0)
    assert (heard.now(OIL).value, heard.now(OIL).quality) == (91.0, Quality.GOOD)
    with pytest.raises(Refused, match=r"motor_3\.temperature is not published"):
        heard.values.read([OIL, "motor_3.temperature"])


@pytest.mark.field("FC-F05")
def test_a_value_that_is_not_renewed_grows_stale_with_its_own_time() -> None:
    heard = Heard()
    heard.take(OIL, 90.0)
    heard.take(SPEED, 1450.0)
    at = heard.clock.utc()
    heard.clock.advance(29.9)
    assert heard.now(OIL).quality is Quality.GOOD
    heard.clock.advance(0.2)
    stale = heard.now(OIL)
    assert (stale.value, stale.quality, stale.source_utc) == (90.0, Quality.STALE, at)
    assert stale.age_s(heard.clock) == pytest.approx(30.1)
    assert stale.why == "not published again within 30 s"
    assert heard.now(SPEED).quality is Quality.GOOD, "nothing was said about how often it comes"
    heard.take(OIL, 90.0)
    assert heard.now(OIL).quality is Quality.GOOD


async def test_growing_stale_is_told_without_anybody_reading() -> None:
    plant = PLANT.model_copy(update={"topics": [m.model_copy(update={"stale_after_s": 0.1}) for m in PLANT.topics]})
    values, told = PublishedValues(plant, SystemClock()), list[Reading]()
    values.change_listeners.append(told.extend)
    running = asyncio.create_task(values.run())
    for _ in range(2):  # the second after the first has gone stale
        values.take([Reading(OIL, 90.0, "degC", Quality.GOOD, SystemClock().utc())])
        told.clear()
        await until(lambda: told, "told")
        assert [(reading.tag, reading.quality) for reading in told] == [(OIL, Quality.STALE)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.field("FC-F05")
def test_what_is_lost_is_stale_and_why() -> None:
    heard = Heard()
    heard.take(OIL, 90.0)
    heard.values.take([], {OIL: "gone", MODE: "gone"})
    assert (heard.now(OIL).quality, heard.now(OIL).value, heard.now(OIL).why) == (Quality.STALE, 90.0, "gone")
    assert heard.now(MODE).quality is Quality.BAD, "it never had a value"
    heard.values.take([Reading(OIL, 91.0, "degC", Quality.GOOD, heard.clock.utc())], {OIL: "born again"})
    assert (heard.now(OIL).quality, heard.now(OIL).value) == (Quality.GOOD, 91.0)
    heard.values.broker_lost("the broker at x cannot be reached")
    assert (heard.now(OIL).quality, heard.now(OIL).why) == (Quality.STALE, "the broker at x cannot be reached")
    assert [reading.quality for reading in heard.changes if reading.tag == OIL] == [
        Quality.GOOD, Quality.STALE, Quality.GOOD, Quality.STALE,
    ]  # fmt: skip


@pytest.mark.req("F3")
def test_every_sample_and_every_change_beyond_the_deadband_is_told() -> None:
    heard = Heard()
    for value in (90.0, 90.4, 90.49, 90.5, 90.1, 90.0):  # deadband 0.5
        heard.take(OIL, value)
    for rpm in (1000.0, 1099.0, 1100.0, 1209.0, 1210.0):  # deadband 10 %
        heard.take(SPEED, rpm)
    for name in ("stopped", "stopped", "automatic"):
        heard.take(MODE, name)
    assert [reading.value for reading in heard.changes] == [90.0, 90.5, 90.0, 1000.0, 1100.0, 1210.0, "stopped", "automatic"]
    assert len(heard.samples) == 14
    heard.take(OIL, 90.0, Quality.STALE)
    assert heard.changes[-1].quality is Quality.STALE, "quality is always news"


class Wired(FieldBus):
    """Stands for the Modbus links: says which keys it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        self.asked.append(list(keys))
        return {key: Reading(key, 1, "", Quality.GOOD, None) for key in keys}

    async def write(self, key: str, value: Value) -> WriteReceipt:
        self.asked.append((key, value))
        return WriteReceipt(key, value, Reading(key, value, "", Quality.GOOD, None), verified=True)

    async def probe(self, key: str) -> Mapping[str, Any]:
        return {"key": key}

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        return [{"sequence": newest}]


@pytest.mark.req("F4", "F5")
async def test_each_tag_goes_to_where_it_lives() -> None:
    heard, wired = Heard(), Wired()
    router = FieldRouter(PLANT, wired, heard.values)
    heard.take(PRESSURE, 4.0)
    both = await router.read([PRESSURE, "motor_3.load", PRESSURE])
    assert {key: reading.value for key, reading in both.items()} == {PRESSURE: 4.0, "motor_3.load": 1}
    assert wired.asked == [["motor_3.load"]]
    assert (await router.read([PRESSURE]))[PRESSURE].source_utc == heard.clock.utc() - timedelta(0)
    assert wired.asked == [["motor_3.load"]], "nothing is asked of Modbus for a published tag"
    with pytest.raises(Refused, match=r"press_1\.pressure is published by a gateway"):
        await router.write(PRESSURE, 5)
    assert (await router.write("motor_3.fan_speed", 80)).verified
    with pytest.raises(Refused, match="no registers to show"):
        await router.probe(PRESSURE)
    assert await router.probe("motor_3.load") == {"key": "motor_3.load"}
    assert await router.read_event_log(3) == [{"sequence": 3}]
