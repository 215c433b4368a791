"""Requests as bytes, and the check of what is answered to them: function, byte count, quantity, echo.

Modbus Application Protocol 1.1b3, section 6. The check is strict on purpose: pymodbus takes short answers, answers with bytes
to spare and answers to other functions for success.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from appliance.contracts.errors import Refused
from appliance.contracts.tag import RegisterKind

MOST_READ_REGISTERS, MOST_READ_BITS = 125, 2000  # sections 6.1-6.4
MOST_WRITTEN_REGISTERS, MOST_WRITTEN_BITS = 123, 1968  # sections 6.11 and 6.12
_MOST_ADDRESSES = 65_536
_EXCEPTION_BIT = 0x80  # section 4.1
_READ_FUNCTION = {
    RegisterKind.COIL: 1,
    RegisterKind.DISCRETE_INPUT: 2,
    RegisterKind.HOLDING_REGISTER: 3,
    RegisterKind.INPUT_REGISTER: 4,
}
_BIT_FUNCTIONS = (1, 2)
_WRITE_COIL, _WRITE_REGISTER, _WRITE_COILS, _WRITE_REGISTERS, _MASK_WRITE = 5, 6, 15, 16, 22
_COIL_ON, _COIL_OFF = 0xFF00, 0x0000  # section 6.5


class ExceptionAnswer(Exception):
    """The device answered with a Modbus exception."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exception {code}")
        self.code = code


class Misfit(Exception):
    """What came is not the answer to this request; the text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it travels (function code first). ``count`` values are wanted; a write wants none, but its ``echo``."""

    pdu: bytes
    count: int = 0
    echo: bytes = b""

    @property
    def is_read(self) -> bool:
        """Whether asking twice does no harm."""
        return not self.echo

    def taken_from(self, answer: bytes) -> tuple[int, ...]:
        """Return the registers (0..65535) or bits (0 or 1, padding cut) of an answer; nothing for a write.

        Raises:
            ExceptionAnswer: the device says no.
            Misfit: it does not answer this request.
        """
        function = self.pdu[0]
        if answer[0] == function | _EXCEPTION_BIT and len(answer) == 2:
            raise ExceptionAnswer(answer[1])
        if answer[0] != function:
            raise Misfit(f"function {answer[0]} came for {function}")
        if self.echo:
            if answer != self.echo:
                raise Misfit("the answer echoes another write")
            return ()
        if len(answer) < 2 or answer[1] != len(answer) - 2:
            raise Misfit(f"{len(answer) - 2} bytes came where {answer[1] if len(answer) > 1 else 'none'} were announced")
        return self._bits_of(answer[2:]) if function in _BIT_FUNCTIONS else self._registers_of(answer[2:])

    def is_answered_by(self, answer: bytes) -> bool:
        """Whether ``answer`` can be the one to this request, whatever it says."""
        try:
            self.taken_from(answer)
        except ExceptionAnswer:
            return True
        except Misfit:
            return False
        return True

    def _registers_of(self, data: bytes) -> tuple[int, ...]:
        if len(data) != 2 * self.count:
            raise Misfit(f"{len(data) // 2} registers came for {self.count}")
        return struct.unpack(f">{self.count}H", data)

    def _bits_of(self, data: bytes) -> tuple[int, ...]:
        if len(data) != (self.count + 7) // 8:  # bits travel in whole bytes
            raise Misfit(f"{8 * len(data)} bits came for {self.count}")
        packed = int.from_bytes(data, "little")
        return tuple(packed >> at & 1 for at in range(self.count))


@lru_cache(maxsize=1024)  # polls ask the same again and again
def read_request(kind: RegisterKind, address: int, count: int) -> Request:
    """Ask for ``count`` registers or bits from wire address ``address`` on.

    Raises:
        Refused: more than one request may ask for, or beyond the last address.
    """
    function = _READ_FUNCTION[kind]
    _permit(address, count, MOST_READ_BITS if function in _BIT_FUNCTIONS else MOST_READ_REGISTERS)
    return Request(struct.pack(">BHH", function, address, count), count)


def write_request(kind: RegisterKind, address: int, raw: Sequence[int], *, multiple: bool = False) -> Request:
    """Write coils (0 or 1) or holding registers (0..65535): one by function 5 or 6, several, or ``multiple``, by 15 or 16.

    Raises:
        Refused: more than one request may carry, beyond the last address, or a table that cannot be written.
    """
    if kind not in (RegisterKind.COIL, RegisterKind.HOLDING_REGISTER):
        raise Refused(f"a {kind} cannot be written")
    is_coil = kind is RegisterKind.COIL
    _permit(address, len(raw), MOST_WRITTEN_BITS if is_coil else MOST_WRITTEN_REGISTERS)
    if len(raw) == 1 and not multiple:
        function, word = (_WRITE_COIL, _COIL_ON if raw[0] else _COIL_OFF) if is_coil else (_WRITE_REGISTER, raw[0])
        pdu = struct.pack(">BHH", function, address, word)
        return Request(pdu, echo=pdu)
    if is_coil:
        packed = sum(1 << at for at, bit in enumerate(raw) if bit)
        data = packed.to_bytes((len(raw) + 7) // 8, "little")
    else:
        data = struct.pack(f">{len(raw)}H", *raw)
    head = struct.pack(">BHH", _WRITE_COILS if is_coil else _WRITE_REGISTERS, address, len(raw))
    return Request(head + bytes([len(data)]) + data, echo=head)


def mask_write_request(address: int, and_mask: int, or_mask: int) -> Request:
    """Let the device set a holding register to ``(register & and_mask) | (or_mask & ~and_mask)`` by itself.

    Raises:
        Refused: beyond the last address.
    """
    _permit(address, 1, 1)
    pdu = struct.pack(">BHHH", _MASK_WRITE, address, and_mask, or_mask)
    return Request(pdu, echo=pdu)


def _permit(address: int, count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise Refused(f"one request carries 1 to {most} values, not {count}")
    if address < 0 or address + count > _MOST_ADDRESSES:
        raise Refused(f"{count} values from address {address} reach beyond {_MOST_ADDRESSES - 1}")
