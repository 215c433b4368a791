"""Finishing a commit that must not be left half-way when its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def carry_through(work: Awaitable[T]) -> T:
    """Run ``work`` to its end even if the caller is cancelled meanwhile; the cancellation then passes on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        failed = None if task.cancelled() else task.exception()
        raise cancelled from failed
    return task.result()
