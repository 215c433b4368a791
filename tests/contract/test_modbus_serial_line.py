"""A serial line whose slaves are late: RTU answers carry no number, so nothing but order and silence keeps them apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Unavailable
from appliance.contracts.link import Link
from appliance.contracts.tag import RegisterKind
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.link import ModbusLink
from tests.support.modbus_servers import open_handles, serial_line
from tests.support.raw_rtu import RawRtu, raw_rtu
from tests.support.waiting import until, within

HOLDING = RegisterKind.HOLDING_REGISTER
LATE, LIVE = 2, 1
TIMEOUT_S = 0.5


class Linked:
    def __init__(self, slave: RawRtu, device: Path, **changes: Any) -> None:
        self.slave = slave
        self.device = device
        serial = {"device": str(device), "parity": "N"}
        told = {"id": "l", "protocol": "rtu", "serial": serial, "timeout_s": TIMEOUT_S, "retries": 0, "quiet_s": 0.05}
        self.link = ModbusLink(Link.model_validate(told | changes), SystemClock(), lambda *_: None)

    async def read(self, device_id: int, address: int) -> int:
        (value,) = await self.link.read(device_id, HOLDING, address, 1)
        return value

    async def read_when_due(self, device_id: int, address: int) -> int:
        while True:
            try:
                return await self.read(device_id, address)
            except Unavailable as error:
                await asyncio.sleep(error.retry_after_s)


@asynccontextmanager
async def line(folder: Path, **changes: Any) -> AsyncIterator[Linked]:
    with serial_line(folder) as (ours, its):
        async with raw_rtu(its) as slave:
            it = Linked(slave, ours, **changes)
            try:
                yield it
            finally:
                it.link.close()


@pytest.mark.req("F1")
@pytest.mark.field("FC-F09")
@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_second_try_leaves_no_answer_behind_for_the_next_request(tmp_path: Path, is_shared: bool) -> None:
    """The slave answers both tries, each late: taken one for one, every later answer would be that of the request before."""
    async with line(tmp_path, retries=2) as it:
        assert await it.read(LATE, 0) == 100
        if is_shared:
            assert await it.read(LIVE, 0) == 100
        it.slave.delays_s = [TIMEOUT_S + 0.1, 0.05, 0.0]
        assert await it.read(LATE, 1) == 101
        assert [await it.read_when_due(LATE, address) for address in range(2, 6)] == [102, 103, 104, 105]


@pytest.mark.req("F1")
@pytest.mark.field("FC-F09")
@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("late_timeouts", [1.5, 2.3, 4.5])
async def test_a_second_try_is_not_answered_by_the_first_however_late_that_comes(
    tmp_path: Path, is_shared: bool, late_timeouts: float
) -> None:
    """The first answer, taken for the second try's, would leave the second one to the next request: a wrong value, and good."""
    async with line(tmp_path, retries=1) as it:
        assert await it.read(LATE, 0) == 100
        if is_shared:
            assert await it.read(LIVE, 0) == 100
        it.slave.delays_s = [late_timeouts * TIMEOUT_S, 0.75 * TIMEOUT_S]
        assert await it.read(LATE, 1) == 101
        assert [await it.read_when_due(LATE, address) for address in range(2, 5)] == [102, 103, 104]


@pytest.mark.req("F1")
@pytest.mark.field("FC-F09")
async def test_an_answer_after_the_request_was_given_up_is_not_taken_for_the_next(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.slave.delays_s = [TIMEOUT_S + 0.15]
        with pytest.raises(Unavailable):
            await it.read(LATE, 1)
        assert await it.read_when_due(LATE, 2) == 102
        it.slave.delays_s = [0.1]
        reading = asyncio.create_task(it.read(LATE, 3))
        await until(lambda: it.slave.requests[-1][3] == 3, "asked")
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert await it.read_when_due(LATE, 4) == 104
        assert open_handles(it.device) == 1


@pytest.mark.req("F1")
@pytest.mark.field("FC-F09", "FC-F10")
async def test_nobody_else_is_asked_into_a_late_answer(tmp_path: Path) -> None:
    async with line(tmp_path, quiet_s=0.3) as it:  # a busy machine may pause between two bytes
        assert await it.read(LIVE, 0) == 100
        it.slave.trickling, it.slave.byte_s = {LATE}, 0.03
        it.slave.delays_s = [TIMEOUT_S - 0.1]  # it begins in time and ends too late
        with pytest.raises(Unavailable):
            await it.read(LATE, 1)
        assert await it.read(LIVE, 2) == 102
        assert it.link.is_device_online(LIVE)


@pytest.mark.req("F1")
async def test_a_silent_slave_costs_the_others_no_new_opening_of_the_line(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        assert await it.read(LIVE, 0) == 100
        it.slave.silent = {LATE}
        with pytest.raises(Unavailable, match="no answer"):
            await it.read(LATE, 1)
        assert [await it.read(LIVE, address) for address in range(3)] == [100, 101, 102]
        assert not it.link.is_device_online(LATE)
        assert open_handles(it.device) == 1


@pytest.mark.req("F1")
@pytest.mark.field("FC-F09", "FC-F10")
async def test_a_unit_is_asked_again_as_soon_as_its_late_answer_came_and_others_meanwhile(tmp_path: Path) -> None:
    async with line(tmp_path, timeout_s=0.5, retries=1) as it:
        assert [await it.read(LIVE, 0), await it.read(LATE, 0)] == [100, 100]
        it.slave.delays_s = [0.7]
        with within(2):  # not the four time-outs of one that says nothing
            assert await asyncio.gather(it.read(LATE, 1), it.read(LIVE, 2)) == [101, 102]
