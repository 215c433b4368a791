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
