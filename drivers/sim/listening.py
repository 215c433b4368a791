"""Where a simulated PLC listens: TCP, TLS, UDP, or a serial line (a pseudo-terminal of its own when none is named)."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import termios
import tty
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, cast

from appliance.contracts.errors import Refused
from appliance.contracts.link import LinkProtocol

_CHUNK = 4096
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends RST instead of FIN


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen. ``port`` 0 takes a free one; ``device`` None makes a pseudo-terminal; ``tls`` is a server's context."""

    protocol: LinkProtocol = LinkProtocol.TCP
    host: str = "127.0.0.1"
    port: int = 0
    device: str | None = None
    baud: int = 19_200
    tls: ssl.SSLContext | None = None

    @property
    def where(self) -> str:
        """For people: ``host:port`` or the device file."""
        return self.device or "" if self.protocol is LinkProtocol.RTU else f"{self.host}:{self.port}"


class Wire(Protocol):
    """The way back to whoever asked."""

    async def send(self, data: bytes) -> None:
        """Send bytes; a client that is gone is nobody's fault."""
        ...

    def end(self, *, with_reset: bool) -> None:
        """Close the connection, where there is one."""
        ...


class Served(Protocol):
    """What the listener hands bytes to."""

    def opened(self, wire: Wire) -> Callable[[bytes], Awaitable[bool]]:
        """Return where the bytes of a new connection go; it answers False when the connection is of no more use."""
        ...


class Listener:
    """Listens at one endpoint and serves what comes, until :meth:`close`."""

    def __init__(self, endpoint: Endpoint, served: Served) -> None:
        self.endpoint = endpoint
        self._served = served
        self._server: asyncio.Server | None = None
        self._datagrams: asyncio.DatagramTransport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._wires: set[_StreamWire] = set()
        self._descriptors: list[int] = []

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return bool(self._server or self._datagrams or self._descriptors)

    async def open(self) -> Endpoint:
        """Listen and return the endpoint as it came to be.

        Raises:
            Refused: it cannot be had; the message says why.
        """
        wanted = self.endpoint
        try:
            if wanted.protocol is LinkProtocol.RTU:
                self._open_serial()
            elif wanted.protocol is LinkProtocol.UDP:
                loop = asyncio.get_running_loop()
                self._datagrams, _ = await loop.create_datagram_endpoint(
                    lambda: _Datagrams(self._served, self._keep), local_addr=(wanted.host, wanted.port)
                )
                self.endpoint = replace(wanted, port=int(self._datagrams.get_extra_info("sockname")[1]))
            else:
                tls = wanted.tls if wanted.protocol is LinkProtocol.TLS else None
                self._server = await asyncio.start_server(self._accept, wanted.host, wanted.port, ssl=tls, reuse_address=True)
                self.endpoint = replace(wanted, port=int(self._server.sockets[0].getsockname()[1]))
        except (OSError, termios.error) as error:
            cure = "Ports below 1024 need root: choose another." if isinstance(error, PermissionError) else "Choose another."
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise Refused(f"cannot listen at {wanted.where}: {words}", cure=cure) from error
        return self.endpoint

    async def close(self, *, with_reset: bool = False) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for wire in list(self._wires):
            wire.end(with_reset=with_reset)
        if self._datagrams is not None:
            self._datagrams.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        wire = _StreamWire(writer)
        self._wires.add(wire)
        take = self._served.opened(wire)
        try:
            while data := await reader.read(_CHUNK):
                if not await take(data):
                    break
        except (ConnectionError, ssl.SSLError):
            pass  # the client went away
        except asyncio.CancelledError:
            pass  # closing; a task that asyncio's streams find cancelled is logged as an error
        finally:
            wire.end(with_reset=False)
            self._wires.discard(wire)
            self._tasks.discard(task)

    def _open_serial(self) -> None:
        if self.endpoint.device is None:
            ours, theirs = os.openpty()
            tty.setraw(theirs)
            self._descriptors = [ours, theirs]  # theirs stays open, or a client that closes would end the line
            self.endpoint = replace(self.endpoint, device=os.ttyname(theirs))
        else:
            ours = os.open(self.endpoint.device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            self._descriptors = [ours]
            tty.setraw(ours)
            attributes = termios.tcgetattr(ours)
            attributes[4] = attributes[5] = getattr(termios, f"B{self.endpoint.baud}")
            termios.tcsetattr(ours, termios.TCSANOW, attributes)
        os.set_blocking(ours, False)
        self._keep(self._read_serial(ours))

    async def _read_serial(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        def read() -> None:
            try:
                arrived.put_nowait(os.read(descriptor, _CHUNK))
            except OSError:
                arrived.put_nowait(b"")

        take = self._served.opened(_SerialWire(descriptor))
        loop.add_reader(descriptor, read)
        try:
            while data := await arrived.get():
                await take(data)
        finally:
            loop.remove_reader(descriptor)

    def _keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _StreamWire(Wire):
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)
            with suppress(ConnectionError):
                await self._writer.drain()

    def end(self, *, with_reset: bool) -> None:
        plain = self._writer.get_extra_info("socket")
        if with_reset and plain is not None and not self._writer.is_closing():
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._writer.transport.abort()
        else:
            self._writer.close()


class _SerialWire(Wire):
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def send(self, data: bytes) -> None:
        with suppress(BlockingIOError):  # nobody reads the line: it is full, and what is sent is lost, as on a bus
            os.write(self._descriptor, data)

    def end(self, *, with_reset: bool) -> None:
        """A serial line has no connection to close."""


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, served: Served, keep: Callable[[Awaitable[None]], None]) -> None:
        self._served = served
        self._keep = keep
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # its class says so only from Python 3.12 on

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        assert self._transport is not None
        self._keep(self._take(data, _DatagramWire(self._transport, address)))

    async def _take(self, data: bytes, wire: Wire) -> None:
        await self._served.opened(wire)(data)


class _DatagramWire(Wire):
    def __init__(self, transport: asyncio.DatagramTransport, address: tuple[str, int]) -> None:
        self._transport = transport
        self._address = address

    async def send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data, self._address)

    def end(self, *, with_reset: bool) -> None:
        """A datagram has no connection to close."""
