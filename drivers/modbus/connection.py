"""One TCP connection to a PLC, used once. The only file that knows pymodbus.

A connection is never repaired: after any doubt (time-out, loss, cancelled request, odd answer) the link closes it and opens a
new one, so a late answer has nowhere to arrive and there is never a second socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pymodbus.client import AsyncModbusTcpClient
from pymodbus.exceptions import ModbusException
from pymodbus.pdu import ModbusPDU

from appliance.contracts.link import Link
from appliance.contracts.tag import RegisterKind

T = TypeVar("T")

_EXCEPTION_BIT = 0x80  # Modbus Application Protocol 1.1b3, section 4.1
_READ_FUNCTION = {
    RegisterKind.COIL: 1,
    RegisterKind.DISCRETE_INPUT: 2,
    RegisterKind.HOLDING_REGISTER: 3,
    RegisterKind.INPUT_REGISTER: 4,
}
_WRITE_COIL, _WRITE_REGISTER, _WRITE_REGISTERS = 5, 6, 16


class NoAnswer(Exception):
    """No usable answer came. ``was_sent`` says whether the request may have reached the device."""

    def __init__(self, why: str, *, was_sent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.was_sent = was_sent


class ExceptionAnswer(Exception):
    """The device answered with a Modbus exception."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exception {code}")
        self.code = code


class Connection:
    """Opens, asks, closes. Not safe for concurrent requests: its link holds the lock."""

    def __init__(self, link: Link) -> None:
        self._timeout_s = link.timeout_s
        self._was_sent = False
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        vendor_log = logging.getLogger("pymodbus.logging")
        if not vendor_log.isEnabledFor(logging.DEBUG):  # it logs every failed request; the link logs changes of state
            vendor_log.setLevel(logging.CRITICAL)
        self._client = AsyncModbusTcpClient(
            link.host,
            port=link.port,
            name=link.id,
            timeout=link.timeout_s,
            retries=0,  # pymodbus would resend writes too
            reconnect_delay=0,  # its own reconnecting leaks a second socket beside connect()
            trace_packet=self._note_packet,
            trace_connect=self._note_connect,
        )

    @property
    def is_usable(self) -> bool:
        """Whether requests can be sent, as far as is known."""
        return self._client.connected and not self._lost.done()

    async def open(self) -> bool:
        """Connect within the link's time-out; return whether it did."""
        return bool(await self._owned(self._client.connect(), ends_on_loss=False))

    def close(self) -> None:
        """Close the socket."""
        self._client.close()

    async def read(self, device_id: int, kind: RegisterKind, address: int, count: int) -> tuple[int, ...]:
        """Return ``count`` registers (0..65535) or bits (0 or 1); padding bits are cut.

        Raises:
            NoAnswer: nothing came, or it does not answer this request.
            ExceptionAnswer: the device said no.
        """
        ask = {
            RegisterKind.COIL: self._client.read_coils,
            RegisterKind.DISCRETE_INPUT: self._client.read_discrete_inputs,
            RegisterKind.HOLDING_REGISTER: self._client.read_holding_registers,
            RegisterKind.INPUT_REGISTER: self._client.read_input_registers,
        }[kind]
        answer = await self._ask(_READ_FUNCTION[kind], device_id, lambda: ask(address, count=count, device_id=device_id))
        if kind in (RegisterKind.COIL, RegisterKind.DISCRETE_INPUT):
            padded = (count + 7) // 8 * 8  # bits travel in whole bytes
            self._expect(len(answer.bits) == padded, f"{len(answer.bits)} bits came for {count}")
            return tuple(int(bit) for bit in answer.bits[:count])
        self._expect(len(answer.registers) == count, f"{len(answer.registers)} registers came for {count}")
        return tuple(answer.registers)

    async def write(self, device_id: int, kind: RegisterKind, address: int, raw: tuple[int, ...]) -> None:
        """Write one coil, one register or several registers, and check the echo.

        Raises:
            NoAnswer: as for :meth:`read`; with ``was_sent`` the device may hold the value.
            ExceptionAnswer: the device said no.
        """
        client = self._client
        if kind is RegisterKind.COIL:
            wanted = bool(raw[0])
            answer = await self._ask(_WRITE_COIL, device_id, lambda: client.write_coil(address, wanted, device_id=device_id))
            is_echo = answer.address == address and list(answer.bits[:1]) == [wanted]
        elif len(raw) == 1:
            answer = await self._ask(
                _WRITE_REGISTER, device_id, lambda: client.write_register(address, raw[0], device_id=device_id)
            )
            is_echo = answer.address == address and tuple(answer.registers) == raw
        else:
            answer = await self._ask(
                _WRITE_REGISTERS, device_id, lambda: client.write_registers(address, list(raw), device_id=device_id)
            )
            is_echo = answer.address == address and answer.count == len(raw)
        self._expect(is_echo, "the answer echoes another write")

    async def _ask(self, function: int, device_id: int, send: Callable[[], Awaitable[ModbusPDU]]) -> ModbusPDU:
        self._was_sent = False
        try:
            answer = await self._owned(send())
        except (ModbusException, OSError) as error:
            why = "the connection was lost" if self._lost.done() else f"no answer within {self._timeout_s:g} s"
            raise NoAnswer(why if self._was_sent else "not connected", was_sent=self._was_sent) from error
        self._expect(answer.dev_id == device_id, f"device {answer.dev_id} answered for device {device_id}")
        self._expect(answer.function_code & ~_EXCEPTION_BIT == function, f"function {answer.function_code} came for {function}")
        if answer.isError():
            raise ExceptionAnswer(answer.exception_code)
        return answer

    def _expect(self, is_so: bool, why: str) -> None:
        """pymodbus takes short answers and answers to other functions for success; they are none."""
        if not is_so:
            raise NoAnswer(f"the answer does not fit the request: {why}", was_sent=self._was_sent)

    async def _owned(self, vendor: Awaitable[T], *, ends_on_loss: bool = True) -> T:
        """Await ``vendor`` in a task of its own, so that cancelling us always cancels us, and a lost connection ends the
        wait at once rather than at the time-out."""
        call = asyncio.ensure_future(vendor)
        watched: set[asyncio.Future[Any]] = {call, self._lost} if ends_on_loss else {call}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise ConnectionResetError("the connection was lost")
            return call.result()
        finally:
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    def _note_packet(self, is_sending: bool, packet: bytes) -> bytes:
        self._was_sent = self._was_sent or is_sending
        return packet

    def _note_connect(self, is_connected: bool) -> None:
        if not is_connected and not self._lost.done():
            self._lost.set_result(None)
