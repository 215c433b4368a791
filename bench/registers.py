"""Reading 125 holding registers, one request after the other: the driver against the bare library it is made of.

The two take turns on the same server, in slices, so that whatever else the machine does meets both. Each slice opens its own
connection and warms up. CPU is this process' own: the servers are others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pymodbus.client import AsyncModbusTcpClient

from appliance.contracts.link import Link
from appliance.contracts.tag import RegisterKind
from appliance.foundation.system_clock import SystemClock
from bench.figures import Findings
from bench.plants import LINK, register_plant
from bench.servers import libmodbus_server, simulator
from drivers.modbus.link import ModbusLink

REGISTERS = 125  # the most one request can carry (Modbus Application Protocol 1.1b3, section 6.3)
MOST_OVERHEAD = 1.25
_WARM_UP_READS = 100

Read = Callable[[], Awaitable[int]]
"""Reads once; returns the number of registers that came."""


@dataclass(slots=True)
class Slice:
    """How a stretch of reading went."""

    reads: int
    wall_s: float
    cpu_s: float

    @property
    def reads_s(self) -> float:
        """Reads a second."""
        return self.reads / self.wall_s

    @property
    def cpu_us(self) -> float:
        """CPU of the client for one read, in microseconds."""
        return self.cpu_s * 1e6 / self.reads


async def measure_registers(findings: Findings, folder: Path, *, rounds: int, slice_s: float) -> None:
    """Fill in ``reg_reads_s`` and ``client_cpu_us``, each with ``raw_…`` beside it, by server."""
    async with libmodbus_server(folder) as port:
        await _against(findings, "libmodbus", port, rounds, slice_s)
    async with simulator(folder, register_plant()) as plant:
        await _against(findings, "simulator", int(plant.reports[0]["port"]), rounds, slice_s)


async def _against(findings: Findings, server: str, port: int, rounds: int, slice_s: float) -> None:
    ours, raw = [], []
    for _ in range(rounds):
        raw.append(await _slice(_bare(port), slice_s))
        ours.append(await _slice(_driver(port), slice_s))
    figures = findings.figures
    for name, slices in (("", ours), ("raw_", raw)):
        figures.setdefault(f"{name}reg_reads_s", {})[server] = round(median(each.reads_s for each in slices))
        figures.setdefault(f"{name}client_cpu_us", {})[server] = round(median(each.cpu_us for each in slices), 1)
    pairs = list(zip(ours, raw, strict=True))
    time_ratio = findings.compare(f"read_time_vs_raw.{server}", median(b.reads_s / a.reads_s for a, b in pairs), 1.0)
    cpu_ratio = findings.compare(f"read_cpu_vs_raw.{server}", median(a.cpu_us / b.cpu_us for a, b in pairs), 1.0)
    says = f"time and CPU of a read at most {MOST_OVERHEAD:g} x those of bare pymodbus"
    findings.reach(f"read_overhead.{server}", max(time_ratio, cpu_ratio), MOST_OVERHEAD, says)


@asynccontextmanager
async def _bare(port: int) -> AsyncIterator[Read]:
    client = AsyncModbusTcpClient("127.0.0.1", port=port)
    await client.connect()

    async def read() -> int:
        return len((await client.read_holding_registers(0, count=REGISTERS, device_id=1)).registers)

    try:
        yield read
    finally:
        client.close()


@asynccontextmanager
async def _driver(port: int) -> AsyncIterator[Read]:
    link = ModbusLink(Link(id=LINK, host="127.0.0.1", port=port), SystemClock(), lambda *_: None)

    async def read() -> int:
        return len(await link.read(1, RegisterKind.HOLDING_REGISTER, 0, REGISTERS))

    try:
        yield read
    finally:
        link.close()


async def _slice(client: AbstractAsyncContextManager[Read], slice_s: float) -> Slice:
    async with client as read:
        for _ in range(_WARM_UP_READS):
            await read()
        reads, started_s, cpu_started_s = 0, time.monotonic(), time.process_time()
        ends_s = started_s + slice_s
        while time.monotonic() < ends_s:
            assert await read() == REGISTERS
            reads += 1
        done = Slice(reads, time.monotonic() - started_s, time.process_time() - cpu_started_s)
    await asyncio.sleep(0)  # the transport closes itself on the next round of the loop
    return done
