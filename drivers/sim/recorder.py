"""Records a real line: reads every Modbus tag of the plant at a fixed rate through the appliance's own bus. It never writes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from math import ceil
from pathlib import Path

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality
from appliance.contracts.tag import MQTT_LINK
from appliance.foundation.supervisor import Degraded
from drivers.modbus.bus import ModbusBus
from drivers.sim.recording import RecordingFile

Report = Callable[..., None]

_TELL_EVERY_S = 1.0


async def record(plant: Plant, path: Path, seconds: float, every_s: float, clock: Clock, report: Report) -> int:
    """Record for ``seconds``, or until SIGINT or SIGTERM; return the number of samples. A sample that takes longer than
    ``every_s`` is followed by the next whole one: none is made up.

    Raises:
        Refused: the plant has no Modbus tag.
        ConfigError: the file cannot be made, or is there already.
    """
    keys = [tag.key for tag in plant.tags if tag.link != MQTT_LINK]
    if not keys:
        raise Refused("the plant has no tag to be read over Modbus")
    stopped = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    file = RecordingFile(path, plant, clock.utc(), every_s)
    bus = ModbusBus(plant, clock, Degraded())
    began_ns, told_s, place = clock.monotonic_ns(), 0.0, 0
    try:
        while place * every_s <= seconds and not await _stopped_before(stopped, began_ns, place * every_s, clock):
            at_s = (clock.monotonic_ns() - began_ns) / 1e9
            readings = (await bus.read(keys)).values()
            file.add(at_s, readings)
            elapsed_s = (clock.monotonic_ns() - began_ns) / 1e9
            place = max(place + 1, ceil(elapsed_s / every_s))
            if elapsed_s - told_s >= _TELL_EVERY_S:
                told_s = elapsed_s
                unread = sum(1 for each in readings if each.quality is Quality.STALE or not each.raw)
                report(event="recorded", elapsed_s=round(elapsed_s, 3), seconds=seconds, samples=file.samples, unread=unread)
    finally:
        await bus.close()
        file.close()
    return file.samples


async def _stopped_before(stopped: asyncio.Event, began_ns: int, at_s: float, clock: Clock) -> bool:
    """Wait until ``at_s``; return whether the end came first."""
    wait_s = at_s - (clock.monotonic_ns() - began_ns) / 1e9
    try:
        async with asyncio.timeout(max(0.0, wait_s)):
            await stopped.wait()
    except TimeoutError:
        pass
    return stopped.is_set()
