"""What ``drivers/modbus/connection.py`` relies on in pymodbus: read it when one of these fails after an update."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

import pytest
from pymodbus.client import AsyncModbusTcpClient

from tests.support.raw_plc import raw_plc
from tests.support.waiting import until


async def test_cancelled_error_passes_through() -> None:
    """3.12 to 3.15 turned it into their own exception, and a poll loop outlived its cancellation."""
    assert tuple(int(part) for part in version("pymodbus").split(".")[:3]) >= (3, 16, 1)
    async with raw_plc(lambda _: None) as plc:
        client = AsyncModbusTcpClient("127.0.0.1", port=plc.port, timeout=5, retries=0, reconnect_delay=0)
        await client.connect()
        request = asyncio.ensure_future(client.read_holding_registers(0, count=1))
        await until(lambda: plc.requests, "the request arrived")
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        client.close()


async def test_without_reconnect_delay_it_does_not_reconnect_by_itself() -> None:
    async with raw_plc(lambda _: b"") as plc:
        lost = asyncio.Event()
        client = AsyncModbusTcpClient(
            "127.0.0.1",
            port=plc.port,
            timeout=0.2,
            retries=0,
            reconnect_delay=0,
            trace_connect=lambda up: None if up else lost.set(),
        )
        await client.connect()
        request = asyncio.ensure_future(client.read_holding_registers(0, count=1))
        async with asyncio.timeout(5):
            await lost.wait()
        await asyncio.gather(request, return_exceptions=True)
        assert not client.connected
        assert client.ctx.reconnect_task is None
        assert plc.connections == 1
        client.close()


async def test_short_answers_pass_for_good_ones() -> None:
    """The reason why the adapter counts: should pymodbus count one day, our check is only redundant."""
    async with raw_plc(lambda _: b"\x03\x02\x00\x07") as plc:
        client = AsyncModbusTcpClient("127.0.0.1", port=plc.port, timeout=1, retries=0, reconnect_delay=0)
        await client.connect()
        answer = await client.read_holding_registers(0, count=4)
        assert not answer.isError()
        assert list(answer.registers) == [7]
        client.close()
