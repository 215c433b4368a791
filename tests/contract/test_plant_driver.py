"""The appliance's own driver against the misbehaving plant: no value is ever wrong, its quality tells, it recovers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from appliance.contracts.errors import Uncertain
from appliance.contracts.link import LinkProtocol, SerialPort
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Value
from appliance.contracts.tag import DataType, RegisterKind, WordOrder
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.bus import ModbusBus
from tests.support.plant import SimulatedPlant, running_line

pytestmark = [pytest.mark.req("F9"), pytest.mark.asyncio(loop_scope="module")]

_TIMEOUT_S = 0.5
_ORDERS = list(WordOrder)
_VALUES: dict[DataType, Value] = {
    DataType.INT16: -5, DataType.UINT16: 65_000, DataType.INT32: -70_000, DataType.UINT32: 4_000_000_000,
    DataType.INT64: -5_000_000_000, DataType.UINT64: 2**63 + 1, DataType.FLOAT16: 1.5, DataType.FLOAT32: -2.25,
    DataType.FLOAT64: 3.141592653589793, DataType.BCD16: 1234, DataType.BCD32: 12_345_678, DataType.STRING: "Pump 7",
}  # fmt: skip


def every_type(device_id: int, link: str, asset: str) -> list[dict[str, Any]]:
    """One writable tag of every number type in every order, a text, a coil and two bits of a register, side by side."""
    tags: list[dict[str, Any]] = []
    address = 0
    for data_type in _VALUES:
        for order in _ORDERS:
            tag: dict[str, Any] = {
                "name": f"{data_type}_{order}",
                "type": str(data_type),
                "word_order": str(order),
                "address": address,
            }
            if data_type is DataType.STRING:
                tag["length"] = 4
            else:
                tag |= {"low": -1e19, "high": 1e19}
            tags.append(tag | {"kind": "holding_register", "writable": True})
            address += {"string": 4, "int64": 4, "uint64": 4, "float64": 4}.get(data_type, 2 if "32" in data_type else 1)
    tags += [
        {"name": f"bit_{bit}", "type": "bool", "bit": bit, "kind": "holding_register", "address": address, "writable": True}
        for bit in (2, 9)
    ]
    tags.append({"name": "coil", "type": "bool", "kind": "coil", "address": 3, "writable": True})
    return [tag | {"asset": asset, "link": link, "device_id": device_id, "spoken": {}} for tag in tags]


def plant_of(*links: dict[str, Any], devices: tuple[int, ...] = (1, 2)) -> Plant:
    assets = [{"id": f"{link['id']}_{device}", "area": "hall", "spoken": {}} for link in links for device in devices]
    tags = [tag for link in links for device in devices for tag in every_type(device, link["id"], f"{link['id']}_{device}")]
    return Plant.model_validate({"site": "s", "links": list(links), "assets": assets, "tags": tags, "alarms": []})


def a_link(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "host": "127.0.0.1", "timeout_s": _TIMEOUT_S, "retries": 0} | more


PLANT = plant_of(a_link("one"), a_link("two"))
SCENARIO: dict[str, Any] = {
    "tags": {
        f"*.{data_type}_*": {"play": {"signal": "constant", "value": value}} for data_type, value in _VALUES.items()
    }
}  # fmt: skip


def at(plant: Plant, simulated: SimulatedPlant) -> Plant:
    """The plant model as somebody has it who connects to the simulated one."""
    links = []
    for link in plant.links:
        where = simulated.links[link.id]
        if where["protocol"] == "rtu":
            change: dict[str, Any] = {
                "protocol": LinkProtocol.RTU,
                "host": None,
                "serial": SerialPort(device=where["where"], parity="N"),
            }
        else:
            change = {"protocol": LinkProtocol(where["protocol"]), "port": where["port"]}
        links.append(link.model_copy(update=change))
    return plant.model_copy(update={"links": links})


@asynccontextmanager
async def bus_of(plant: Plant) -> AsyncIterator[ModbusBus]:
    bus = ModbusBus(plant, SystemClock(), Degraded())
    try:
        yield bus
    finally:
        await bus.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SimulatedPlant]:
    async with running_line(tmp_path_factory.mktemp("line"), "--trace", plant=PLANT, scenario=SCENARIO) as line:
        yield line


@pytest_asyncio.fixture(loop_scope="module")
async def bus(simulated: SimulatedPlant) -> AsyncIterator[ModbusBus]:
    async with bus_of(at(PLANT, simulated)) as bus:
        yield bus
    await simulated.behave()


def expected(key: str) -> Value:
    return _VALUES[DataType(key.partition(".")[2].rpartition("_")[0])]


def named(plant: Plant, device: str) -> list[str]:
    return [tag.key for tag in plant.tags if tag.asset == device and tag.type is not DataType.BOOL]


@pytest.mark.req("F2")
async def test_every_type_in_every_order_over_all_links_and_units(bus: ModbusBus) -> None:
    keys = [key for asset in PLANT.assets for key in named(PLANT, asset.id)]
    readings = await bus.read(keys)
    assert len(readings) == 2 * 2 * len(_VALUES) * len(_ORDERS)
    for key, reading in readings.items():
        assert (reading.quality, reading.value) == (Quality.GOOD, expected(key)), key


@pytest.mark.req("F3")
async def test_a_trace_shows_what_was_asked(bus: ModbusBus, simulated: SimulatedPlant) -> None:
    keys = ["one_1.int16_ABCD", "one_1.int16_BADC", "one_1.int16_CDAB"]
    since = len(simulated.reports("request"))
    await bus.read(keys)
    await simulated.counts()
    asked = [(told["link"], told["device_id"], told["address"], told["count"]) for told in simulated.reports("request")[since:]]
    assert asked == [("one", 1, 0, 3)], "neighbours in one request"


@pytest.mark.req("F4")
async def test_every_kind_of_write_is_read_back(bus: ModbusBus, simulated: SimulatedPlant) -> None:
    writes: dict[str, Value] = {"uint16_ABCD": 7, "float64_CDAB": 2.5, "string_BADC": "ok", "bit_9": True, "coil": True}
    for name, value in writes.items():
        assert (await bus.write(f"one_2.{name}", value)).verified, name
    told = [report["tag"] for report in simulated.reports("write_received")]
    assert [f"one_2.{name}" in told or name == "bit_9" for name in writes] == [True] * len(writes)
    readings = await bus.read(["one_2.bit_2", "one_2.bit_9"])
    assert [reading.value for reading in readings.values()] == [False, True]


_SPOILT = [
    "silent", "slow", "late_reply", "short_reply", "wrong_function", "wrong_transaction", "wrong_unit", "garbage", "truncated",
    "reset", "close", "exception",
]  # fmt: skip


@pytest.mark.req("F3")
@pytest.mark.field("FC-F05")
@pytest.mark.parametrize("mode", _SPOILT)
async def test_a_value_is_never_wrong_and_its_quality_tells(bus: ModbusBus, simulated: SimulatedPlant, mode: str) -> None:
    tag, other = "one_1.int32_CDAB", "one_1.float64_DCBA"
    good = await bus.read([tag, other])
    assert [reading.quality for reading in good.values()] == [Quality.GOOD] * 2
    await simulated.misbehave(mode, link="one", delay_s=_TIMEOUT_S * 1.5)
    for _ in range(4):
        for key, reading in (await bus.read([tag, other])).items():
            assert reading.quality is Quality.STALE, reading
            assert reading.value == expected(key)
            assert reading.source_utc == good[key].source_utc
            assert reading.why
    elsewhere = await bus.read(["two_1.int16_ABCD"])
    assert elsewhere["two_1.int16_ABCD"].quality is Quality.GOOD, "the other link does not suffer"
    await simulated.behave()
    async with asyncio.timeout(5):
        while True:
            again = await bus.read([tag, other])
            for key, reading in again.items():
                assert reading.value == expected(key), f"{mode}: a late answer was taken for another"
            if all(reading.quality is Quality.GOOD for reading in again.values()):
                break
            await asyncio.sleep(0.02)


@pytest.mark.req("F4")
@pytest.mark.parametrize("mode", ["slow", "reset", "wrong_function", "truncated", "late_reply"])
async def test_a_write_with_a_spoilt_answer_is_uncertain_and_sent_once(
    bus: ModbusBus, simulated: SimulatedPlant, mode: str
) -> None:
    await bus.read(["one_1.uint16_BADC"])
    before = len(simulated.reports("write_received"))
    await simulated.misbehave(mode, link="one", on="write", times=1, delay_s=_TIMEOUT_S * 1.5)
    with pytest.raises(Uncertain):
        await bus.write("one_1.uint16_BADC", 65_000)
    await simulated.counts()
    assert len(simulated.reports("write_received")) == before + 1


@pytest.mark.parametrize("protocol", ["rtu-over-tcp", "udp", "rtu"])
@pytest.mark.req("F1")
async def test_the_plant_speaks_every_protocol(tmp_path: Path, protocol: str) -> None:
    plant = plant_of(a_link("one", timeout_s=1.0), devices=(1,))
    async with (
        running_line(tmp_path, "--protocol", protocol, plant=plant, scenario=SCENARIO) as line,
        bus_of(at(plant, line)) as bus,
    ):
        assert line.links["one"]["protocol"] == protocol.replace("-", "_")
        for key, reading in (await bus.read(named(plant, "one_1"))).items():
            assert (reading.quality, reading.value) == (Quality.GOOD, expected(key)), reading
        assert (await bus.write("one_1.coil", True)).verified
        assert plant.tag_by_key["one_1.coil"].kind is RegisterKind.COIL
