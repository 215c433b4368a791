"""The shipped plant model, and the simulated plant as a process of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
    """A running simulated plant. ``process.order(do=…)`` and ``process.report(…)`` talk to it."""

    process: Child
    port: int

    async def counts(self) -> dict[str, Any]:
        """Ask what was published and written so far."""
        since = len(self.process.reports)
        await self.process.order(do="counts")
        return dict(await self.process.report(lambda r: r.get("event") == "counts", within_s=5, since=since))

    async def do(self, order: str, **details: Any) -> None:
        """Give an order and wait until it was carried out."""
        since = len(self.process.reports)
        await self.process.order(do=order, **details)
        await self.process.report(lambda r: r.get("event") == "done" and r.get("do") == order, within_s=5, since=since)


@asynccontextmanager
async def running_plant(
    folder: Path, *, arguments: Sequence[str] = (), plant: dict[str, Any] | None = None, port: int = 0
) -> AsyncIterator[SimulatedPlant]:
    """Start ``python -m drivers.sim`` on the shipped plant, or on ``plant``; end it afterwards."""
    file = PLANT_FILE
    if plant is not None:
        file = folder / "plant.yaml"
        file.write_text(yaml.safe_dump(plant), encoding="utf-8")
    command = [sys.executable, "-m", "drivers.sim", "--plant", str(file), "--port", str(port), *arguments]
    child = Child("plant", command, folder / "plant.log")
    await child.start()
    try:
        ready = await child.report(lambda r: r.get("event") == "ready", within_s=20)
        yield SimulatedPlant(child, int(ready["port"]))
    finally:
        await child.stop(within_s=5)
