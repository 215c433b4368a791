"""How requests and answers travel: behind an MBAP header (TCP, TLS, UDP), or as RTU frames with a checksum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from appliance.contracts.errors import Malformed
from appliance.contracts.link import LinkProtocol

_HEADER = 7  # Modbus Messaging on TCP/IP 1.0b, section 3.1.3: transaction 2, protocol 2, length 2, unit 1
_LONGEST_PDU = 253  # Modbus Application Protocol 1.1b3, section 4.1
_CRC = 2
# Bytes of an RTU request before its checksum, where the function code alone says so; 15 and 16 carry their byte count at 6.
_FIXED_LENGTH = {1: 6, 2: 6, 3: 6, 4: 6, 5: 6, 6: 6, 22: 8}
_COUNTED = (15, 16)
_BYTE_COUNT_AT = 6


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. ``transaction`` is 0 where the framing has none."""

    device_id: int
    pdu: bytes
    transaction: int = 0


class Framing(Protocol):
    """Cuts a stream into frames and makes frames into bytes; one for each connection."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete with ``data``.

        Raises:
            Malformed: this is no such stream; the connection is of no more use.
        """
        ...

    def pack(self, frame: Frame) -> bytes:
        """Return the bytes of a frame."""
        ...


class MbapFraming(Framing):
    """Modbus TCP."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Frame]:
        """See :class:`Framing`."""
        self._buffer += data
        frames: list[Frame] = []
        while len(self._buffer) >= _HEADER:
            header = self._buffer[:_HEADER]
            length = int.from_bytes(header[4:6], "big")
            if header[2:4] != b"\0\0" or not 2 <= length <= _LONGEST_PDU + 1:
                raise Malformed("not an MBAP header")
            end = _HEADER - 1 + length
            if len(self._buffer) < end:
                break
            frames.append(Frame(header[6], self._buffer[_HEADER:end], int.from_bytes(header[:2], "big")))
            self._buffer = self._buffer[end:]
        return frames

    def pack(self, frame: Frame) -> bytes:
        """See :class:`Framing`."""
        head = frame.transaction.to_bytes(2, "big") + b"\0\0" + (len(frame.pdu) + 1).to_bytes(2, "big")
        return head + bytes([frame.device_id]) + frame.pdu


class RtuFraming(Framing):
    """Modbus RTU. Where a frame ends follows from its function, not from silence, which a byte stream does not keep."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Frame]:
        """See :class:`Framing`. What fails its checksum is dropped with everything after it, as a device on a bus does."""
        self._buffer += data
        frames: list[Frame] = []
        while (end := self._end()) is not None:
            raw, self._buffer = self._buffer[:end], self._buffer[end:]
            if crc16(raw[:-_CRC]) != raw[-_CRC:]:
                self._buffer = b""
            else:
                frames.append(Frame(raw[0], raw[1:-_CRC]))
        return frames

    def pack(self, frame: Frame) -> bytes:
        """See :class:`Framing`."""
        body = bytes([frame.device_id]) + frame.pdu
        return body + crc16(body)

    def _end(self) -> int | None:
        if len(self._buffer) < 2:
            return None
        function = self._buffer[1]
        if function in _COUNTED:
            if len(self._buffer) <= _BYTE_COUNT_AT:
                return None
            length = _BYTE_COUNT_AT + 1 + self._buffer[_BYTE_COUNT_AT]
        else:
            length = _FIXED_LENGTH.get(function, len(self._buffer) - _CRC)  # an unknown function: all there is
        return length + _CRC if len(self._buffer) >= length + _CRC else None


def framing_of(protocol: LinkProtocol) -> Framing:
    """Return a new framing for one connection."""
    return RtuFraming() if protocol in (LinkProtocol.RTU, LinkProtocol.RTU_OVER_TCP) else MbapFraming()


def crc16(data: bytes) -> bytes:
    """Return the checksum, low byte first (Modbus over serial line 1.02, section 6.2.2)."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc.to_bytes(2, "little")
