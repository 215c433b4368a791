"""A slave at the other end of a serial line, byte by byte: slow, late and trickling as a test wants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pymodbus.framer import FramerRTU

_REQUEST_BYTES = 8  # reads only


class RawRtu:
    """Answers every read in order with its address plus 100 for each register, ``delays_s`` after the one before, or at once.

    The answers of ``trickling`` units come byte by byte, ``byte_s`` apart. Units in ``silent`` do not answer.
    """

    def __init__(self, port: int) -> None:
        self.delays_s: list[float] = []
        self.silent: set[int] = set()
        self.trickling: set[int] = set()
        self.byte_s = 0.0
        self.requests: list[bytes] = []
        self._port = port
        self._buffer = b""
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()

    def take(self) -> None:
        """Read what came."""
        self._buffer += os.read(self._port, 256)
        while len(self._buffer) >= _REQUEST_BYTES:
            self.requests.append(self._buffer[:_REQUEST_BYTES])
            self._queue.put_nowait(self._buffer[:_REQUEST_BYTES])
            self._buffer = self._buffer[_REQUEST_BYTES:]

    async def run(self) -> None:
        """Answer one request after the other."""
        while True:
            request = await self._queue.get()
            await asyncio.sleep(self.delays_s.pop(0) if self.delays_s else 0.0)
            if request[0] in self.silent:
                continue
            first, count = int.from_bytes(request[2:4], "big"), int.from_bytes(request[4:6], "big")
            words = b"".join((100 + first + n).to_bytes(2, "big") for n in range(count))
            frame = request[:2] + bytes([len(words)]) + words
            frame += FramerRTU.compute_CRC(frame).to_bytes(2, "big")
            step = 1 if request[0] in self.trickling else len(frame)
            for at in range(0, len(frame), step):
                os.write(self._port, frame[at : at + step])
                await asyncio.sleep(self.byte_s if step == 1 else 0.0)


@asynccontextmanager
async def raw_rtu(device: Path) -> AsyncIterator[RawRtu]:
    """Serve at one end of a serial line."""
    port = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    slave = RawRtu(port)
    loop = asyncio.get_running_loop()
    loop.add_reader(port, slave.take)
    running = asyncio.create_task(slave.run())
    try:
        yield slave
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        loop.remove_reader(port)
        os.close(port)
