"""Registers and bits to values and back: one codec for both directions.

In: the raw registers (0..65535) or bits (0 or 1) of one tag. Out: an engineering value, or None where the device says that it
has no number. Who calls: the bus when it reads and writes, the simulated plant when it answers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from math import isfinite

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.reading import Value
from appliance.contracts.tag import DataType, RegisterKind, Tag, WordOrder

# Which byte of the big-endian value stands at each place on the wire. Every row is its own inverse.
_BYTE_AT: dict[WordOrder, tuple[int, int, int, int]] = {
    WordOrder.ABCD: (0, 1, 2, 3),
    WordOrder.BADC: (1, 0, 3, 2),
    WordOrder.CDAB: (2, 3, 0, 1),
    WordOrder.DCBA: (3, 2, 1, 0),
}

_RANGES: dict[DataType, tuple[int, int]] = {
    DataType.INT16: (-(2**15), 2**15 - 1),
    DataType.UINT16: (0, 2**16 - 1),
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.UINT32: (0, 2**32 - 1),
}
_SIGNED = (DataType.INT16, DataType.INT32)


def decode(tag: Tag, raw: Sequence[int]) -> Value | None:
    """Return the engineering value of ``raw``, or None for a sentinel, NaN or infinity: never a number to act on.

    Integers are scaled in decimal, so that 943 at scale 0.1 is 94.3.

    Raises:
        Malformed: ``raw`` has another length than the tag spans.
    """
    if len(raw) != tag.register_count:
        raise Malformed(f"{tag.key}: {tag.register_count} registers expected, {len(raw)} given")
    wire = _to_bytes(tag, raw)
    if int.from_bytes(wire, "big") in tag.sentinels:
        return None
    if tag.type is DataType.BOOL:
        return any(raw)
    if tag.type is DataType.FLOAT32:
        (number,) = struct.unpack(">f", wire)
        value = number * tag.scale + tag.offset if _is_scaled(tag) else number
        return float(value) if isfinite(value) else None
    count = int.from_bytes(wire, "big", signed=tag.type in _SIGNED)
    if not _is_scaled(tag):
        return count
    exact = Decimal(count) * _exact(tag.scale) + _exact(tag.offset)
    return float(exact)


def encode(tag: Tag, value: Value) -> tuple[int, ...]:
    """Return the raw registers or bits that stand for ``value``, rounded to the nearest step of the wire.

    Raises:
        Refused: ``value`` is of the wrong type, not finite, outside what the data type can hold, or a sentinel.
    """
    if tag.type is DataType.BOOL:
        return (_to_bit(tag, value),)
    if isinstance(value, bool | str) or not _is_finite(value):
        raise Refused(f"{tag.key} takes a number, not {value!r}", tag=tag.key)
    wire = _float_bytes(tag, value) if tag.type is DataType.FLOAT32 else _integer_bytes(tag, value)
    if int.from_bytes(wire, "big") in tag.sentinels:
        raise Refused(f"{tag.key}: {value} would be written as the value that means 'no measurement'", tag=tag.key)
    return _to_registers(tag, wire)


def _to_bit(tag: Tag, value: Value) -> int:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return int(value)
    raise Refused(f"{tag.key} takes true or false, not {value!r}", tag=tag.key)


def _integer_bytes(tag: Tag, value: float) -> bytes:
    steps = (_exact(value) - _exact(tag.offset)) / _exact(tag.scale)
    count = int(steps.to_integral_value(rounding=ROUND_HALF_EVEN))
    lowest, highest = _RANGES[tag.type]
    if not lowest <= count <= highest:
        raise Refused(f"{tag.key}: {value} does not fit {tag.type}", tag=tag.key)
    return count.to_bytes(2 * tag.register_count, "big", signed=tag.type in _SIGNED)


def _float_bytes(tag: Tag, value: float) -> bytes:
    number = (value - tag.offset) / tag.scale if _is_scaled(tag) else float(value)
    try:
        if isfinite(number):
            return struct.pack(">f", number)
    except OverflowError:
        pass  # finite as a float64 only
    raise Refused(f"{tag.key}: {value} does not fit {tag.type}", tag=tag.key)


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond float64
        return False


def _is_scaled(tag: Tag) -> bool:
    return tag.scale != 1 or tag.offset != 0


def _exact(number: float) -> Decimal:
    return Decimal(str(number))  # the number as it was written in the plant model, not its binary neighbour


def _to_bytes(tag: Tag, raw: Sequence[int]) -> bytes:
    wire = b"".join(word.to_bytes(2, "big") for word in raw)
    return bytes(wire[i] for i in _BYTE_AT[tag.word_order]) if len(wire) == 4 else wire


def _to_registers(tag: Tag, value: bytes) -> tuple[int, ...]:
    wire = bytes(value[i] for i in _BYTE_AT[tag.word_order]) if len(value) == 4 else value
    return tuple(int.from_bytes(wire[i : i + 2], "big") for i in range(0, len(wire), 2))


def wire_address(tag: Tag) -> str:
    """Return where the tag stands on the wire, for people: ``input_register 12 of device 1 on line_3``."""
    registers = f"{tag.address}" if tag.register_count == 1 else f"{tag.address}-{tag.address + tag.register_count - 1}"
    return f"{tag.kind} {registers} of device {tag.device_id} on {tag.link}"


def is_bits(kind: RegisterKind) -> bool:
    """Whether the table holds single bits rather than 16-bit registers."""
    return kind in (RegisterKind.COIL, RegisterKind.DISCRETE_INPUT)
