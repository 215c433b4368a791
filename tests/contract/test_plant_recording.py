"""A line is recorded, served again, and recorded from there: the same raw values at the same times, silence too."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.bus import ModbusBus
from drivers.sim.recording import Recording, RecordingFile, load_recording
from tests.support.plant import SimulatedPlant, running_command, running_line, write_plant

pytestmark = [pytest.mark.req("F9")]

_EVERY_S = 0.05
_TOLERANCE_S = 0.4  # a few samples, and what a busy machine adds; below the 0.5 s that the values last

Change = tuple[float, tuple[int, ...], str]
"""When, raw, quality."""


def plant_at(port: int) -> Plant:
    tags: list[dict[str, Any]] = [
        {"name": "counter", "device_id": 1, "kind": "input_register", "address": 5, "type": "uint32", "word_order": "CDAB"},
        {"name": "running", "device_id": 1, "kind": "coil", "address": 0, "type": "bool"},
        {"name": "level", "device_id": 2, "kind": "holding_register", "address": 0, "type": "uint16", "sentinels": [0xFFFF]},
    ]
    return Plant.model_validate(
        {
            "site": "s",
            "links": [{"id": "plc", "host": "127.0.0.1", "port": port, "timeout_s": 0.4, "retries": 0}],
            "assets": [{"id": "tank", "area": "hall", "spoken": {}}],
            "tags": [tag | {"asset": "tank", "link": "plc", "spoken": {}} for tag in tags],
            "alarms": [],
        }
    )


SCENARIO: dict[str, Any] = {
    "tags": {
        "tank.counter": {"play": {"signal": "steps", "values": [70_000, 70_001, 70_002, 70_003, 70_004], "every_s": 0.5}},
        "tank.running": {"play": {"signal": "square", "period_s": 1.6}},
    },
    "events": [
        {"at_s": 0.4, "every_s": 1.0, "do": "fail", "tag": "tank.level"},
        {"at_s": 0.9, "every_s": 1.0, "do": "recover", "tag": "tank.level"},
    ],
}


async def recorded(folder: Path, name: str, line: SimulatedPlant, *, seconds: float) -> Recording:
    plant = write_plant(folder / f"{name}.yaml", plant_at(line.port))
    process = await _record(plant, folder / name, seconds)
    async with asyncio.timeout(seconds + 15):
        assert await process.wait() == 0
    return load_recording(folder / name)


async def _record(plant: Path, output: Path, seconds: float) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "appliance", "plant", "record", "--plant", str(plant), "--seconds", str(seconds),
        "--every", str(_EVERY_S), "-o", str(output), "--json", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip


def series(recording: Recording, key: str) -> list[Change]:
    """When a tag became what."""
    return [
        (sample.t_s, sample.tags[key].raw, str(sample.tags[key].quality)) for sample in recording.samples if key in sample.tags
    ]


async def test_what_was_recorded_is_served_and_recorded_the_same(tmp_path: Path) -> None:
    async with running_line(tmp_path, plant=plant_at(5020), scenario=SCENARIO) as line:
        first = await recorded(tmp_path, "first.jsonl", line, seconds=2.4)
    async with running_command(tmp_path, "replay", str(tmp_path / "first.jsonl"), "--port", "0", "--wait") as line:
        again = await recorded(tmp_path, "again.jsonl", line, seconds=first.lasts_s)
        assert line.links.keys() == {"plc"}
    for key in ("tank.counter", "tank.running", "tank.level"):
        one, other = series(first, key), series(again, key)
        assert len(one) >= 3, f"{key} has hardly moved: {one}"
        assert len(other) >= len(one) // 2, f"{key} has hardly moved when served: {other}"
        for is_s, *what in other:
            assert what in values_around(one, is_s), f"{key} became {what} at {is_s} s; recorded was {one}"


def values_around(told: list[Change], at_s: float) -> list[list[Any]]:
    """What a tag was, at some time, within the tolerance of ``at_s``."""
    known = [what for was_s, *what in told if was_s <= at_s + _TOLERANCE_S]
    before = sum(1 for was_s, *_ in told if was_s <= at_s - _TOLERANCE_S)
    return known[max(0, before - 1) :]


async def test_a_device_that_was_silent_is_silent_again_and_the_other_is_not(tmp_path: Path) -> None:
    file = RecordingFile(tmp_path / "line.jsonl", plant_at(5020), datetime(2026, 3, 2, 8, 0, tzinfo=UTC), 0.5)
    lost = Reading("tank.level", None, "", Quality.BAD, None, ())
    for t_s, level in ((0.0, lost), (0.5, Reading("tank.level", 7, "", Quality.GOOD, None, (7,)))):
        file.add(t_s, [Reading("tank.counter", 70_000, "", Quality.GOOD, None, (4464, 1)), level])
    file.close()
    async with running_command(tmp_path, "replay", str(tmp_path / "line.jsonl"), "--port", "0", "--wait") as line:
        bus = ModbusBus(plant_at(line.port), SystemClock(), Degraded())
        try:
            first = await bus.read(["tank.counter", "tank.level"])
            assert first["tank.counter"].raw == (4464, 1)
            assert first["tank.level"].quality is Quality.BAD
            async with asyncio.timeout(10):
                while True:
                    if (await bus.read(["tank.level"]))["tank.level"].value == 7:
                        break
                    await asyncio.sleep(0.02)
        finally:
            await bus.close()


async def test_a_recording_that_is_interrupted_is_whole_up_to_there(tmp_path: Path) -> None:
    async with running_line(tmp_path, plant=plant_at(5020), scenario=SCENARIO) as line:
        process = await _record(write_plant(tmp_path / "at.yaml", plant_at(line.port)), tmp_path / "cut.jsonl", 600)
        assert process.stdout is not None
        async with asyncio.timeout(20):
            progress = await process.stdout.readline()  # told after the first second
        assert b'"samples"' in progress
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            assert await process.wait() == 0
    assert load_recording(tmp_path / "cut.jsonl").lasts_s >= 0.9


async def test_a_line_that_is_not_there_is_recorded_as_such(tmp_path: Path) -> None:
    process = await _record(write_plant(tmp_path / "at.yaml", plant_at(1)), tmp_path / "dark.jsonl", 0.3)
    async with asyncio.timeout(20):
        assert await process.wait() == 0
    recording = load_recording(tmp_path / "dark.jsonl")
    assert all(sampled.is_unread for sample in recording.samples for sampled in sample.tags.values())
