"""Waiting for whatever comes first: a future, the time, or the end of whoever waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from appliance.execution.first_of import first_of


def _futures(count: int) -> list[asyncio.Future[Any]]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def test_it_returns_with_the_first_and_leaves_the_others() -> None:
    first, other = _futures(2)
    waiting = asyncio.create_task(first_of((first, other), 60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.set_exception(ValueError("theirs"))
    await waiting
    assert not other.done() and isinstance(first.exception(), ValueError)


async def test_what_is_done_already_is_not_waited_for() -> None:
    done, other = _futures(2)
    done.set_result(None)
    await first_of((other, done))
    assert not other.done()


async def test_when_the_time_is_over_nothing_is_cancelled() -> None:
    (future,) = _futures(1)
    await first_of((future,), 0.0)
    assert not future.done()


async def test_cancelling_the_one_who_waits_leaves_the_futures_as_they_are() -> None:
    (future,) = _futures(1)
    waiting = asyncio.create_task(first_of((future,), 60.0))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not future.done()
    future.set_result("late")
    assert await future == "late"
