"""Registers and bits to values and back: one codec for both directions.

In: the raw registers (0..65535) or bits (0 or 1) of one tag. Out: an engineering value, or None where the device says that it
has none. Who calls: the bus when it reads and writes, the simulated plant when it answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from math import isfinite

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.named_value import number_of, text_of
from appliance.contracts.reading import Value
from appliance.contracts.tag import DataType, RegisterKind, Tag
from drivers.modbus.data_types import NUMBER_FORMATS, register_order

_WHOLE_REGISTER = 0xFFFF
_UNSHOWN = "\N{REPLACEMENT CHARACTER}"


class Codec:
    """The codec of one tag, prepared once, so that a polled tag costs little."""

    def __init__(self, tag: Tag) -> None:
        self._tag = tag
        self._count = tag.register_count
        self._format = NUMBER_FORMATS.get(tag.type)
        self._order = register_order(tag.word_order, self._count, is_text=tag.type is DataType.STRING)
        self._sentinels = frozenset(tag.sentinels)
        self._is_named = bool(tag.names or tag.flags)
        self._is_scaled = tag.scale != 1 or tag.offset != 0
        self._scale, self._offset = _exact(tag.scale), _exact(tag.offset)
        self._clamp = tag.clamp
        self.mask = _WHOLE_REGISTER if tag.bit is None else 1 << tag.bit
        """Bits of the register that are this tag's."""

    def decode(self, raw: Sequence[int]) -> Value | None:
        """Return the engineering value of ``raw``, or None for a sentinel, NaN, infinity or a BCD digit above 9: never a number
        to act on. Whole numbers are scaled in decimal, so that 943 at scale 0.1 is 94.3.

        Raises:
            Malformed: ``raw`` has another length than the tag spans.
        """
        if len(raw) != self._count:
            raise Malformed(f"{self._tag.key}: {self._count} registers expected, {len(raw)} given")
        wire = self._order.to_bytes(raw)
        if self._sentinels and int.from_bytes(wire, "big") in self._sentinels:
            return None
        if self._format is None:
            return bool(raw[0] & self.mask) if self._tag.type is DataType.BOOL else _shown(wire)
        number = self._format.read(wire)
        if number is None or not (self._is_named or self._is_scaled or self._clamp):
            return number
        return self._meaning(number)

    def encode(self, value: Value) -> tuple[int, ...]:
        """Return the raw registers or bits that stand for ``value``, rounded to the nearest step of the wire. For a bit of a
        register: the register with no other bit set; :attr:`mask` says which bit it is.

        Raises:
            Refused: ``value`` is of the wrong type, not finite, unnamed, outside what the data type can hold, or a sentinel.
        """
        tag = self._tag
        if tag.type is DataType.BOOL:
            return (_truth(tag, value) << (tag.bit or 0),)
        wire = _text_bytes(tag, value) if tag.type is DataType.STRING else self._number_bytes(value)
        if int.from_bytes(wire, "big") in self._sentinels:
            raise Refused(f"{tag.key}: {value} would be written as the value that means 'no measurement'", tag=tag.key)
        return self._order.to_registers(wire)

    def shows(self, read: Sequence[int], written: Sequence[int]) -> bool:
        """Whether registers that were read hold what was written; bits of other tags and what pads a text do not count."""
        if self._tag.type is DataType.STRING:
            return self.decode(read) == self.decode(written)
        return [word & self.mask for word in read] == [word & self.mask for word in written]

    def _meaning(self, number: float) -> Value | None:
        if self._is_named:
            whole = int(number)
            bits = 16 * self._count
            return text_of(self._tag, whole % 2**bits if self._tag.flags else whole)
        value: float = number
        if self._is_scaled:
            if isinstance(number, int):
                value = float(number * self._scale + self._offset)
            else:
                value = number * self._tag.scale + self._tag.offset
        if self._clamp is not None:
            value = max(self._clamp[0], min(self._clamp[1], value))
        return value if isinstance(value, int) or isfinite(value) else None

    def _number_bytes(self, value: Value) -> bytes:
        assert self._format is not None
        if self._is_named:
            number: float = self._wrapped(number_of(self._tag, value))
        elif isinstance(value, bool | str) or not _is_finite(value):
            raise Refused(f"{self._tag.key} takes a number, not {value!r}", tag=self._tag.key)
        elif self._format.is_whole:
            steps = (_exact(value) - self._offset) / self._scale
            number = int(steps.to_integral_value(rounding=ROUND_HALF_EVEN))
        else:
            number = (value - self._tag.offset) / self._tag.scale if self._is_scaled else float(value)
        try:
            if not isfinite(number):
                raise OverflowError
            return self._format.write(number)
        except OverflowError:
            raise Refused(f"{self._tag.key}: {value} does not fit {self._tag.type}", tag=self._tag.key) from None

    def _wrapped(self, number: int) -> int:
        """The top flag of a signed type is its sign bit."""
        bits = 16 * self._count
        is_signed = self._tag.type in (DataType.INT16, DataType.INT32, DataType.INT64)
        return number - 2**bits if self._tag.flags and is_signed and 2 ** (bits - 1) <= number < 2**bits else number


def decode(tag: Tag, raw: Sequence[int]) -> Value | None:
    """Decode once; see :meth:`Codec.decode`."""
    return Codec(tag).decode(raw)


def encode(tag: Tag, value: Value) -> tuple[int, ...]:
    """Encode once; see :meth:`Codec.encode`."""
    return Codec(tag).encode(value)


def is_bits(kind: RegisterKind) -> bool:
    """Whether the table holds single bits rather than 16-bit registers."""
    return kind in (RegisterKind.COIL, RegisterKind.DISCRETE_INPUT)


def _truth(tag: Tag, value: Value) -> int:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return int(value)
    raise Refused(f"{tag.key} takes true or false, not {value!r}", tag=tag.key)


def _shown(wire: bytes) -> str:
    """A text from the field is data: it ends at NUL, padding blanks are cut, and what does not print is replaced."""
    text = wire.split(b"\0", 1)[0].decode("utf-8", errors="replace").rstrip(" ")
    return "".join(letter if letter.isprintable() else _UNSHOWN for letter in text)


def _text_bytes(tag: Tag, value: Value) -> bytes:
    if not isinstance(value, str) or not value.isprintable():
        raise Refused(f"{tag.key} takes a text of printable characters, not {value!r}", tag=tag.key)
    text, room = value.encode("utf-8"), 2 * tag.register_count
    if len(text) > room:
        raise Refused(f"{tag.key} has room for {room} bytes, not {len(text)}", tag=tag.key)
    return text.ljust(room, b"\0")


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond float64
        return False


def _exact(number: float) -> Decimal:
    return Decimal(str(number))  # the number as it was written in the plant model, not its binary neighbour
