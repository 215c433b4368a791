"""The PLC's Modbus TCP server, which can misbehave on request."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from pymodbus.constants import ExcCodes
from pymodbus.exceptions import NoSuchIdException
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from appliance.contracts.clock import Clock
from appliance.contracts.tag import RegisterKind
from drivers.modbus.codec import is_bits
from drivers.sim.registers import Registers

Report = Callable[..., None]

_BITS_PER_WORD = 16
_NOWHERE = SimData(65_535, values=[0], datatype=DataType.REGISTERS, readonly=True)  # pymodbus wants no empty table
_NO_BITS = SimData(65_520, values=[False] * 16, datatype=DataType.BITS, readonly=True)
_READ_FUNCTIONS = (1, 2, 3, 4)
_KIND_OF_FUNCTION = {
    1: RegisterKind.COIL,
    5: RegisterKind.COIL,
    15: RegisterKind.COIL,
    2: RegisterKind.DISCRETE_INPUT,
    3: RegisterKind.HOLDING_REGISTER,
    6: RegisterKind.HOLDING_REGISTER,
    16: RegisterKind.HOLDING_REGISTER,
    22: RegisterKind.HOLDING_REGISTER,
    23: RegisterKind.HOLDING_REGISTER,
    4: RegisterKind.INPUT_REGISTER,
}


class Plc:
    """Serves ``registers`` over Modbus TCP. ``report`` is told of every write at the moment it is applied."""

    def __init__(self, registers: Registers, clock: Clock, report: Report) -> None:
        self.write_counts: Counter[str] = Counter()
        self._registers = registers
        self._clock = clock
        self._report = report
        self._silent_until_ns = 0
        self._hold_next_write_s = 0.0
        self._hold_next_read_s = 0.0
        self._refusals: list[ExcCodes] = []
        self._on_write: Callable[[int, RegisterKind, int], None] = lambda *_: None
        vendor_log = logging.getLogger("pymodbus.logging")
        if not vendor_log.isEnabledFor(logging.DEBUG):
            vendor_log.setLevel(logging.CRITICAL)

    async def start(self, host: str, port: int) -> int:
        """Listen; ``port`` 0 takes a free one. Returns the port."""
        devices = [self._device(device_id) for device_id in self._registers.device_ids]
        # A request to a device that is not there gets no answer, as on a bus; being silent uses the same way.
        self._server = ModbusTcpServer(devices, address=(host, port), ignore_missing_devices=True)
        await self._server.serve_forever(background=True)
        listener: Any = self._server.transport
        return int(listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the listener and all connections."""
        await self._server.shutdown()  # type: ignore[no-untyped-call]

    def on_write(self, told: Callable[[int, RegisterKind, int], None]) -> None:
        """Call ``told(device_id, kind, address)`` after each write from outside."""
        self._on_write = told

    def be_silent(self, seconds: float) -> None:
        """Take requests and neither answer nor do them for a while."""
        self._silent_until_ns = self._clock.monotonic_ns() + int(seconds * 1e9)

    def hold_write_reply(self, seconds: float) -> None:
        """Apply the next write, and answer it so much later."""
        self._hold_next_write_s = seconds

    def hold_read_reply(self, seconds: float) -> None:
        """Answer the next read so much later."""
        self._hold_next_read_s = seconds

    def refuse(self, code: int, times: int) -> None:
        """Answer the next requests with a Modbus exception."""
        self._refusals += [ExcCodes(code)] * times

    def _device(self, device_id: int) -> SimDevice:
        def bits(kind: RegisterKind) -> list[SimData]:
            spans = self._registers.spans(device_id, kind)
            return [SimData(at, values=[False] * n, datatype=DataType.BITS) for at, n in spans] or [_NO_BITS]

        def words(kind: RegisterKind) -> list[SimData]:
            spans = self._registers.spans(device_id, kind)
            return [SimData(at, values=[0] * n, datatype=DataType.REGISTERS) for at, n in spans] or [_NOWHERE]

        tables = (
            bits(RegisterKind.COIL),
            bits(RegisterKind.DISCRETE_INPUT),
            words(RegisterKind.HOLDING_REGISTER),
            words(RegisterKind.INPUT_REGISTER),
        )
        return SimDevice(id=device_id, simdata=tables, action=partial(self._served, device_id))

    async def _served(
        self, device_id: int, function: int, start: int, address: int, count: int, current: list[int], wanted: list[Any] | None
    ) -> ExcCodes | None:
        """pymodbus asks before each access. ``current`` is its own copy of the table, refreshed here from ours."""
        if self._clock.monotonic_ns() < self._silent_until_ns:
            raise NoSuchIdException("silent")
        if self._refusals:
            return self._refusals.pop(0)
        kind = _KIND_OF_FUNCTION[function]
        if wanted is not None:
            await self._apply(device_id, kind, address, [int(value) for value in wanted])
        elif self._hold_next_read_s and function in _READ_FUNCTIONS:
            seconds, self._hold_next_read_s = self._hold_next_read_s, 0.0
            await asyncio.sleep(seconds)
        self._refresh(device_id, kind, start, current)
        return None

    async def _apply(self, device_id: int, kind: RegisterKind, address: int, raw: list[int]) -> None:
        self._registers.put_raw(device_id, kind, address, raw)
        where = f"{device_id}:{kind}:{address}"
        self.write_counts[where] += 1
        tag = self._registers.tag_at(device_id, kind, address)
        self._report(
            event="write_received",
            device_id=device_id,
            kind=str(kind),
            address=address,
            value=raw[0] if len(raw) == 1 else raw,
            tag=tag.key if tag else None,
            count=self.write_counts[where],
            mono_ns=self._clock.monotonic_ns(),
        )
        self._on_write(device_id, kind, address)
        if self._hold_next_write_s:
            seconds, self._hold_next_write_s = self._hold_next_write_s, 0.0
            await asyncio.sleep(seconds)

    def _refresh(self, device_id: int, kind: RegisterKind, start: int, current: list[int]) -> None:
        for address, raw in self._registers.cells(device_id, kind).items():
            if not is_bits(kind):
                if 0 <= address - start < len(current):
                    current[address - start] = raw
                continue
            word, bit = divmod(address, _BITS_PER_WORD)
            if 0 <= word - start < len(current):
                mask = 1 << bit
                current[word - start] = current[word - start] & ~mask | (mask if raw else 0)
