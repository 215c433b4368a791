"""A tag: one value on the wire, how it decodes, how often it is read and what may be written to it."""

from __future__ import annotations

import re
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, model_validator

from appliance.contracts.errors import Malformed

MOST_STRING_REGISTERS = 60
"""Longest text of a tag in registers: more than any display of a PLC shows, less than one request carries."""


NO_FLAG = "none"
"""Text of a bitfield in which no bit is set."""
_BIT = re.compile(r"bit \d+")  # how a set bit without a name is shown

MQTT_LINK = "mqtt"
"""``link`` of tags that a gateway publishes; no Modbus link may have this name."""


class RegisterKind(StrEnum):
    """The four Modbus tables (Modbus Application Protocol 1.1b3, section 4.3), and ``published`` for values that come by MQTT."""

    COIL = "coil"
    DISCRETE_INPUT = "discrete_input"
    INPUT_REGISTER = "input_register"
    HOLDING_REGISTER = "holding_register"
    PUBLISHED = "published"


class DataType(StrEnum):
    """How registers decode. ``bcd16`` and ``bcd32`` hold four and eight decimal digits, ``string`` two characters a register."""

    BOOL = "bool"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BCD16 = "bcd16"
    BCD32 = "bcd32"
    STRING = "string"


_REGISTERS: dict[DataType, int] = {
    DataType.INT32: 2,
    DataType.UINT32: 2,
    DataType.FLOAT32: 2,
    DataType.BCD32: 2,
    DataType.INT64: 4,
    DataType.UINT64: 4,
    DataType.FLOAT64: 4,
}
_FLOATS = (DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64)
_RAW_RANGE: dict[DataType, tuple[float, float]] = {
    DataType.INT16: (-(2**15), 2**15 - 1),
    DataType.UINT16: (0, 2**16 - 1),
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.UINT32: (0, 2**32 - 1),
    DataType.INT64: (-(2**63), 2**63 - 1),
    DataType.UINT64: (0, 2**64 - 1),
    DataType.FLOAT16: (-65_504.0, 65_504.0),
    DataType.FLOAT32: (-3.402_823_5e38, 3.402_823_5e38),
    DataType.FLOAT64: (-1.797_693_134_862_315_7e308, 1.797_693_134_862_315_7e308),
    DataType.BCD16: (0, 9_999),
    DataType.BCD32: (0, 99_999_999),
}


class WordOrder(StrEnum):
    """Byte and word order of values of several registers: ABCD is big-endian both ways, CDAB has the lowest word first, BADC
    swaps the bytes of each word, DCBA does both. Four registers follow the same rule (CDAB is GHEFCDAB), a string only swaps
    bytes. A number of one register is always big-endian, as Modbus itself says (Application Protocol 1.1b3, section 4.2).
    """

    ABCD = "ABCD"
    BADC = "BADC"
    CDAB = "CDAB"
    DCBA = "DCBA"


class WriteFunction(StrEnum):
    """By which function a tag is written: ``auto`` takes 5 or 6 for one coil or register, 16 for several and 22 (mask write)
    for a bit of a register; ``multiple`` takes 15 or 16 even for one, for devices that know no other."""

    AUTO = "auto"
    MULTIPLE = "multiple"


def _plain_number(told: Any) -> Any:
    """A number is a number: text that happens to be digits would pass by the device's notation, and name another register."""
    if isinstance(told, Malformed):
        raise ValueError(told.message)  # what the plant model found when it read the address in the device's notation
    if isinstance(told, str):
        raise ValueError(
            "must be a plain number, not text in quotes or from a variable; only addresses in reference notation may be in quotes"
        )
    return told


WireNumber = Annotated[StrictInt, BeforeValidator(_plain_number)]
"""A whole number of the wire (an address, a device id). Neither text nor a fraction nor true stands for one."""


def _is_no_name_of_a_flag(name: str) -> bool:
    told = name.strip().casefold()
    return "," in told or told in ("", NO_FLAG) or _BIT.fullmatch(told) is not None


