"""``floorhand run`` as it is shipped, on a made-up plant, with its broker; and what it costs and has on disk.

The core hears and says nothing: its microphone is an empty folder, its speaker none. Its configuration is the shipped one but for
plant and playbook, and that espeak-ng speaks, which has its sentences ready at once.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from demo.core_client import CoreClient
from demo.process import Child
from demo.site import CONFIG
from drivers.sim.broker import Broker

USER, GATEWAY = "floorhand", "plc"
PASSWORDS = {USER: "floorhand-pw", GATEWAY: "plc-pw"}
_READY_WITHIN_S = 120.0
_SHIPPED_VOICE = "synthesizer: auto"
_PLAYBOOK = """---
name: bench
description: Says that it came
triggers:
  faults: [bench_fault]
access: operator
---
# Bench

1. Announce it.
"""
_STEPS = """steps:
  - id: announce
    tool: say
    arguments:
      lead: "{alarm.lead}"
      text: {en: "It is on.", zh: "已触发。"}
"""


@dataclass(slots=True)
class RunningCore:
    """A core that is ready. ``database`` is its ledger, to be read only."""

    process: psutil.Process
    client: CoreClient
    database: Path
    log: Path

    def cost(self) -> Cost:
        """Return what the process has used so far; the voice process is not part of it."""
        return cost_of(self.process)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process had used at a moment."""

    at_s: float
    cpu_s: float
    rss_mb: float

    def percent_since(self, before: Cost) -> float:
        """CPU in percent of one core since ``before``."""
        return 100 * (self.cpu_s - before.cpu_s) / (self.at_s - before.at_s)


def cost_of(process: psutil.Process) -> Cost:
    """Return what a process has used so far."""
    times = process.cpu_times()
    return Cost(time.monotonic(), times.user + times.system, process.memory_info().rss / 2**20)


@asynccontextmanager
async def running_broker(folder: Path) -> AsyncIterator[Broker]:
    """Run a mosquitto from the shipped configuration."""
    broker = Broker(folder / "broker", users=PASSWORDS)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@asynccontextmanager
async def running_core(folder: Path, plant: Mapping[str, Any], mqtt_port: int) -> AsyncIterator[RunningCore]:
    """Run a core on ``plant`` in ``folder``; yield once it is ready and has loaded what it loads afterwards."""
    _write_config(folder / "config", plant)
    data = folder / "data"
    (folder / "microphone").mkdir(parents=True)
    data.mkdir()
    environ = {
        "FLOORHAND_DATA": str(data.resolve()),
        "FLOORHAND_MQTT_PORT": str(mqtt_port),
        "FLOORHAND_MQTT_USER": USER,
        "FLOORHAND_MQTT_PASSWORD": PASSWORDS[USER],
        "FLOORHAND_MICROPHONE": f"wav:{(folder / 'microphone').resolve()}",
        "FLOORHAND_SPEAKER": "none",
        "FLOORHAND_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "appliance", "run", "--config", str(folder / "config")]
    child = Child("core", command, folder / "core.log", environ)
    await child.start()
    client = CoreClient(data / "run" / "api.sock")
    try:
        await client.until(
            "/v1/status", _has_loaded, what=f"the core ready (see {folder / 'core.log'})", within_s=_READY_WITHIN_S,
            still=lambda: child.is_running,
        )  # fmt: skip
        yield RunningCore(psutil.Process(child.pid), client, data / "ledger.sqlite", folder / "core.log")
    finally:
        await client.close()
        await child.stop(within_s=30.0)


def _has_loaded(status: Mapping[str, Any]) -> bool:
    voice = status["voice"]
    speaks = voice.get("speaking") and voice.get("to_prepare") == 0  # the voice process has told nothing of itself yet at first
    return bool(status["ready"] and status["mqtt_connected"] and status["memory_knows_likeness"] and speaks)


def _write_config(folder: Path, plant: Mapping[str, Any]) -> None:
    shutil.copytree(CONFIG, folder)
    (folder / "incidents.yaml").unlink(missing_ok=True)
    appliance = folder / "appliance.yaml"
    shipped = appliance.read_text("utf-8")
    assert shipped.count(_SHIPPED_VOICE) == 1
    appliance.write_text(shipped.replace(_SHIPPED_VOICE, "synthesizer: espeak"), "utf-8")
    (folder / "plant.yaml").write_text(yaml.safe_dump(dict(plant), allow_unicode=True), encoding="utf-8")
    shutil.rmtree(folder / "playbooks")
    playbook = folder / "playbooks" / "bench"
    playbook.mkdir(parents=True)
    (playbook / "SKILL.md").write_text(_PLAYBOOK, encoding="utf-8")
    (playbook / "steps.yaml").write_text(_STEPS, encoding="utf-8")
