"""Waiting for a condition of another process, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str, within_s: float = 10.0) -> None:
    """Return when ``condition()`` is true; fail saying ``what`` did not happen."""
    try:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110 - the condition belongs to another process or thread, which sets no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}") from None


async def pause(pause_s: float) -> None:
    """Return when a pause is over that the product itself asked for (``Unavailable.retry_after_s``)."""
    clock = asyncio.get_running_loop().time
    due_s = clock() + pause_s
    while (left_s := due_s - clock()) > 0:  # noqa: ASYNC110 - it is time itself that is waited for
        await asyncio.sleep(left_s)
