"""Reading 5,000 tags over 20 units: neighbours in one request, against one request a tag.

Both by the field bus, from declared tag to engineering value, over one connection to a server in C.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from bench.figures import Findings
from bench.plants import tag_plant
from bench.servers import CannotMeasure, libmodbus_server
from drivers.modbus.bus import ModbusBus


async def measure_tags(findings: Findings, folder: Path, *, rounds: int) -> None:
    """Fill in ``tags_s.merged`` and ``tags_s.single``."""
    async with libmodbus_server(folder) as port:
        plant = Plant.model_validate(tag_plant(port))
        bus = ModbusBus(plant, SystemClock(), Degraded())
        try:
            keys = list(plant.tag_by_key)
            await _read(bus, [keys])  # connects, and learns what may be merged
            merged = [await _read(bus, [keys]) for _ in range(rounds)]
            single = [await _read(bus, [[key] for key in keys]) for _ in range(rounds)]
        finally:
            await bus.close()
    figures = {"merged": round(median(merged)), "single": round(median(single))}
    findings.figures["tags_s"] = figures
    findings.compare("tags_merged_vs_single", figures["merged"], figures["single"])


async def _read(bus: ModbusBus, batches: list[list[str]]) -> float:
    """Read every batch; return tags a second. Raises CannotMeasure: a tag could not be read."""
    started_s = time.monotonic()
    count = 0
    for keys in batches:
        readings = await bus.read(keys)
        for reading in readings.values():
            if reading.quality is not Quality.GOOD:
                raise CannotMeasure(f"{reading.tag} is {reading.quality}: {reading.why}")
        count += len(readings)
    return count / (time.monotonic() - started_s)
