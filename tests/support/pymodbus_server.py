"""A pymodbus server in a process of its own: ``python -m tests.support.pymodbus_server PROTOCOL PORT [CERT KEY CA]``.

It holds what ``libmodbus_server.c`` holds and takes the same orders: ``silent``, ``hold_read_reply`` and ``hold_write_reply``
with ``seconds``, ``refuse`` with ``code``, ``counts``. Units 1 and 2 answer, unit 9 is silent. With ``CA`` it asks for our
certificate. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import sys
import threading
import time
from typing import Any

from pymodbus.constants import ExcCodes
from pymodbus.exceptions import NoSuchIdException
from pymodbus.framer import FramerType
from pymodbus.server import ModbusTcpServer, ModbusTlsServer, ModbusUdpServer
from pymodbus.simulator import DataType, SimData, SimDevice

BITS, REGISTERS = 2048, 300
READS = (1, 2, 3, 4)
DEAD = 9


class Server:
    def __init__(self, protocol: str, port: str, cert: str = "", key: str = "", ca: str = "") -> None:
        self.silent_until_s = 0.0
        self.held_s = {True: 0.0, False: 0.0}  # by whether it is a read
        self.refusal = 0
        self.requests = self.writes = self.connections = self.open = 0
        self.protocol = protocol
        common: dict[str, Any] = {"ignore_missing_devices": True, "trace_connect": self.connect}
        address = ("127.0.0.1", int(port))
        devices = [self.device(1), self.device(2), self.device(DEAD)]
        self.vendor: Any
        if protocol == "tls":
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca or None)
            context.load_cert_chain(cert, key)
            context.verify_mode = ssl.CERT_REQUIRED if ca else ssl.CERT_NONE
            self.vendor = ModbusTlsServer(devices, address=address, sslctx=context, **common)
        elif protocol == "udp":
            self.vendor = ModbusUdpServer(devices, address=address, **common)
        else:
            framer = FramerType.RTU if protocol == "rtu_over_tcp" else FramerType.SOCKET
            self.vendor = ModbusTcpServer(devices, address=address, framer=framer, **common)

    def device(self, device_id: int) -> SimDevice:
        tables = (
            [SimData(0, values=[n % 3 == 0 for n in range(BITS)], datatype=DataType.BITS)],
            [SimData(0, values=[n % 5 == 0 for n in range(BITS)], datatype=DataType.BITS)],
            [SimData(0, values=[7 * n + 1 for n in range(REGISTERS)], datatype=DataType.REGISTERS)],
            [SimData(0, values=[65_535 - n for n in range(REGISTERS)], datatype=DataType.REGISTERS)],
        )
        return SimDevice(id=device_id, simdata=tables, action=self.unheard if device_id == DEAD else self.asked)

    def connect(self, is_up: bool) -> None:
        self.connections += is_up
        self.open += 1 if is_up else -1

    async def unheard(self, *_: Any) -> ExcCodes | None:
        self.requests += 1
        raise NoSuchIdException("silent, which pymodbus itself is not for a unit that it does not have")

    async def asked(
        self, function: int, _start: int, _address: int, _count: int, _table: list[int], _wanted: list[Any] | None
    ) -> ExcCodes | None:
        self.requests += 1
        if time.monotonic() < self.silent_until_s:
            raise NoSuchIdException("silent")
        if self.refusal:
            code, self.refusal = self.refusal, 0
            return ExcCodes(code)
        is_read = function in READS
        self.writes += _wanted is not None
        seconds, self.held_s[is_read] = self.held_s[is_read], 0.0
        # All stands still: were another request read meanwhile, pymodbus would give this answer the number of that one.
        threading.Event().wait(seconds)
        return None

    def obey(self, order: dict[str, Any]) -> None:
        seconds = float(order.get("seconds", 0))
        if order["do"] == "silent":
            self.silent_until_s = time.monotonic() + seconds
        elif order["do"] == "refuse":
            self.refusal = int(order["code"])
        elif order["do"] == "counts":
            say(event="counts", connections=self.connections, open=self.open, requests=self.requests, writes=self.writes)
        else:
            self.held_s[order["do"] == "hold_read_reply"] = seconds
        say(event="done", do=order["do"])

    async def run(self) -> None:
        await self.vendor.serve_forever(background=True)
        transport = self.vendor.transport
        socket = transport.get_extra_info("socket") if self.protocol == "udp" else transport.sockets[0]
        say(event="ready", port=socket.getsockname()[1])
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.obey(json.loads(line))


async def serve(*words: str) -> None:
    await Server(*words).run()


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)  # noqa: T201 - its report


if __name__ == "__main__":
    logging.getLogger("pymodbus.logging").setLevel(logging.CRITICAL)
    asyncio.run(serve(*sys.argv[1:]))
