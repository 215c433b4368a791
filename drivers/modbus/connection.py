"""One connection to a PLC, gateway or serial line: opens, asks, closes. With ``transports`` the only file that knows
pymodbus.

Framing is pymodbus's. Its clients are not used: they can wait for each unit only equally long, check no server name, take one
TLS record for one frame, keep a second socket when they reconnect, and take answers to other requests for success.

A connection is never repaired. When it is closed, a late answer has nowhere to arrive, and a new one opens only after that.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from appliance.contracts.link import Link, LinkProtocol
from drivers.modbus.requests import Misfit, Request
from drivers.modbus.transports import DatagramWire, Wire, open_transport

if TYPE_CHECKING:
    from pymodbus.framer import FramerBase

_RTU = (LinkProtocol.RTU, LinkProtocol.RTU_OVER_TCP)
_MBAP_HEADER_BYTES = 7  # Modbus Messaging on TCP/IP 1.0b, section 3.1.3
_LONGEST_MBAP_LENGTH = 254  # unit and the longest PDU
_WRAPS_AT = 0xFFFF
_MOST_UNREAD_BYTES = 512  # two of the longest RTU frames: what is left of a noisy line is no frame

_CRC_BYTES = 2  # Modbus over serial line 1.02, section 2.5.1.2

# Modbus over serial line 1.02, section 2.5.1.1: 3.5 characters of silence between frames, above 19,200 Bd always 1.75 ms.
_FRAME_GAP_CHARACTERS, _BITS_A_CHARACTER, _SHORTEST_FRAME_GAP_S = 3.5, 11, 0.001_75


class NoAnswer(Exception):
    """No usable answer came. ``was_sent`` says whether the request may have reached the device."""

    def __init__(self, why: str, *, was_sent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.was_sent = was_sent


class ConnectionLost(NoAnswer):
    """The connection ended before an answer came; this says nothing about the unit that was asked."""


class Nonsense(NoAnswer):
    """Something came that is not the answer."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request in flight."""

    device_id: int
    transaction: int
    answer: asyncio.Future[bytes]