class Tag(BaseModel):
    """One value on the wire. ``address`` is the 0-based wire address; limits are in engineering units.

    A tag of the link ``mqtt`` and kind ``published`` is named by a topic mapping instead of an address, and cannot be written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    asset: str
    link: str
    device_id: WireNumber = Field(default=0, ge=0, le=255)
    kind: RegisterKind
    address: WireNumber = Field(default=0, ge=0, le=65535)
    type: DataType
    bit: int | None = Field(default=None, ge=0, le=15, description="of a register that holds bits; 0 is the lowest")
    length: int = Field(default=1, ge=1, le=MOST_STRING_REGISTERS, description="registers of a string")
    word_order: WordOrder = WordOrder.ABCD
    scale: float = 1.0
    offset: float = 0.0
    unit: str = ""
    decimals: int = Field(default=0, ge=0, le=6)
    clamp: tuple[float, float] | None = Field(default=None, description="lowest and highest value that is shown when read")
    names: dict[int, str] = Field(default_factory=dict, description="what the numbers of an enumeration mean")
    flags: dict[int, str] = Field(default_factory=dict, description="what the bits of a bitfield mean when set")
    writable: bool = False
    write_function: WriteFunction = WriteFunction.AUTO
    low: float | None = None
    high: float | None = None
    sentinels: list[int] = Field(
        default_factory=list,
        description="unsigned raw values by which the device says 'no measurement', such as 0x8000 or 0xFFFF",
    )
    poll: str | None = Field(default=None, description="poll group; without one the tag is read when somebody asks")
    deadband: float | None = Field(default=None, gt=0, description="smallest change worth reporting, in engineering units")
    deadband_percent: float | None = Field(default=None, gt=0, le=100, description="the same, in percent of the last reported")
    spoken: dict[str, list[str]] = Field(description="language -> names people say, first one is said back")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for why in self._faults():
            raise ValueError(f"tag {self.name}: {why}")
        return self

    def _faults(self) -> list[str]:
        in_bits = self.kind in (RegisterKind.COIL, RegisterKind.DISCRETE_INPUT)
        is_number = self.type not in (DataType.BOOL, DataType.STRING)
        is_whole = is_number and self.type not in _FLOATS
        is_published = self.kind is RegisterKind.PUBLISHED
        told: dict[str, Any] = {
            f"link {MQTT_LINK} and kind published belong together": is_published != (self.link == MQTT_LINK),
            "a published tag has no device_id, address, bit or poll": is_published
            and (self.device_id or self.address or self.bit is not None or self.poll),
            "device_id and address are needed": not is_published and not {"device_id", "address"} <= self.model_fields_set,
            f"a {self.kind} holds a bool, not {self.type}": in_bits and self.type is not DataType.BOOL,
            f"a bool in a {self.kind} needs bit": not (in_bits or is_published)
            and self.type is DataType.BOOL
            and self.bit is None,
            "bit is for a bool in a register": self.bit is not None and (in_bits or self.type is not DataType.BOOL),
            "length is for a string": self.length != 1 and self.type is not DataType.STRING,
            "scale and offset must be finite, scale not 0": not (isfinite(self.scale) and isfinite(self.offset) and self.scale),
            "low and high must be finite": any(limit is not None and not isfinite(limit) for limit in (self.low, self.high)),
            "low and high are for numbers; what names or flags allow is all that they declare": self.writable
            and bool(self.names or self.flags)
            and (self.low is not None or self.high is not None),
            "low must not be above high": self.low is not None and self.high is not None and not self.low <= self.high,
            "clamp must be two finite numbers, the lower first": self.clamp is not None
            and not (all(map(isfinite, self.clamp)) and self.clamp[0] <= self.clamp[1]),
            "names and flags are for whole numbers, and only one of them": (self.names and self.flags)
            or ((self.names or self.flags) and not is_whole),
            "names and flags take neither scale, offset nor clamp": (self.names or self.flags)
            and (self.scale != 1 or self.offset != 0 or self.clamp),
            "two numbers have the same name": len(set(map(str.casefold, self.names.values()))) != len(self.names),
            f"the name of a flag is not empty, holds no comma, and is neither {NO_FLAG!r} nor 'bit' and a number": any(
                map(_is_no_name_of_a_flag, self.flags.values())
            ),
            "two flags have the same name": len(set(map(str.casefold, self.flags.values()))) != len(self.flags),
            "a deadband is for numbers, and is either absolute or in percent": (self.deadband and self.deadband_percent)
            or ((self.deadband or self.deadband_percent) and (not is_number or self.names or self.flags)),
            f"a {self.kind} cannot be writable; use a coil or holding_register": self.writable
            and self.kind in (RegisterKind.DISCRETE_INPUT, RegisterKind.INPUT_REGISTER, RegisterKind.PUBLISHED),
            "writable needs low and high": self.writable
            and is_number
            and not (self.names or self.flags)
            and (self.low is None or self.high is None),
            "the last register is beyond 65535": self.address + self.register_count > 65536,
        }
        return [why for why, is_so in told.items() if is_so]

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest number the registers can hold, in engineering units; ``(0, 0)`` where it is no number."""
        lowest, highest = (raw * self.scale + self.offset for raw in _RAW_RANGE.get(self.type, (0.0, 0.0)))
        return min(lowest, highest), max(lowest, highest)

    def can_hold(self, number: float) -> bool:
        """Return whether the registers can hold ``number`` (engineering units), rounded to their nearest step."""
        lowest, highest = self.range
        half_a_step = 0.0 if self.type in _FLOATS else abs(self.scale) / 2
        return lowest - half_a_step <= number <= highest + half_a_step

    @property
    def key(self) -> str:
        """Unique name across the plant: ``asset.name``."""
        return f"{self.asset}.{self.name}"

    @property
    def where(self) -> str:
        """Where the tag stands on the wire, for people: ``input_register 12-13 of device 1 on line_3``."""
        if self.kind is RegisterKind.PUBLISHED:
            return "published by MQTT"
        last = self.address + self.register_count - 1
        place = f"{self.address}" if last == self.address else f"{self.address}-{last}"
        bit = "" if self.bit is None else f" bit {self.bit}"
        return f"{self.kind} {place}{bit} of device {self.device_id} on {self.link}"

    @property
    def register_count(self) -> int:
        """Registers (or bits) the value spans."""
        return self.length if self.type is DataType.STRING else _REGISTERS.get(self.type, 1)
