"""A Modbus client of bytes: sends what it is told and shows what comes, so that nothing is put right on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

READ_WORDS, READ_COILS, WRITE_REGISTER = 3, 1, 6


def mbap(pdu: bytes, *, transaction: int = 1, device_id: int = 1) -> bytes:
    """Return the Modbus TCP frame of a PDU."""
    return transaction.to_bytes(2, "big") + b"\0\0" + (len(pdu) + 1).to_bytes(2, "big") + bytes([device_id]) + pdu


def words(function: int, *numbers: int) -> bytes:
    """Return a PDU of a function code and 16-bit numbers."""
    return bytes([function]) + b"".join(number.to_bytes(2, "big") for number in numbers)


class RawClient:
    """One TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def ask(self, pdu: bytes, *, transaction: int = 1, device_id: int = 1) -> bytes:
        """Send a request and return the next bytes that come; empty: the connection ended.

        Raises:
            TimeoutError: nothing came within two seconds.
        """
        await self.send(mbap(pdu, transaction=transaction, device_id=device_id))
        return await self.receive(2.0)

    async def receive(self, within_s: float) -> bytes:
        """Return the next bytes that come.

        Raises:
            TimeoutError: nothing came.
        """
        async with asyncio.timeout(within_s):
            return await self._reader.read(4096)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawClient]:
    """Connect to a loopback port; close afterwards."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):  # reset is among what is tested
            await writer.wait_closed()
