"""A tiny Modbus TCP server that answers whatever a test wants, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

Answer = Callable[[bytes], bytes | None]
"""A request PDU (function code first) to a response PDU; None stays silent; empty bytes closes the connection."""


class RawPlc:
    """Counts connections and requests; ``answer`` may be changed while it runs.

    ``silent_units`` get no answer, as behind a gateway. ``late`` is sent before the next answer, ``frames`` are the requests with
    their headers. With ``chunk`` answers come in pieces of so many bytes.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.frames: list[bytes] = []
        self.silent_units: set[int] = set()
        self.late: list[bytes] = []
        self.chunk = 0
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
                self.frames.append(header + pdu)
                response = None if header[6] in self.silent_units else self.answer(pdu)
                if response == b"":
                    return
                if response is not None:
                    device_id = (header[6] + self.device_id_shift) % 256
                    await self._send(writer, b"".join(self.late) + framed(header, device_id, response))
                    self.late.clear()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        for at in range(0, len(data), self.chunk or len(data)):
            writer.write(data[at : at + (self.chunk or len(data))])
            await writer.drain()
            await asyncio.sleep(0)


def framed(header: bytes, device_id: int, pdu: bytes) -> bytes:
    """The answer to the request with this header."""
    return header[:4] + (len(pdu) + 1).to_bytes(2, "big") + bytes([device_id]) + pdu


@asynccontextmanager
async def raw_plc(answer: Answer, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[RawPlc]:
    """Run a raw server, on a free loopback port unless told otherwise."""
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

    server = await asyncio.start_server(accept, host, port)
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
