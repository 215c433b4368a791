"""Whether the coordinator can be reached: one entry and one word per change."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from appliance.contracts.operation import OperationLane
from appliance.coordination.availability import Availability
from appliance.foundation.supervisor import Degraded
from tests.support.ledger import Bench, open_bench

pytestmark = pytest.mark.req("C9")


def of(bench: Bench) -> tuple[Availability, Degraded, list[tuple[bool, str]]]:
    degraded, said = Degraded(), list[tuple[bool, str]]()
    availability = Availability(bench.database, bench.clock, degraded)
    availability.listeners.append(lambda online, why: said.append((online, why)))
    return availability, degraded, said


async def test_one_miss_is_noise_and_two_are_a_loss(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        availability, degraded, said = of(bench)
        await availability.reached()
        await availability.missed("timeout")
        assert availability.is_online
        await availability.reached()
        await availability.missed("timeout")
        assert availability.is_online
        await availability.missed("refused")
        assert not availability.is_online
        assert degraded.reasons == {"coordinator": "refused"}
        for _ in range(5):
            await availability.missed("refused")
        await availability.reached()
        await availability.reached()
        assert said == [(False, "refused"), (True, "")]
        assert degraded.reasons == {}
        assert await bench.kinds(OperationLane.P1) == ["link.lost", "link.back"]


async def test_a_first_contact_that_works_is_no_return(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        availability, _, said = of(bench)
        assert availability.is_online
        await availability.reached()
        assert said == []
        assert await bench.kinds(OperationLane.P1) == []


async def test_a_restart_takes_up_the_loss_in_the_log(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        before, _, _ = of(bench)
        await before.missed("x")
        await before.missed("x")
        after, degraded, said = of(bench)
        await after.load()
        assert not after.is_online
        assert "coordinator" in degraded.reasons
        await after.missed("x")
        assert said == []
        await after.reached()
        assert said == [(True, "")]
        assert await bench.kinds(OperationLane.P1) == ["link.lost", "link.back"]
        again, _, _ = of(bench)
        await again.load()
        assert again.is_online


async def test_words_from_two_sides_at_once_make_one_entry(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        availability, _, said = of(bench)
        await asyncio.gather(*(availability.missed("x") for _ in range(10)))
        waiting = asyncio.create_task(availability.until_online())
        await asyncio.gather(*(availability.reached() for _ in range(10)))
        await asyncio.wait_for(waiting, 20)
        assert [online for online, _ in said] == [False, True]
        assert await bench.kinds(OperationLane.P1) == ["link.lost", "link.back"]
