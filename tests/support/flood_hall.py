"""A hall whose plant has hundreds of alarms: bursts of them, and waiting until everything that comes of them has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from appliance.alarms.settings import AlarmSettings
from appliance.contracts.alarm import AlarmEvent
from appliance.contracts.delivery import PRIORITY_FLOOD_TOLD
from tests.support.floods import flood_plant, raised
from tests.support.hall import Hall, open_hall

SETTINGS = AlarmSettings(settle_s=0.05, longest_settle_s=0.2)
FIRST = "Machine 0 fault 0"


@asynccontextmanager
async def flooded(tmp_path: Path, **how: Any) -> AsyncIterator[Hall]:
    """Open a hall with the flood plant."""
    async with open_hall(tmp_path, plant=flood_plant(), alarms=SETTINGS, **how) as hall:
        yield hall


@asynccontextmanager
async def serving(*services: Any) -> AsyncIterator[None]:
    """Let services run meanwhile."""
    tasks = [asyncio.create_task(service.run()) for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def take(hall: Hall, events: Sequence[AlarmEvent]) -> None:
    """Hand events in, all at once; return when everything that came of them has ended."""
    await asyncio.gather(*(hall.alarm_door.admit(event) for event in events))
    await at_rest(hall)


async def at_rest(hall: Hall) -> None:
    """Wait until every admission has ended."""
    async with asyncio.timeout(20), hall.conductor.ended:
        while await hall.bench.rows("SELECT 1 FROM admission WHERE status <> 'terminal'"):
            await hall.conductor.ended.wait()


async def summaries(hall: Hall) -> list[str]:
    """What was told of floods, without what was abandoned."""
    rows = await hall.bench.rows(
        "SELECT text FROM delivery WHERE priority = ? AND status <> 'abandoned' ORDER BY seq", PRIORITY_FLOOD_TOLD
    )
    return [row["text"] for row in rows]


async def burst(hall: Hall, count: int) -> list[str]:
    """The first alarm, announced at once; then the others together. Returns what was said of the flood."""
    await take(hall, [raised(hall.bench, 0)])
    await take(hall, [raised(hall.bench, number) for number in range(1, count)])
    return await summaries(hall)


async def until_told(hall: Hall, count: int) -> None:
    """Wait until so much was told of floods, and everything has ended."""
    async with asyncio.timeout(10), hall.conductor.ended:
        while len(await summaries(hall)) < count:
            await hall.conductor.ended.wait()
    await at_rest(hall)
