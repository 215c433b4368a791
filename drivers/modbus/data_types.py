"""How each number type stands in its bytes, and how bytes stand in registers in the four orders. Both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from struct import Struct
from struct import error as StructError

from appliance.contracts.tag import DataType, WordOrder


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """``read`` takes big-endian bytes and returns a number, or None where they hold none (NaN, infinity, a BCD digit above 9).

    ``write`` raises OverflowError for a number the type cannot hold.
    """

    read: Callable[[bytes], int | float | None]
    write: Callable[[int | float], bytes]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class RegisterOrder:
    """Registers to big-endian bytes and back. ``words`` packs them in one byte order or the other."""

    words: Struct
    is_lowest_first: bool

    def to_bytes(self, raw: Sequence[int]) -> bytes:
        """Return the big-endian bytes of registers as they came."""
        return self.words.pack(*(reversed(raw) if self.is_lowest_first else raw))

    def to_registers(self, value: bytes) -> tuple[int, ...]:
        """Return the registers of big-endian bytes as they are sent."""
        words = self.words.unpack(value)
        return words[::-1] if self.is_lowest_first else words


def register_order(order: WordOrder, registers: int, *, is_text: bool = False) -> RegisterOrder:
    """Return the order of a value of so many ``registers``.

    A number of one register is always big-endian (Modbus Application Protocol 1.1b3, section 4.2); a text only swaps bytes.
    """
    is_number_of_one = registers == 1 and not is_text
    swaps_bytes = order in (WordOrder.BADC, WordOrder.DCBA) and not is_number_of_one
    is_lowest_first = order in (WordOrder.CDAB, WordOrder.DCBA) and not is_text
    return RegisterOrder(Struct(f"{'<' if swaps_bytes else '>'}{registers}H"), is_lowest_first)


def _binary(layout: str, *, is_whole: bool) -> NumberFormat:
    struct = Struct(layout)

    def read(wire: bytes) -> int | float | None:
        (number,) = struct.unpack(wire)
        return number if is_whole or isfinite(number) else None

    def write(number: int | float) -> bytes:
        try:
            return struct.pack(number)
        except StructError as error:
            raise OverflowError(str(error)) from error

    return NumberFormat(read, write, is_whole)


def _decimal(digits: int) -> NumberFormat:
    """Binary-coded decimal: four bits a digit, the highest digit first."""

    def read(wire: bytes) -> int | None:
        shown = wire.hex()
        return int(shown) if shown.isdecimal() else None

    def write(number: int | float) -> bytes:
        if not 0 <= number < 10**digits:
            raise OverflowError(f"{number} has no {digits} decimal digits")
        return bytes.fromhex(f"{int(number):0{digits}}")

    return NumberFormat(read, write, is_whole=True)


NUMBER_FORMATS: Mapping[DataType, NumberFormat] = {
    DataType.INT16: _binary(">h", is_whole=True),
    DataType.UINT16: _binary(">H", is_whole=True),
    DataType.INT32: _binary(">i", is_whole=True),
    DataType.UINT32: _binary(">I", is_whole=True),
    DataType.INT64: _binary(">q", is_whole=True),
    DataType.UINT64: _binary(">Q", is_whole=True),
    DataType.FLOAT16: _binary(">e", is_whole=False),
    DataType.FLOAT32: _binary(">f", is_whole=False),
    DataType.FLOAT64: _binary(">d", is_whole=False),
    DataType.BCD16: _decimal(4),
    DataType.BCD32: _decimal(8),
}
"""All types but bool and string. Floats are IEEE 754 binary16, binary32 and binary64."""
