"""The one suite every Modbus server and transport must pass: our simulator, libmodbus over TCP and on a serial line, pymodbus in
TLS, as RTU over TCP and over UDP. Each server is a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused, Unavailable, Uncertain
from appliance.contracts.tag import RegisterKind
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.link import ModbusLink
from tests.support.modbus_servers import SERVERS, FieldServer, field_server

COIL, HOLDING = RegisterKind.COIL, RegisterKind.HOLDING_REGISTER
TIMEOUT_S = 0.3
LATE_S = 0.45  # after the time-out and the quiet period: the hardest moment for a link whose answers carry no number


@pytest.fixture(scope="module", params=list(SERVERS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FieldServer]:
    with field_server(request.param, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(params=list(SERVERS))
def mortal_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FieldServer]:
    with field_server(request.param, tmp_path) as running:
        yield running


class Linked:
    def __init__(self, server: FieldServer, **changes: Any) -> None:
        self.changes: list[tuple[int | None, str]] = []
        self.link = ModbusLink(server.link(**changes), SystemClock(), lambda *change: self.changes.append(change))

    async def read_when_due(self, kind: RegisterKind, address: int, count: int, within_s: float = 15.0) -> tuple[int, ...]:
        """Read, waiting as long as the link itself says to wait."""
        async with asyncio.timeout(within_s):
            while True:
                try:
                    return await self.link.read(1, kind, address, count)
                except Unavailable as error:
                    await asyncio.sleep(error.retry_after_s)


@asynccontextmanager
async def linked(server: FieldServer, **changes: Any) -> AsyncIterator[Linked]:
    it = Linked(server, **changes)
    try:
        yield it
    finally:
        it.link.close()


@pytest.mark.req("F1", "F2")
@pytest.mark.field("FC-F04")
@pytest.mark.parametrize("kind", list(RegisterKind)[:4])
async def test_reading_gives_exactly_what_was_asked_for(server: FieldServer, kind: RegisterKind) -> None:
    async with linked(server) as it:
        for first, count in [(200 if kind is COIL else 0, 1), (3, 2), (0, 3), (0, 8), (7, 9), (1, 16)]:
            assert await it.link.read(1, kind, first, count) == server.held(kind, first, count)
        assert it.changes == [(None, "")]
        assert it.link.is_device_online(1)


@pytest.mark.req("F1")
async def test_a_full_request_comes_whole(server: FieldServer) -> None:
    async with linked(server) as it:
        bits = server.most_bits
        assert await it.link.read(1, COIL, 0, bits) == server.held(COIL, 0, bits)
        assert await it.link.read(1, HOLDING, 150, 125) == server.held(HOLDING, 150, 125)
        with pytest.raises(Refused, match="1 to 125"):
            await it.link.read(1, HOLDING, 0, 126)


@pytest.mark.req("F4")
async def test_writes_of_every_kind_arrive(server: FieldServer) -> None:
    async with linked(server) as it:
        write, read = it.link.write, it.link.read
        before = server.counts()["writes"]
        await write(1, HOLDING, 20, (65_535,))
        await write(1, HOLDING, 21, (0x1234,), multiple=True)
        await write(1, HOLDING, 22, (1, 2, 3))
        assert await read(1, HOLDING, 20, 5) == (65_535, 0x1234, 1, 2, 3)
        await write(1, HOLDING, 25, tuple(range(123)))
        assert await read(1, HOLDING, 25, 123) == tuple(range(123))
        await write(1, COIL, 20, (1,))
        await write(1, COIL, 21, (0,))
        await write(1, COIL, 22, (1,), multiple=True)
        await write(1, COIL, 23, (0, 1, 1, 0, 0, 0, 0, 1, 1))
        assert await read(1, COIL, 20, 12) == (1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1)
        assert server.counts()["writes"] - before == 8


@pytest.mark.req("F4")
async def test_a_mask_write_changes_the_masked_bits_alone(server: FieldServer) -> None:
    async with linked(server) as it:
        await it.link.write(1, HOLDING, 10, (0x0012,))
        await it.link.mask_write(1, 10, and_mask=0xFFF2, or_mask=0x0025)  # the example of the specification, section 6.16
        assert await it.link.read(1, HOLDING, 10, 1) == (0x0017,)


@pytest.mark.req("F4")
@pytest.mark.parametrize("code", [1, 2, 3])
async def test_what_the_device_refuses_is_refused_and_not_written(server: FieldServer, code: int) -> None:
    async with linked(server) as it:
        before = await it.link.read(1, HOLDING, 11, 1)
        server.do("refuse", code=code)
        with pytest.raises(Refused) as refused:
            await it.link.read(1, HOLDING, 11, 1)
        assert refused.value.facts["exception_code"] == code
        server.do("refuse", code=code)
        with pytest.raises(Refused) as refused:
            await it.link.write(1, HOLDING, 11, (4321,))
        assert refused.value.facts["exception_code"] == code
        assert await it.link.read(1, HOLDING, 11, 1) == before
        assert it.changes == [(None, "")], "a device that says no is there"


async def test_an_address_that_is_not_there_is_refused(server: FieldServer) -> None:
    async with linked(server) as it:
        with pytest.raises(Refused, match="ILLEGAL DATA ADDRESS"):
            await it.link.read(1, HOLDING, 60_000, 1)


@pytest.mark.req("F1")
@pytest.mark.field("FC-F06")
async def test_silence_is_said_once_and_so_is_its_end(server: FieldServer) -> None:
    async with linked(server) as it:
        await it.link.read(1, HOLDING, 0, 1)
        server.do("silent", seconds=2.2)  # on RTU an answer may be owed for four time-outs
        for _ in range(2):
            with pytest.raises(Unavailable) as silence:
                await it.link.read(1, HOLDING, 0, 1)
            assert not it.link.is_online
            assert not it.link.is_device_online(1)
            await asyncio.sleep(silence.value.retry_after_s)
        await it.read_when_due(HOLDING, 0, 1)
        assert it.changes == [(None, ""), (None, "no answer within 0.3 s"), (None, "")]
        assert server.sockets() == 1


@pytest.mark.req("F1")
@pytest.mark.field("FC-F09")
async def test_a_late_answer_is_never_taken_for_the_next(server: FieldServer) -> None:
    async with linked(server) as it:
        wanted = [server.held(HOLDING, first, 2) for first in range(160, 170)]
        if server.holds_zeros:
            for first in range(160, 172):
                await it.link.write(1, HOLDING, first, (7 * first + 1,))
            wanted = [(7 * first + 1, 7 * first + 8) for first in range(160, 170)]
        server.do("hold_read_reply", seconds=LATE_S)
        with pytest.raises(Unavailable):
            await it.link.read(1, HOLDING, 200, 2)
        got = [await it.read_when_due(HOLDING, first, 2) for first in range(160, 170)]
        assert got == wanted


@pytest.mark.req("F1")
@pytest.mark.field("FC-F09")
async def test_a_late_answer_is_never_taken_for_the_next_after_a_second_try(server: FieldServer) -> None:
    async with linked(server, retries=2) as it:
        await it.link.read(1, HOLDING, 0, 1)
        server.do("hold_read_reply", seconds=LATE_S)
        assert await it.link.read(1, HOLDING, 201, 2) == server.held(HOLDING, 201, 2)
        got = [await it.read_when_due(HOLDING, first, 2) for first in range(202, 212)]
        assert got == [server.held(HOLDING, first, 2) for first in range(202, 212)]
        assert it.changes == [(None, "")]


@pytest.mark.req("F4")
async def test_a_write_whose_reply_is_lost_is_uncertain_and_happened_once(server: FieldServer) -> None:
    async with linked(server, retries=3) as it:
        await it.link.read(1, HOLDING, 0, 1)
        before = server.counts()["writes"]
        server.do("hold_write_reply", seconds=LATE_S)
        with pytest.raises(Uncertain, match="no answer"):
            await it.link.write(1, HOLDING, 12, (77,))
        assert await it.read_when_due(HOLDING, 12, 1) == (77,)
        assert server.counts()["writes"] - before == 1


@pytest.mark.req("F1")
@pytest.mark.field("FC-F07", "FC-F08")
async def test_a_restarted_server_is_found_again_over_one_socket(mortal_server: FieldServer) -> None:
    server = mortal_server
    async with linked(server) as it:
        await it.link.read(1, HOLDING, 0, 1)
        server.kill()
        tries = 0
        async with asyncio.timeout(15):
            while tries < 2:
                try:
                    await it.link.read(1, HOLDING, 0, 1)
                except Unavailable as error:
                    tries += 1
                    await asyncio.sleep(error.retry_after_s)
        server.start()
        await it.read_when_due(HOLDING, 0, 1)
        assert [bool(why) for _, why in it.changes] == [False, True, False], it.changes
        assert server.sockets() == 1
        assert server.counts().get("connections", 1) <= 1
