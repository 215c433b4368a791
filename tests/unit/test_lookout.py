"""The loop of what looks when something is due: no stir is lost, none is needed for a limit, and the ledger may be away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise

import pytest

from appliance.contracts.errors import Refused, Unavailable
from appliance.foundation.lookout import SOONEST_S, Lookout

_HOUR_S = 3600.0
_HANGS_S = 20.0


@contextlib.asynccontextmanager
async def keeping(
    lookout: Lookout, look: Callable[[], Awaitable[float | None]], away: Callable[[Unavailable], float] | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Have it look; what is awaited inside may not hang."""
    service = asyncio.create_task(lookout.run(look, away=away))
    try:
        async with asyncio.timeout(_HANGS_S):
            yield service
    finally:
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)


async def idle() -> None:
    """Let whatever is ready run, until nothing but time and stirs can bring anything."""
    for _ in range(20):
        await asyncio.sleep(0)


class Looks:
    """Counts looks. Each takes as long as ``free`` is clear, and returns the next of ``waits_s``, or raises it."""

    def __init__(self, *waits_s: float | Exception | None) -> None:
        self.waits_s = list(waits_s)
        self.begun = asyncio.Semaphore(0)
        self.free = asyncio.Event()
        self.free.set()
        self.count = 0
        self.at_s: list[float] = []

    async def look(self) -> float | None:
        self.count += 1
        self.at_s.append(asyncio.get_running_loop().time())
        self.begun.release()
        await self.free.wait()
        wait_s = self.waits_s.pop(0) if self.waits_s else None
        if isinstance(wait_s, Exception):
            raise wait_s
        return wait_s


async def test_what_comes_while_it_looks_makes_it_look_again() -> None:
    lookout, looks = Lookout(), Looks(_HOUR_S)
    looks.free.clear()
    async with keeping(lookout, looks.look):
        await looks.begun.acquire()
        lookout.notify()
        lookout.notify()
        looks.free.set()
        await looks.begun.acquire()
        await idle()
    assert looks.count == 2


async def test_what_came_before_it_began_is_seen_by_the_first_look() -> None:
    lookout, looks = Lookout(), Looks()
    lookout.notify()
    async with keeping(lookout, looks.look):
        await looks.begun.acquire()
        await idle()
    assert looks.count == 1


async def test_without_a_limit_it_waits_for_a_stir_only() -> None:
    lookout, looks = Lookout(soonest_s=0.0), Looks(None, None)
    async with keeping(lookout, looks.look):
        await looks.begun.acquire()
        await idle()
        assert looks.count == 1
        lookout.notify()
        await looks.begun.acquire()
        await idle()
    assert looks.count == 2


async def test_it_looks_when_the_limit_is_reached_and_never_sooner_than_it_may() -> None:
    looks = Looks(-1.0, 0.0, 1e-9)
    async with keeping(Lookout(), looks.look):
        for _ in range(4):
            await looks.begun.acquire()
    assert min(later - sooner for sooner, later in pairwise(looks.at_s)) >= SOONEST_S * 0.9


async def test_stirs_that_come_together_share_a_look() -> None:
    lookout, looks = Lookout(together_s=0.05), Looks()
    async with keeping(lookout, looks.look):
        for _ in range(4):
            await looks.begun.acquire()
            lookout.notify()
    assert min(later - sooner for sooner, later in pairwise(looks.at_s)) >= 0.05 * 0.9


async def test_a_limit_is_not_put_off_for_what_may_come_together() -> None:
    looks = Looks(0.0)
    async with keeping(Lookout(together_s=_HOUR_S), looks.look):
        for _ in range(2):
            await looks.begun.acquire()


async def test_while_a_look_cannot_be_had_it_tries_again_after_a_while_or_a_stir() -> None:
    told: list[str] = []

    def away(error: Unavailable) -> float:
        told.append(error.message)
        return 0.0 if len(told) == 1 else _HOUR_S

    lookout, looks = Lookout(), Looks(Unavailable("full"), Unavailable("still full"), _HOUR_S)
    async with keeping(lookout, looks.look, away):
        for _ in range(2):
            await looks.begun.acquire()
        await idle()
        assert (looks.count, told) == (2, ["full", "still full"])
        lookout.notify()
        await looks.begun.acquire()
    assert told == ["full", "still full"]


@pytest.mark.parametrize("error", [Unavailable("full"), Refused("no")])
async def test_what_nobody_takes_ends_it_and_it_can_be_run_again(error: Exception) -> None:
    lookout, looks = Lookout(), Looks(error)
    away = (lambda _: _HOUR_S) if isinstance(error, Refused) else None
    async with keeping(lookout, looks.look, away) as service:
        with pytest.raises(type(error)):
            await asyncio.shield(service)
    async with keeping(lookout, looks.look):
        for _ in range(2):
            await looks.begun.acquire()
            lookout.notify()
