"""A Modbus link and the devices behind it."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from appliance.contracts.errors import Malformed
from appliance.contracts.tag import RegisterKind, WireNumber


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LinkProtocol(StrEnum):
    """How Modbus travels: Modbus TCP, the same inside TLS (Modbus Security) or UDP, RTU frames on a serial line or inside TCP."""

    TCP = "tcp"
    TLS = "tls"
    UDP = "udp"
    RTU = "rtu"
    RTU_OVER_TCP = "rtu_over_tcp"


class Addressing(StrEnum):
    """How the addresses of a device's tags are written down. On the wire they always start at 0.

    ``wire`` as on the wire; ``one_based`` one more, as many manuals count; ``reference`` with the table in front, in five or six
    digits: 40001 or 400001 is holding register 0, 30001 input register 0, 10001 discrete input 0, 1 (00001) coil 0.
    """

    WIRE = "wire"
    ONE_BASED = "one_based"
    REFERENCE = "reference"


_REFERENCE_DIGIT = {
    RegisterKind.COIL: 0,
    RegisterKind.DISCRETE_INPUT: 1,
    RegisterKind.INPUT_REGISTER: 3,
    RegisterKind.HOLDING_REGISTER: 4,
}


# Rates that POSIX and Linux name (termios(3)); every adapter and driver has these.
_BAUDS = (
    300, 600, 1_200, 1_800, 2_400, 4_800, 9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600
)  # fmt: skip
_MOST_DIGITS = 6


def read_written(written: object, kind: RegisterKind, addressing: Addressing) -> int:
    """Return the wire address of an address as a file has it: a number, or in ``reference`` notation also text (``"00018"``).

    Raises:
        Malformed: it is not an address in this notation, or belongs to another table.
    """
    if isinstance(written, str):
        is_reference = addressing is Addressing.REFERENCE and re.fullmatch("[0-9]+", written, re.ASCII)
        if not is_reference or len(written) > _MOST_DIGITS:
            cure = "; write the number without quotes" if addressing is not Addressing.REFERENCE else ""
            raise Malformed(f"{written!r} is not an address in {addressing} notation{cure}", address=written)
        if len(written) in (5, 6) and int(written[0]) != _REFERENCE_DIGIT[kind]:
            raise Malformed(f"{written!r} is not the address of a {kind} in {addressing} notation", address=written)
        return to_wire_address(int(written), kind, addressing)
    if isinstance(written, bool) or not isinstance(written, int):
        raise Malformed(f"{written!r} is not an address; write a whole number", address=str(written))
    return to_wire_address(written, kind, addressing)


def to_wire_address(written: int, kind: RegisterKind, addressing: Addressing) -> int:
    """Return the 0-based wire address of an address as it is written down.

    Raises:
        Malformed: it is not an address in this notation, or belongs to another table.
    """
    if addressing is Addressing.WIRE:
        wire = written
    elif addressing is Addressing.ONE_BASED:
        wire = written - 1
    else:
        digit = _REFERENCE_DIGIT[kind]
        # Five digits reach 9,999 addresses, six reach all; which was meant shows by the size, as the tables do not overlap.
        base = digit * 10_000 if written <= digit * 10_000 + 9_999 else digit * 100_000
        wire = written - base - 1
    if not 0 <= wire <= 65_535:
        raise Malformed(f"{written} is not the address of a {kind} in {addressing} notation", address=written)
    return wire


class SerialPort(_Frozen):
    """A serial line. Modbus over serial line 1.02, section 2.5.1: even parity by default, two stop bits where there is none."""

    device: str = Field(min_length=1, description="device file, such as /dev/ttyUSB0, better /dev/serial/by-id/…")
    baud: int = Field(default=19_200, description="bits a second, as the devices on the line are set")
    parity: Literal["E", "O", "N"] = "E"
    stop_bits: Literal[1, 2] = 1
    byte_size: Literal[7, 8] = 8

    @field_validator("baud")
    @classmethod
    def _is_a_usual_rate(cls, baud: int) -> int:
        if baud not in _BAUDS:
            raise ValueError(f"{baud} is not a rate of serial lines: {', '.join(map(str, _BAUDS))}")
        return baud


class LinkTls(_Frozen):
    """TLS of a link. The device is verified against ``ca``; ``cert`` and ``key`` are ours, for devices that verify us."""

    ca: Path
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = Field(default=None, description="name in the device's certificate, when it is not the host")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("tls needs both cert and key, or neither")
        return self


class Forbidden(_Frozen):
    """Addresses a device must never be asked for: reading them resets a counter, or stops it. Both ends belong to it."""

    kind: RegisterKind
    first: int = Field(ge=0, le=65_535)
    last: int = Field(ge=0, le=65_535)

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.first > self.last:
            raise ValueError(f"forbidden {self.kind} {self.first} to {self.last} covers nothing: first must not be above last")
        return self


class Device(_Frozen):
    """A device (unit) on a link, where it differs from the usual. Wire addresses throughout, except those of its tags."""

    id: WireNumber = Field(ge=0, le=255)
    addressing: Addressing = Addressing.WIRE
    timeout_s: float | None = Field(default=None, gt=0, le=60, description="absent: the link's")
    retries: int | None = Field(default=None, ge=0, le=5, description="absent: the link's")
    # Modbus Application Protocol 1.1b3, sections 6.1-6.4: 2000 bits or 125 registers a request.
    most_registers: int = Field(default=125, ge=1, le=125, description="most registers it gives in one answer")
    most_bits: int = Field(default=2000, ge=1, le=2000, description="most coils or inputs it gives in one answer")
    widest_gap: int = Field(default=8, ge=0, le=124, description="unwanted registers read between two tags to save a request")
    forbidden: tuple[Forbidden, ...] = ()


class Link(_Frozen):
    """A link to one PLC, or to a gateway or serial line with several devices. Seconds for all times."""

    id: str
    protocol: LinkProtocol = LinkProtocol.TCP
    host: str | None = None
    port: int = Field(default=502, ge=1, le=65_535)
    serial: SerialPort | None = None
    tls: LinkTls | None = None
    timeout_s: float = Field(default=1.0, gt=0, le=60)
    retries: int = Field(default=1, ge=0, le=5)
    quiet_s: float = Field(
        default=0.1, ge=0, le=5, description="after a time-out an RTU line is left quiet this long before it is used again"
    )
    devices: tuple[Device, ...] = ()

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.protocol is LinkProtocol.RTU and self.serial is None:
            raise ValueError(f"link {self.id}: rtu needs serial")
        if self.protocol is not LinkProtocol.RTU and (self.host is None or self.serial is not None):
            raise ValueError(f"link {self.id}: {self.protocol} needs host, and takes no serial")
        if (self.protocol is LinkProtocol.TLS) != (self.tls is not None):
            raise ValueError(f"link {self.id}: protocol tls and the tls section belong together")
        ids = [device.id for device in self.devices]
        if len(set(ids)) != len(ids):
            raise ValueError(f"link {self.id}: a device is declared twice")
        return self

    @property
    def where(self) -> str:
        """Where the link leads, for people: ``host:port`` or the serial device."""
        return self.serial.device if self.serial else f"{self.host}:{self.port}"

    def device(self, device_id: int) -> Device:
        """Return the device as declared, or with the usual settings."""
        return next((device for device in self.devices if device.id == device_id), Device(id=device_id))
