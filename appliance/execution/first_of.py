"""Waiting for whatever comes first. Every step waits twice; ``asyncio.wait`` takes half as long again, for sets nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def first_of(futures: Collection[asyncio.Future[Any]], within_s: float | None = None) -> None:
    """Return as soon as one of them is done, or when the time is over. They are left as they are, also when this is cancelled."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    timer = None if within_s is None else loop.call_later(within_s, wake)
    for future in futures:
        future.add_done_callback(wake)
    try:
        await woken
    finally:
        if timer is not None:
            timer.cancel()
        for future in futures:
            future.remove_done_callback(wake)
