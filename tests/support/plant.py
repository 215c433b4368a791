"""The shipped plant model, and the simulated plant as a process of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from appliance.contracts.plant import Plant
from demo.process import Child
from drivers.sim.plant_file import load_plant

PLANT_FILE = Path(__file__).parents[2] / "config" / "plant.yaml"


def shipped_plant(port: int = 5020, **link_changes: Any) -> Plant:
    """``config/plant.yaml`` with the PLC on a loopback port."""
    plant = load_plant(PLANT_FILE, {"FLOORHAND_PLC_PORT": str(port)})
    links = [link.model_copy(update=link_changes) for link in plant.links]
    return plant.model_copy(update={"links": links})


@dataclass(slots=True)
class SimulatedPlant:
    """A running simulated plant. ``process.order(do=…)`` and ``process.report(…)`` talk to it.

    ``links`` says of each link ``{"protocol", "where", "port"}``; ``port`` is that of the first.
    """

    process: Child
    port: int
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    async def counts(self) -> dict[str, Any]:
        """Ask what was published, written and asked so far."""
        since = len(self.process.reports)
        await self.process.order(do="counts")
        return dict(await self.process.report(lambda r: r.get("event") == "counts", within_s=5, since=since))

    async def do(self, order: str, **details: Any) -> None:
        """Give an order and wait until it was carried out."""
        since = len(self.process.reports)
        await self.process.order(do=order, **details)
        await self.process.report(lambda r: r.get("event") == "done" and r.get("do") == order, within_s=5, since=since)

    async def misbehave(self, mode: str, **details: Any) -> None:
        """Begin to misbehave: ``for_s``, ``times``, ``device_id``, ``on``, ``after``, ``delay_s``, ``code``."""
        await self.do("misbehave", mode=mode, **details)

    async def behave(self) -> None:
        """End all misbehaviour."""
        await self.do("behave")

    async def set(self, tag: str, to: float | bool | str) -> None:
        """Hold a tag at a value."""
        await self.do("set", tag=tag, to=to)

    def reports(self, event: str) -> list[Mapping[str, Any]]:
        """What it told of one kind, oldest first."""
        return [report for report in self.process.reports if report.get("event") == event]


@asynccontextmanager
async def running_plant(
    folder: Path,
    *,
    arguments: Sequence[str] = (),
    plant: dict[str, Any] | None = None,
    scenario: dict[str, Any] | None = None,
    port: int = 0,
) -> AsyncIterator[SimulatedPlant]:
    """Start ``python -m drivers.sim`` on the shipped plant, or on ``plant``; end it afterwards."""
    file = PLANT_FILE if plant is None else write_yaml(folder / "plant.yaml", plant)
    command = [sys.executable, "-m", "drivers.sim", "--plant", str(file), "--port", str(port), *arguments]
    if scenario is not None:
        command += ["--scenario", str(write_yaml(folder / "scenario.yaml", scenario))]
    async with _running(command, folder) as simulated:
        yield simulated


@asynccontextmanager
async def running_line(
    folder: Path, *arguments: str, plant: Plant | Path | None = None, scenario: dict[str, Any] | None = None
) -> AsyncIterator[SimulatedPlant]:
    """Start ``floorhand plant run``: all links of ``plant``, each on a free port, at the speed of real time."""
    given = ["--plant", str(write_plant(folder / "plant.yaml", plant) if isinstance(plant, Plant) else plant or PLANT_FILE)]
    if scenario is not None:
        given += ["--scenario", str(write_yaml(folder / "scenario.yaml", scenario))]
    if "--port" not in arguments:
        given += ["--port", "0"]
    async with running_command(folder, "run", *given, *arguments) as simulated:
        yield simulated


@asynccontextmanager
async def running_command(folder: Path, command: str, *arguments: str) -> AsyncIterator[SimulatedPlant]:
    """Start ``floorhand plant <command>`` telling in JSON lines; return once it listens; end it afterwards."""
    async with _running([sys.executable, "-m", "appliance", "plant", command, "--json", *arguments], folder) as simulated:
        yield simulated


def write_plant(path: Path, plant: Plant) -> Path:
    """Write a plant model whose devices all have wire addresses; return its path."""
    return write_yaml(path, plant.model_dump(mode="json", exclude_unset=True))


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a YAML file; return its path."""
    path.write_text(yaml.safe_dump(dict(content), allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


@asynccontextmanager
async def _running(command: list[str], folder: Path) -> AsyncIterator[SimulatedPlant]:
    child = Child("plant", command, folder / "plant.log")
    await child.start()
    try:
        ready = await child.report(lambda r: r.get("event") == "ready", within_s=20)
        yield SimulatedPlant(child, int(ready["port"] or 0), ready["links"])
    finally:
        await child.stop(within_s=5)
