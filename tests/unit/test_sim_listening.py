"""Where a simulated PLC listens: its end, with somebody still connected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from drivers.sim.listening import Endpoint, Listener, Wire


class Echo:
    """Answers with what it gets."""

    def opened(self, wire: Wire) -> Callable[[bytes], Awaitable[bool]]:
        async def take(data: bytes) -> bool:
            await wire.send(data)
            return True

        return take


async def test_closing_with_a_client_connected_is_no_error() -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    listener = Listener(Endpoint(), Echo())
    endpoint = await listener.open()
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    await listener.close()
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
    assert errors == []


async def test_being_cancelled_with_a_client_connected_is_no_error() -> None:
    """As when the loop that runs everything ends: every task is cancelled."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    listener = Listener(Endpoint(), Echo())
    endpoint = await listener.open()
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    for task in listener._tasks:
        task.cancel()
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
    await listener.close()
    assert errors == []
