"""The simulated plant as a process: what it publishes, what it survives, and that it never stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from drivers.mqtt.topics import IncomingMessage, parse_alarm
from drivers.sim.broker import Broker
from tests.support.broker import USERS, running_broker, running_session, settings_for
from tests.support.plant import PLANT_FILE, SimulatedPlant, running_plant, shipped_plant
from tests.support.waiting import until

PLANT = shipped_plant()


class Heard:
    """A handler that keeps alarm events."""

    def __init__(self) -> None:
        self.events: list[AlarmEvent] = []

    async def __call__(self, message: IncomingMessage) -> None:
        self.events.append(parse_alarm(message, PLANT))

    @property
    def changes(self) -> list[tuple[str, AlarmChange]]:
        return [(event.alarm_id, event.change) for event in self.events]


def at_broker(broker: Broker, folder: Path) -> list[str]:
    secret = folder / "plc.password"
    secret.write_text(USERS["plc"], encoding="ascii")
    return ["--mqtt-port", str(broker.port), "--mqtt-user", "plc", "--mqtt-password-file", str(secret)]


@asynccontextmanager
async def plant_with_broker(tmp_path: Path, *more: str) -> AsyncIterator[tuple[SimulatedPlant, Broker]]:
    async with (
        running_broker(tmp_path) as broker,
        running_plant(tmp_path, arguments=[*at_broker(broker, tmp_path), *more]) as plant,
    ):
        yield plant, broker


@pytest.mark.req("P2", "P4", "F9")
async def test_an_overheating_motor_arrives_as_an_alarm_and_clears(tmp_path: Path) -> None:
    heard = Heard()
    async with plant_with_broker(tmp_path) as (plant, broker), running_session(settings_for(broker), heard):
        await plant.do("overheat", asset="motor_3")
        await until(lambda: heard.changes == [("motor_3_over_temperature", AlarmChange.RAISED)], "raised")
        raised = heard.events[0]
        assert raised.value is not None
        assert 90 <= raised.value < 96
        assert raised.unit == "degC"
        assert raised.source_utc is not None
        assert raised.source_mono_ns is not None
        await plant.do("recover", asset="motor_3")
        await until(lambda: len(heard.events) == 2, "cleared", within_s=10)
        cleared = heard.events[1]
        assert cleared.change is AlarmChange.CLEARED
        assert cleared.activation_id == raised.activation_id
        await plant.do("overheat", asset="motor_3")
        await until(lambda: len(heard.events) == 3, "raised again")
        assert heard.events[2].activation_id != raised.activation_id
        async with asyncio.timeout(10):
            while (counts := await plant.counts())["acked"] < 3:  # the broker may pass a message on before it acknowledges it
                pass
        assert (counts["raised"], counts["cleared"], counts["published"], counts["acked"]) == (2, 1, 3, 3)
        published = [r for r in plant.process.reports if r.get("event") == "published"]
        assert [(r["alarm"], r["state"], r["activation"]) for r in published] == [
            ("M3.OVERTEMP", event.change, event.activation) for event in heard.events
        ]


@pytest.mark.field("FC-F14")
async def test_alarms_of_an_outage_arrive_all_and_in_order(tmp_path: Path) -> None:
    heard = Heard()
    async with plant_with_broker(tmp_path) as (plant, broker), running_session(settings_for(broker), heard):
        await broker.stop()
        await plant.do("overheat", asset="motor_3")  # the first second of the outage
        await asyncio.wait_for(_counted(plant, raised=1), 10)
        await plant.do("pressure_drop", asset="pump_3")
        await asyncio.wait_for(_counted(plant, raised=2), 10)
        assert (await plant.counts())["acked"] == 0
        await broker.start()
        await until(lambda: len(heard.events) == 2, "both")
    assert [alarm for alarm, _ in heard.changes] == ["motor_3_over_temperature", "pump_3_low_pressure"]


async def _counted(plant: SimulatedPlant, **wanted: int) -> None:
    while True:
        counts = await plant.counts()
        if wanted.items() <= counts.items():
            return
        await asyncio.sleep(0.05)


@pytest.mark.field("FC-F14")
async def test_an_alarm_under_way_when_the_broker_dies_is_published_again(tmp_path: Path) -> None:
    heard = Heard()
    async with plant_with_broker(tmp_path) as (plant, broker), running_session(settings_for(broker), heard):
        await plant.do("pressure_drop", asset="pump_3")
        await asyncio.wait_for(_counted(plant, acked=1), 10)
        await until(lambda: len(heard.events) == 1, "the first alarm")
        broker.pause()  # it takes the next message and never acknowledges it
        await plant.do("overheat", asset="motor_3")
        await asyncio.wait_for(_counted(plant, raised=2), 10)
        await broker.kill()
        assert (await plant.counts())["acked"] == 1
        await broker.start()
        await until(lambda: ("motor_3_over_temperature", AlarmChange.RAISED) in heard.changes, "the second alarm")
        await asyncio.wait_for(_counted(plant, acked=2), 10)


@pytest.mark.field("FC-F14")
async def test_a_gateway_killed_in_an_outage_still_brings_its_alarms(tmp_path: Path) -> None:
    heard = Heard()
    journal = ("--journal", str(tmp_path / "journal"))
    async with running_broker(tmp_path) as broker, running_session(settings_for(broker), heard):
        await broker.stop()
        async with running_plant(tmp_path, arguments=[*at_broker(broker, tmp_path), *journal]) as plant:
            await plant.do("overheat", asset="motor_3")
            await asyncio.wait_for(_counted(plant, raised=1), 10)
            await plant.process.kill()
        await broker.start()
        async with running_plant(tmp_path, arguments=[*at_broker(broker, tmp_path), *journal]):
            await until(lambda: heard.changes == [("motor_3_over_temperature", AlarmChange.RAISED)], "the old alarm")


async def _ends(process: asyncio.subprocess.Process, within_s: float = 10) -> int:
    async with asyncio.timeout(within_s):
        return await process.wait()


def _command(*more: str) -> list[str]:
    return [sys.executable, "-m", "drivers.sim", "--plant", str(PLANT_FILE), *more]


async def _ready(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(20):
        report: dict[str, Any] = json.loads(await process.stdout.readline())
    assert report["event"] == "ready"
    return report


@pytest.mark.parametrize("how", ["end of input", "order", "signal"])
async def test_it_ends_when_told_and_when_left_alone(how: str) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*_command(), stdin=pipe, stdout=pipe)
    await _ready(process)
    assert process.stdin is not None
    match how:
        case "order":
            process.stdin.write(b'{"do": "stop"}\n')
        case "signal":
            process.send_signal(signal.SIGTERM)
        case _:
            process.stdin.close()
    assert await _ends(process) == 0
    process.stdin.close()


async def test_it_dies_with_its_parent() -> None:
    """The parent is killed; a third process holds the plant's input open, so that only the parent's death can end it."""
    read_end, write_end = os.pipe()
    script = f"import subprocess, sys; p = subprocess.Popen({_command()!r}, stdin={read_end}); print(p.pid, flush=True); p.wait()"
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, pass_fds=[read_end]
    )
    try:
        assert parent.stdout is not None
        pid = int(await parent.stdout.readline())
        await _ready(parent)
        parent.kill()
        await _ends(parent)
        await until(lambda: not _is_alive(pid), "the plant ended")
    finally:
        os.close(read_end)
        os.close(write_end)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_without_control_it_runs_until_signalled() -> None:
    process = await asyncio.create_subprocess_exec(
        *_command("--no-control"), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    report = await _ready(process)
    _, writer = await asyncio.open_connection("127.0.0.1", report["port"])
    writer.close()
    await writer.wait_closed()
    process.send_signal(signal.SIGINT)
    assert await _ends(process) == 0
