"""Finishing a commit that must not be left half-way when its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from appliance.contracts.errors import FloorhandError
from appliance.execution.first_of import first_of

T = TypeVar("T")


async def carry_through(work: Awaitable[T]) -> T:
    """Run ``work`` to its end even if the caller is cancelled meanwhile; the cancellation then passes on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await first_of((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        failed = None if task.cancelled() else task.exception()
        raise cancelled from failed
    return task.result()


async def record_in_passing(work: Awaitable[object], passing: BaseException) -> None:
    """Run ``work`` to its end while ``passing`` is on its way out: what cannot be recorded must not take its place.

    A cancellation that became "the disk is full" would be waited out by whoever asks the ledger again, and its task never end.

    Raises:
        BaseException: ``passing``, from what kept ``work`` from being recorded.
    """
    try:
        await carry_through(work)
    except FloorhandError as error:
        raise passing from error
