"""A tiny Modbus TCP server that answers whatever a test wants, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

Answer = Callable[[bytes], bytes | None]
"""A request PDU (function code first) to a response PDU; None stays silent; empty bytes closes the connection."""


class RawPlc:
    """Counts connections and requests; ``answer`` may be changed while it runs."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0
        self.device_id_shift = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                header = await reader.readexactly(7)
                pdu = await reader.readexactly(int.from_bytes(header[4:6], "big") - 1)
                self.requests.append(pdu)
                response = self.answer(pdu)
                if response == b"":
                    return
                if response is not None:
                    device_id = (header[6] + self.device_id_shift) % 256
                    writer.write(header[:4] + (len(response) + 1).to_bytes(2, "big") + bytes([device_id]) + response)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def raw_plc(answer: Answer) -> AsyncIterator[RawPlc]:
    """Run a raw server on a free loopback port."""
    plc = RawPlc(answer)
    handlers: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            await plc.serve(reader, writer)
        finally:
            handlers.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    plc.port = int(server.sockets[0].getsockname()[1])
    try:
        yield plc
    finally:
        server.close()
        await server.wait_closed()
        for task in list(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


def registers(*words: int) -> bytes:
    """The answer to a read of holding registers, byte count as it should be."""
    return bytes([3, 2 * len(words)]) + b"".join(word.to_bytes(2, "big") for word in words)
