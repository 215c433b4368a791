"""The field bus against a simulated plant in another process, over real sockets."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused, Unavailable, Uncertain
from appliance.contracts.link import LinkProtocol, SerialPort
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.bus import ModbusBus
from tests.support.plant import SimulatedPlant, running_plant, shipped_plant
from tests.support.raw_plc import raw_plc
from tests.support.waiting import until

TIMEOUT_S = 0.5
FAN, TEMPERATURE = "motor_3.fan_speed", "motor_3.temperature"


class Site:
    def __init__(self, bus: ModbusBus, degraded: Degraded, sim: SimulatedPlant) -> None:
        self.bus = bus
        self.degraded = degraded
        self.sim = sim
        self.changes: list[tuple[str, str]] = []
        degraded.listeners.append(lambda part, why: self.changes.append((part, why)))

    async def one(self, key: str) -> Reading:
        return (await self.bus.read([key]))[key]

    async def fresh(self, key: str, within_s: float = 10) -> Reading:
        """Read until it is good again."""
        async with asyncio.timeout(within_s):
            while True:
                reading = await self.one(key)
                if reading.quality is Quality.GOOD:
                    return reading
                await asyncio.sleep(0.02)


@asynccontextmanager
async def site(
    folder: Path, plant: Plant | None = None, raw: dict[str, Any] | None = None, run: bool = False
) -> AsyncIterator[Site]:
    async with running_plant(folder, plant=raw) as sim:
        model = plant or shipped_plant(sim.port, timeout_s=TIMEOUT_S, retries=0)
        model = model.model_copy(update={"links": [link.model_copy(update={"port": sim.port}) for link in model.links]})
        degraded = Degraded()
        bus = ModbusBus(model, SystemClock(), degraded)
        running = asyncio.create_task(bus.run()) if run else None
        try:
            yield Site(bus, degraded, sim)
        finally:
            if running is not None:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            await bus.close()


@pytest.mark.req("F2", "F3", "P2")
async def test_every_shipped_tag_reads_a_plausible_value(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        plant = shipped_plant()
        readings = await it.bus.read(list(plant.tag_by_key))
        assert list(readings) == list(plant.tag_by_key)
        assert {r.quality for r in readings.values()} == {Quality.GOOD}
        values = {key: r.value for key, r in readings.items()}
        assert 55 < float(values[TEMPERATURE]) < 70  # type: ignore[arg-type]
        assert values[FAN] == 60
        assert values["conveyor_3.speed"] == 1.2
        assert 1 < float(values["motor_3.vibration"]) < 3  # type: ignore[arg-type]
        assert values["pump_3.running"] is True
        assert values["conveyor_3.running"] is True
        assert values["motor_3.reset"] is False
        assert readings[TEMPERATURE].unit == "degC"


@pytest.mark.req("F4")
async def test_a_write_is_read_back_and_happens_once(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        receipt = await it.bus.write(FAN, 100)
        assert receipt.verified
        assert (receipt.wanted, receipt.read_back.value, receipt.read_back.raw) == (100, 100, (100,))
        assert (await it.bus.write("conveyor_3.speed", 1.5)).verified
        assert (await it.bus.write("motor_3.acknowledge", True)).verified
        assert (await it.sim.counts())["writes"] == {
            "1:holding_register:0": 1,
            "1:holding_register:1": 1,
            "1:coil:1": 1,
        }


@pytest.mark.req("F4")
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("motor_9.fan_speed", 50, "not a tag"),
        (TEMPERATURE, 20, "cannot be written"),
        ("pump_3.running", False, "cannot be written"),
        (FAN, 101, "takes 0.0 to 100.0 %"),
        (FAN, -1, "does not fit"),
        (FAN, math.nan, "takes a number"),
        (FAN, "full", "takes a number"),
        (FAN, True, "takes a number"),
        ("motor_3.reset", 5, "takes true or false"),
    ],
)
async def test_what_may_not_be_written_is_never_sent(tmp_path: Path, key: str, value: Any, words: str) -> None:
    bus = ModbusBus(shipped_plant(1), SystemClock(), Degraded())  # port 1: anything sent would be Unavailable, not Refused
    with pytest.raises(Refused, match=words):
        await bus.write(key, value)


@pytest.mark.parametrize(
    ("key", "cure"), [("motor_3.temprature", "Did you mean motor_3.temperature?"), ("xyz", "`floorhand tags list`")]
)
async def test_an_undeclared_key_is_refused_with_the_nearest_one(key: str, cure: str) -> None:
    bus = ModbusBus(shipped_plant(1), SystemClock(), Degraded())
    with pytest.raises(Refused) as refused:
        await bus.read([key])
    assert refused.value.cure.startswith(cure)


async def test_an_undeclared_key_is_refused_before_anything_is_read() -> None:
    bus = ModbusBus(shipped_plant(1), SystemClock(), Degraded())
    with pytest.raises(Refused, match="motor_9"):
        await bus.read([TEMPERATURE, "motor_9.temperature"])


@pytest.mark.req("F4")
async def test_a_held_reply_is_uncertain_and_the_write_happened_exactly_once(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await it.sim.do("hold_write_reply", seconds=5)
        with pytest.raises(Uncertain, match="no answer"):
            await it.bus.write(FAN, 80)
        written = await it.sim.process.report(lambda r: r.get("event") == "write_received", within_s=5)
        assert (written["tag"], written["value"], written["count"]) == (FAN, 80, 1)
        assert (await it.fresh(FAN)).value == 80
        assert (await it.sim.counts())["writes"] == {"1:holding_register:0": 1}


@pytest.mark.req("F4")
async def test_a_write_the_plc_refuses_is_refused_with_the_codes_name(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await it.sim.do("refuse", code=3)
        with pytest.raises(Refused, match="ILLEGAL DATA VALUE"):
            await it.bus.write(FAN, 80)
        assert (await it.sim.counts())["writes"] == {}
        assert (await it.one(FAN)).value == 60


@pytest.mark.req("F4")
async def test_a_write_to_a_dead_plc_is_unavailable(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await it.sim.process.kill()
        with pytest.raises(Unavailable):
            await it.bus.write(FAN, 80)


@pytest.mark.req("F3")
@pytest.mark.field("FC-F05")
async def test_a_silent_plc_leaves_the_last_good_value_with_its_own_time(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        good = await it.one(TEMPERATURE)
        await it.sim.do("silent", seconds=60)
        for _ in range(2):
            stale = await it.one(TEMPERATURE)
            assert stale.quality is Quality.STALE
            assert (stale.value, stale.source_utc, stale.raw) == (good.value, good.source_utc, good.raw)
            assert "input_register 0 of device 1" in stale.why
        assert good.source_utc is not None
        age_s = stale.age_s(SystemClock())
        assert age_s is not None
        assert age_s >= TIMEOUT_S


@pytest.mark.field("FC-F06")
async def test_never_read_is_bad_not_a_number(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await it.sim.do("silent", seconds=60)
        reading = await it.one(TEMPERATURE)
        assert (reading.quality, reading.value, reading.source_utc) == (Quality.BAD, None, None)
        assert not it.bus.is_online("line_3")


@pytest.mark.req("F3")
async def test_a_silent_plc_is_waited_for_once_a_read_not_once_a_block() -> None:
    def zeros(pdu: bytes) -> bytes:
        count = int.from_bytes(pdu[3:5], "big")
        size = (count + 7) // 8 if pdu[0] in (1, 2) else 2 * count
        return bytes([pdu[0], size]) + bytes(size)

    async with raw_plc(zeros) as plc:
        bus = ModbusBus(shipped_plant(plc.port, timeout_s=TIMEOUT_S, retries=0), SystemClock(), Degraded())
        keys = list(shipped_plant().tag_by_key)
        assert {r.quality for r in (await bus.read(keys)).values()} == {Quality.GOOD}
        assert len(plc.requests) == 4, "one request a table"
        plc.answer = lambda _: None
        assert {r.quality for r in (await bus.read(keys)).values()} == {Quality.STALE}
        assert len(plc.requests) == 5
        await bus.close()


@pytest.mark.req("F1", "F7")
@pytest.mark.field("FC-F07")
async def test_a_restarted_plc_is_found_again_unaided_over_one_socket(tmp_path: Path) -> None:
    async with site(tmp_path, run=True) as it:
        await until(lambda: it.bus.is_online("line_3"), "online without anybody asking")
        assert it.degraded.reasons == {}
        await it.sim.process.kill()
        await until(lambda: "plc:line_3" in it.degraded.reasons, "not seeing the PLC is said")
        assert f"cannot see the PLC at 127.0.0.1:{it.sim.port}" in it.degraded.reasons["plc:line_3"]
        (tmp_path / "again").mkdir()
        async with running_plant(tmp_path / "again", port=it.sim.port):
            await until(lambda: it.bus.is_online("line_3"), "online again", within_s=15)
            assert it.degraded.reasons == {}
            assert (await it.one(FAN)).quality is Quality.GOOD
            assert _sockets_to(it.sim.port) == 1
            assert [bool(why) for _, why in it.changes] == [True, False], "said once, cleared once"


@pytest.mark.req("F1", "F7")
async def test_a_mute_plc_is_said_and_found_again_unaided(tmp_path: Path) -> None:
    async with site(tmp_path, run=True) as it:
        await until(lambda: it.bus.is_online("line_3"), "online")
        await it.sim.do("silent", seconds=3)
        await until(lambda: it.degraded.reasons, "said")
        await until(lambda: not it.degraded.reasons, "found again")
        assert it.changes == [
            ("plc:line_3", f"cannot see the PLC at 127.0.0.1:{it.sim.port}: no answer within 0.5 s"),
            ("plc:line_3", ""),
        ]


@pytest.mark.field("FC-F08")
@pytest.mark.req("F7")
async def test_a_plc_that_is_not_there_at_start_is_said_once(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    degraded = Degraded()
    changes: list[str] = []
    degraded.listeners.append(lambda _, why: changes.append(why))
    bus = ModbusBus(shipped_plant(port), SystemClock(), degraded)
    running = asyncio.create_task(bus.run())
    await until(lambda: changes, "said")
    async with running_plant(tmp_path, port=port):
        await until(lambda: bus.is_online("line_3"), "online", within_s=15)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bus.close()
    assert changes == [f"cannot see the PLC at 127.0.0.1:{port}: cannot connect", ""]


@pytest.mark.req("F1", "F7")
@pytest.mark.parametrize(
    "where",
    [{"host": host} for host in ("plc..local", f"{'p' * 64}.local", "plc\0")]
    + [{"protocol": LinkProtocol.RTU, "serial": SerialPort(device=device)} for device in ("foo://bar", "/dev/none")],
)
async def test_a_name_that_no_system_has_takes_only_its_own_link_away(tmp_path: Path, where: dict[str, Any]) -> None:
    async with running_plant(tmp_path) as sim:
        told = shipped_plant(sim.port).model_dump(mode="json")
        told["links"].append({"id": "wrong", "host": "127.0.0.1"})
        told["tags"].append(
            {"name": "elsewhere", "asset": "motor_3", "link": "wrong", "device_id": 1, "kind": "holding_register"}
            | {"address": 0, "type": "uint16", "spoken": {}}
        )
        plant = Plant.model_validate(told)
        links = [link.model_copy(update=where) if link.id == "wrong" else link for link in plant.links]  # past the check of it
        degraded = Degraded()
        bus = ModbusBus(plant.model_copy(update={"links": links}), SystemClock(), degraded)
        running = asyncio.create_task(bus.run())
        await until(lambda: bus.is_online("line_3") and degraded.reasons, "one in sight, the other said")
        assert list(degraded.reasons) == ["plc:wrong"]
        assert "cannot connect: " in degraded.reasons["plc:wrong"]
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bus.close()


@pytest.mark.req("P4")
async def test_the_event_log_is_read_newest_last(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        for percent in range(20, 60):  # more events than the ring holds
            await it.bus.write(FAN, percent)
        events = await it.bus.read_event_log(3)
        assert [e["value"] for e in events] == [57, 58, 59]
        assert [e["sequence"] for e in events] == [39, 40, 41]
        assert events[-1]["text"]["en"] == "setpoint changed"
        assert len(await it.bus.read_event_log(100)) == 32
        await it.sim.process.kill()
        with pytest.raises(Unavailable):
            await it.bus.read_event_log(3)


async def test_a_plant_without_event_log_refuses() -> None:
    bus = ModbusBus(shipped_plant(1).model_copy(update={"event_log": None}), SystemClock(), Degraded())
    with pytest.raises(Refused, match="no event log"):
        await bus.read_event_log(3)


def _gappy() -> dict[str, Any]:
    def tag(name: str, address: int, **more: Any) -> dict[str, Any]:
        base = {"name": name, "asset": "motor_1", "link": "l", "device_id": 1, "kind": "input_register", "spoken": {}}
        return base | {"address": address, "type": "int16", "scale": 0.1} | more

    return {
        "site": "s",
        "links": [{"id": "l", "host": "127.0.0.1", "port": 1, "timeout_s": TIMEOUT_S}],
        "assets": [{"id": "motor_1", "area": "line_1", "spoken": {}}],
        "tags": [tag("temperature", 0), tag("load", 5), tag("absent", 9, sentinels=[0])],
        "alarms": [],
    }


@pytest.mark.req("F3")
@pytest.mark.field("FC-F12")
async def test_a_gap_the_device_will_not_read_over_is_read_around(tmp_path: Path) -> None:
    async with site(tmp_path, plant=Plant.model_validate(_gappy()), raw=_gappy()) as it:
        for _ in range(2):
            readings = await it.bus.read(["motor_1.temperature", "motor_1.load", "motor_1.absent"])
            assert readings["motor_1.temperature"].quality is Quality.GOOD
            assert readings["motor_1.load"].quality is Quality.GOOD
            absent = readings["motor_1.absent"]
            assert (absent.quality, absent.value, absent.raw) == (Quality.BAD, None, (0,))
            assert "gives no number" in absent.why
        assert it.bus.is_online("l")


@pytest.mark.req("F1")
async def test_one_dead_device_does_not_hide_its_neighbour(tmp_path: Path) -> None:
    raw = _gappy()
    ghost = raw["tags"][0] | {"name": "ghost", "device_id": 7}
    model = Plant.model_validate(raw | {"tags": [*raw["tags"], ghost]})
    async with site(tmp_path, plant=model, raw=raw) as it:
        readings = await it.bus.read(["motor_1.ghost", "motor_1.temperature"])
        assert readings["motor_1.ghost"].quality is Quality.BAD
        assert readings["motor_1.temperature"].quality is Quality.GOOD


def _sockets_to(port: int) -> int:
    wanted = f":{port:04X}"
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    established = "01"
    return sum(1 for row in rows if row[2].endswith(wanted) and row[3] == established)
