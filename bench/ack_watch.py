"""A TCP relay in front of the broker that sees when the core acknowledges a message, on the wire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

_PUBACK = 4  # MQTT 5.0, section 2.1.2, table 2-1
_READ_BYTES = 65_536


class PacketSplitter:
    """Cuts a stream of bytes into MQTT packets and tells their types."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[int]:
        """Yield the type of each packet that ``data`` completes."""
        self._rest += data
        while (length := self._packet_bytes()) is not None and len(self._rest) >= length:
            yield self._rest[0] >> 4
            self._rest = self._rest[length:]

    def _packet_bytes(self) -> int | None:
        """Return the length of the first packet with its header; None while the header is not whole (section 1.5.5)."""
        length = 0
        for position, byte in enumerate(self._rest[1:5]):
            length |= (byte & 0x7F) << 7 * position
            if not byte & 0x80:
                return 2 + position + length
        return None


class AckWatch:
    """Relays connections to ``broker_port``. ``acked_ns`` holds the moment of each acknowledgement that passed."""

    def __init__(self, broker_port: int) -> None:
        self.port = 0
        self.acked_ns: list[int] = []
        self._broker_port = broker_port
        self._changed = asyncio.Condition()

    async def wait(self, count: int, within_s: float) -> bool:
        """Return whether ``count`` acknowledgements have passed within ``within_s``."""
        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: len(self.acked_ns) >= count)
        except TimeoutError:
            return False
        return True

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the core."""
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, to_broker, PacketSplitter()))
                group.create_task(self._pass_on(from_broker, writer, None))
        finally:
            to_broker.close()
            writer.close()

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, packets: PacketSplitter | None) -> None:
        try:
            while data := await source.read(_READ_BYTES):
                sink.write(data)
                if packets is not None:
                    await self._count(sum(1 for kind in packets.feed(data) if kind == _PUBACK))
                await sink.drain()
        except ConnectionError:
            pass  # one end has gone; the other is told below
        sink.close()

    async def _count(self, acks: int) -> None:
        if acks:
            async with self._changed:
                self.acked_ns += [time.monotonic_ns()] * acks
                self._changed.notify_all()


@asynccontextmanager
async def watching_acks(broker_port: int) -> AsyncIterator[AckWatch]:
    """Run a relay on a free port."""
    watch = AckWatch(broker_port)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(watch.relay(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    watch.port = int(server.sockets[0].getsockname()[1])
    try:
        yield watch
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
