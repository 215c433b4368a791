"""A Modbus TCP gateway of several devices with registers, that counts what it is asked and can fall silent or slow by device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

_COIL, _DISCRETE, _HOLDING, _INPUT = 1, 2, 3, 4
_ILLEGAL_FUNCTION, _ILLEGAL_ADDRESS = 1, 2


class Asked(NamedTuple):
    """One request: the first number after the function is ``address``, the second ``count`` (or the value written)."""

    device: int
    function: int
    address: int
    count: int


@dataclass(slots=True)
class RegisterPlc:
    """``tables`` maps (device, reading function) to address -> raw value; other addresses do not exist."""

    tables: dict[tuple[int, int], dict[int, int]]
    silent: set[int] = field(default_factory=set)
    delay_s: dict[int, float] = field(default_factory=dict)
    knows_mask_write: bool = True
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    def asked_of(self, device: int) -> list[Asked]:
        """Return what one device was asked."""
        return [each for each in self.asked if each.device == device]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends."""
        self.connections += 1
        try:
            while True:
                header = await reader.readexactly(7)
                pdu = await reader.readexactly(int.from_bytes(header[4:6], "big") - 1)
                device = header[6]
                self.asked.append(Asked(device, pdu[0], int.from_bytes(pdu[1:3], "big"), int.from_bytes(pdu[3:5], "big")))
                if device in self.silent:
                    continue
                if device in self.delay_s:
                    await asyncio.sleep(self.delay_s[device])
                answer = self._answer(device, pdu)
                writer.write(header[:4] + (len(answer) + 1).to_bytes(2, "big") + header[6:7] + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, device: int, pdu: bytes) -> bytes:
        function, address, count = pdu[0], int.from_bytes(pdu[1:3], "big"), int.from_bytes(pdu[3:5], "big")
        if function == 22 and not self.knows_mask_write:
            return bytes([function | 0x80, _ILLEGAL_FUNCTION])
        table = self.tables.get((device, {5: _COIL, 15: _COIL}.get(function, _HOLDING if function > 4 else function)), {})
        size = count if function in (1, 2, 3, 4, 15, 16) else 1
        if not all(each in table for each in range(address, address + size)):
            return bytes([function | 0x80, _ILLEGAL_ADDRESS])
        if function in (_COIL, _DISCRETE):
            bits = sum(table[address + n] << n for n in range(count))
            return bytes([function, (count + 7) // 8]) + bits.to_bytes((count + 7) // 8, "little")
        if function in (_HOLDING, _INPUT):
            return bytes([function, 2 * count]) + b"".join(table[address + n].to_bytes(2, "big") for n in range(count))
        if function == 5:
            table[address] = int(count == 0xFF00)
        elif function == 6:
            table[address] = count
        elif function == 22:
            table[address] = (table[address] & count) | (int.from_bytes(pdu[5:7], "big") & ~count & 0xFFFF)
        elif function == 15:
            bits = int.from_bytes(pdu[6:], "little")
            table.update({address + n: bits >> n & 1 for n in range(count)})
        else:
            words = [int.from_bytes(pdu[6 + 2 * n : 8 + 2 * n], "big") for n in range(count)]
            table.update(zip(range(address, address + count), words, strict=True))
        return pdu if function == 22 else pdu[:5]


@asynccontextmanager
async def register_plc(tables: dict[tuple[int, int], dict[int, int]]) -> AsyncIterator[RegisterPlc]:
    """Run it on a free loopback port."""
    plc = RegisterPlc(tables)
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