class Connection(asyncio.Protocol, asyncio.DatagramProtocol):
    """Not safe for concurrent requests: its link gives turns. What comes while nothing is asked is thrown away.

    ``on_late`` is told ``(device_id, pdu)`` of an RTU answer that nobody waits for: it was asked for earlier and given up.
    """

    def __init__(self, link: Link, on_late: Callable[[int, bytes], None] = lambda *_: None) -> None:
        loop = asyncio.get_running_loop()
        self._link = link
        self._on_late = on_late
        self._is_rtu = link.protocol in _RTU
        self._framer = _framer(is_rtu=self._is_rtu)
        self._frame_gap_s = _frame_gap_s(link)
        self._wire: Wire | None = None
        self._made: asyncio.Future[None] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._is_closed = False
        self._buffer = b""
        self._heard_at_s = loop.time()
        self._transaction = 0
        self._asked: _Asked | None = None
        self._loss = "the connection was lost"

    @property
    def is_usable(self) -> bool:
        """Whether requests can be sent, as far as is known."""
        return self._wire is not None and not self._is_closed

    @property
    def is_between_frames(self) -> bool:
        """Whether no part of a frame is waiting for its rest."""
        return not self._buffer

    async def open(self) -> str:
        """Connect within the link's time-out; return an empty text, or why not."""
        try:
            async with asyncio.timeout(self._link.timeout_s):
                await open_transport(self._link, self)
                await self._made
        except TimeoutError:
            return "cannot connect"
        except OSError as error:
            return f"cannot connect{_reason(error, self._link.protocol)}"
        except ValueError as error:  # a host name or a device that no system has: UnicodeError is one too
            return f"cannot connect: {error}"
        return ""

    def close(self) -> None:
        """Close at once. A request in flight gets no answer."""
        if self._is_closed:
            return
        self._is_closed = True
        wire = self._wire
        if wire is None:
            return  # it never opened, or is being cancelled while it opens: connection_made closes what still comes
        wire.abort()
        if self._link.protocol is LinkProtocol.RTU:
            self.connection_lost(None)  # a serial line does not tell

    async def closed(self) -> None:
        """Return when the socket is gone, so that there are never two."""
        if self._wire is not None:
            await asyncio.wait([self._gone], timeout=self._link.timeout_s)  # a bound, should a transport ever not tell

    async def ask(self, device_id: int, request: Request, timeout_s: float) -> tuple[int, ...]:
        """Send ``request`` once and return what was answered: registers, bits, or nothing for a write.

        Raises:
            NoAnswer: nothing came in time; :class:`Nonsense` and :class:`ConnectionLost` say more.
            ExceptionAnswer: the device said no.
        """
        wire = await self._clear_wire()
        loop = asyncio.get_running_loop()
        self._transaction = 0 if self._is_rtu else self._transaction % _WRAPS_AT + 1
        self._asked = asked = _Asked(device_id, self._transaction, loop.create_future())
        timer = loop.call_later(timeout_s, self._end, NoAnswer(f"no answer within {timeout_s:g} s", was_sent=True))
        try:
            wire.write(self._framer.encode(request.pdu, device_id, asked.transaction))
            return request.taken_from(await asked.answer)
        except Misfit as misfit:
            raise Nonsense(f"the answer does not fit the request: {misfit}", was_sent=True) from misfit
        finally:
            timer.cancel()
            self._asked = None
            if asked.answer.done() and not asked.answer.cancelled():
                asked.answer.exception()  # looked at, also when a cancellation came first

    async def stays_quiet(self, quiet_s: float, within_s: float) -> bool:
        """Throw away what still comes until nothing came for ``quiet_s``; return whether that was so ``within_s`` at most."""
        loop = asyncio.get_running_loop()
        starts_s = loop.time()
        self._heard_at_s = max(self._heard_at_s, starts_s)
        while (wait_s := self._heard_at_s + quiet_s - loop.time()) > 0:
            if loop.time() + wait_s > starts_s + quiet_s + within_s:
                return False
            await asyncio.sleep(wait_s)
        return True

    async def _clear_wire(self) -> Wire:
        if not self.is_usable or self._wire is None:
            raise ConnectionLost("not connected", was_sent=False)
        if self._is_rtu:
            gap_s = self._heard_at_s + self._frame_gap_s - asyncio.get_running_loop().time()
            if self._frame_gap_s and gap_s > 0:
                await asyncio.sleep(gap_s)
            self._buffer = b""
            if not self.is_usable:
                raise ConnectionLost(self._loss, was_sent=False)
        return self._wire

    def _end(self, failure: NoAnswer) -> None:
        if self._asked is not None and not self._asked.answer.done():
            self._asked.answer.set_exception(failure)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; close it again when nobody wants it any more."""
        is_datagram = self._link.protocol is LinkProtocol.UDP
        self._wire = DatagramWire(cast(asyncio.DatagramTransport, transport)) if is_datagram else cast(Wire, transport)
        if self._is_closed:
            self._wire.abort()
        elif not self._made.done():
            self._made.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait at once."""
        self._is_closed = True
        self._end(ConnectionLost(self._loss, was_sent=True))
        if not self._gone.done():
            self._gone.set_result(None)

    def eof_received(self) -> None:
        """The other side is done: so are we, without a farewell that TLS would wait for."""
        self.close()

    def error_received(self, exc: Exception) -> None:
        """UDP: the network says that nobody takes the datagram."""
        self._loss = "nobody listens there"
        self.close()

    def datagram_received(self, data: bytes, addr: object) -> None:
        """A datagram is a frame, or it is nothing."""
        self._buffer = data
        self._take_mbap()
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Put frames together."""
        self._heard_at_s = asyncio.get_running_loop().time()
        if self._is_rtu:
            self._buffer = (self._buffer + data)[-_MOST_UNREAD_BYTES:]
            self._take_rtu()
        else:
            self._buffer += data
            self._take_mbap()

    def _take_rtu(self) -> None:
        while self._buffer:
            used, device_id, _, pdu = self._framer.decode(self._buffer)
            if not used:
                return
            if pdu:  # pymodbus counts all that came as used, also a second frame behind this one
                frame = bytes([device_id]) + pdu
                used = self._buffer.index(frame) + len(frame) + _CRC_BYTES
            self._buffer = self._buffer[used:]
            if pdu:
                self._arrived(device_id, 0, pdu)

    def _take_mbap(self) -> None:
        while len(self._buffer) > _MBAP_HEADER_BYTES:
            length = int.from_bytes(self._buffer[4:6], "big")
            if self._buffer[2:4] != b"\0\0" or not 2 <= length <= _LONGEST_MBAP_LENGTH:
                self._end(Nonsense("what came is not Modbus", was_sent=True))
                if self._link.protocol is not LinkProtocol.UDP:
                    self.close()  # where the next frame begins cannot be known any more
                return
            used, device_id, transaction, pdu = self._framer.decode(self._buffer)
            if not used:
                return
            self._buffer = self._buffer[used:]
            self._arrived(device_id, transaction, pdu)

    def _arrived(self, device_id: int, transaction: int, pdu: bytes) -> None:
        asked = self._asked
        if self._is_rtu and (asked is None or asked.answer.done() or device_id != asked.device_id):
            self._on_late(device_id, pdu)
        elif asked is None or asked.answer.done() or transaction != asked.transaction:
            return  # an answer to a request that is given up
        elif device_id == asked.device_id:
            asked.answer.set_result(pdu)
        else:
            self._end(
                Nonsense(
                    f"the answer does not fit the request: device {device_id} answered for device {asked.device_id}",
                    was_sent=True,
                )
            )


def _framer(*, is_rtu: bool) -> FramerBase:
    from pymodbus.framer import FramerRTU, FramerSocket  # a tenth of a second, for those who have links
    from pymodbus.pdu import DecodePDU

    return (FramerRTU if is_rtu else FramerSocket)(DecodePDU(False))


def _frame_gap_s(link: Link) -> float:
    if link.serial is None:
        return 0.0
    return max(_SHORTEST_FRAME_GAP_S, _FRAME_GAP_CHARACTERS * _BITS_A_CHARACTER / link.serial.baud)


def _reason(error: OSError, protocol: LinkProtocol) -> str:
    """What a technician needs beside "cannot connect": the fault of a certificate, of a file, of a serial port."""
    if isinstance(error, ssl.SSLError):
        return f": {getattr(error, 'verify_message', '') or error.reason}"
    if protocol is LinkProtocol.RTU or isinstance(error, FileNotFoundError):
        return f": {error.strerror or error}"
    return ""
