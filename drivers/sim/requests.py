"""Modbus requests as a server understands them: bytes to a request, and an answer back to bytes. Pure.

Written after the Modbus Application Protocol 1.1b3, not after the client's library, so that a fault there is not confirmed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from appliance.contracts.tag import RegisterKind
from drivers.modbus.codec import is_bits
from drivers.sim.registers import Registers

ILLEGAL_FUNCTION, ILLEGAL_ADDRESS, ILLEGAL_VALUE = 1, 2, 3  # section 7
_EXCEPTION_BIT = 0x80  # section 4.1

_READS = {
    1: RegisterKind.COIL,
    2: RegisterKind.DISCRETE_INPUT,
    3: RegisterKind.HOLDING_REGISTER,
    4: RegisterKind.INPUT_REGISTER,
}
_WRITE_COIL, _WRITE_REGISTER, _WRITE_COILS, _WRITE_REGISTERS, _MASK_WRITE = 5, 6, 15, 16, 22
_WRITES = {
    _WRITE_COIL: RegisterKind.COIL,
    _WRITE_REGISTER: RegisterKind.HOLDING_REGISTER,
    _WRITE_COILS: RegisterKind.COIL,
    _WRITE_REGISTERS: RegisterKind.HOLDING_REGISTER,
    _MASK_WRITE: RegisterKind.HOLDING_REGISTER,
}
# Most addresses one request may carry: sections 6.1-6.4, 6.11 and 6.12.
_MOST = {1: 2000, 2: 2000, 3: 125, 4: 125, _WRITE_COILS: 1968, _WRITE_REGISTERS: 123}
_ON, _OFF = 0xFF00, 0x0000  # section 6.5
_TWO_WORDS = Struct(">HH")
_THREE_WORDS = Struct(">HHH")


class Illegal(Exception):
    """The request is answered with exception ``code``."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exception {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``values`` are what is to be written, ``masks`` AND and OR of a mask write; a read has neither."""

    function: int
    kind: RegisterKind
    address: int
    count: int
    values: tuple[int, ...] | None = None
    masks: tuple[int, int] | None = None

    @property
    def is_write(self) -> bool:
        """Whether it changes the device."""
        return self.function in _WRITES


def parse(pdu: bytes) -> Request:
    """Return the request in a PDU (function code first).

    Raises:
        Illegal: an unknown function, or values that cannot be.
    """
    function, body = pdu[0], pdu[1:]
    if function in _READS:
        address, count = _two_words(body)
        return Request(function, _READS[function], address, _counted(function, count))
    if function not in _WRITES:
        raise Illegal(ILLEGAL_FUNCTION)
    kind = _WRITES[function]
    if function == _MASK_WRITE:
        if len(body) != _THREE_WORDS.size:
            raise Illegal(ILLEGAL_VALUE)
        address, mask_and, mask_or = _THREE_WORDS.unpack(body)
        return Request(function, kind, address, 1, masks=(mask_and, mask_or))
    if function in (_WRITE_COIL, _WRITE_REGISTER):
        address, value = _two_words(body)
        if function == _WRITE_COIL and value not in (_ON, _OFF):
            raise Illegal(ILLEGAL_VALUE)
        return Request(function, kind, address, 1, (int(value == _ON) if function == _WRITE_COIL else value,))
    address, count = _two_words(body[:4])
    payload = body[5:]
    expected = 2 * count if function == _WRITE_REGISTERS else -(-count // 8)
    if body[4:5] != bytes([expected & 0xFF]) or len(payload) != expected:
        raise Illegal(ILLEGAL_VALUE)
    values = _words(payload) if function == _WRITE_REGISTERS else _bits(payload, count)
    return Request(function, kind, address, _counted(function, count), values)


def carry_out(request: Request, device_id: int, registers: Registers) -> bytes:
    """Do the request and return the PDU of its answer.

    Raises:
        Illegal: an address does not exist, or more is asked than the device gives in one answer; nothing was done.
    """
    device = registers.device(device_id)
    if not request.is_write and request.count > (device.most_bits if is_bits(request.kind) else device.most_registers):
        raise Illegal(ILLEGAL_VALUE)
    cells = registers.cells(device_id, request.kind)
    try:
        before = [cells[address] for address in range(request.address, request.address + request.count)]
    except KeyError:
        raise Illegal(ILLEGAL_ADDRESS) from None
    if not request.is_write:
        return _read_answer(request.function, request.kind, before)
    registers.put_raw(device_id, request.kind, request.address, _written(request, before))
    return _write_answer(request)


def exception(function: int, code: int) -> bytes:
    """Return the PDU of an exception answer."""
    return bytes([function | _EXCEPTION_BIT, code])


def _written(request: Request, before: Sequence[int]) -> Sequence[int]:
    if request.masks is None:
        return request.values or ()
    mask_and, mask_or = request.masks
    return [before[0] & mask_and | mask_or & ~mask_and & 0xFFFF]  # section 6.16


def _read_answer(function: int, kind: RegisterKind, values: Sequence[int]) -> bytes:
    if is_bits(kind):
        packed = bytearray(-(-len(values) // 8))
        for place, value in enumerate(values):
            packed[place // 8] |= bool(value) << place % 8
        return bytes([function, len(packed)]) + packed
    return bytes([function, 2 * len(values)]) + b"".join(value.to_bytes(2, "big") for value in values)


def _write_answer(request: Request) -> bytes:
    echo = bytes([request.function])
    if request.masks is not None:
        return echo + _THREE_WORDS.pack(request.address, *request.masks)
    if request.function == _WRITE_COIL:
        return echo + _TWO_WORDS.pack(request.address, _ON if request.values == (1,) else _OFF)
    if request.function == _WRITE_REGISTER:
        assert request.values is not None
        return echo + _TWO_WORDS.pack(request.address, request.values[0])
    return echo + _TWO_WORDS.pack(request.address, request.count)


def _two_words(body: bytes) -> tuple[int, int]:
    if len(body) != _TWO_WORDS.size:
        raise Illegal(ILLEGAL_VALUE)
    first, second = _TWO_WORDS.unpack(body)
    return first, second


def _counted(function: int, count: int) -> int:
    if not 1 <= count <= _MOST[function]:
        raise Illegal(ILLEGAL_VALUE)
    return count


def _words(payload: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(payload[i : i + 2], "big") for i in range(0, len(payload), 2))


def _bits(payload: bytes, count: int) -> tuple[int, ...]:
    return tuple(payload[place // 8] >> place % 8 & 1 for place in range(count))
