"""Opens what Modbus travels on: TCP, TLS, UDP or a serial line. The host name is resolved anew each time."""

from __future__ import annotations

import asyncio
import ssl
import termios
from typing import Protocol, cast

from appliance.contracts.link import Link, LinkProtocol, LinkTls, SerialPort


class Wire(Protocol):
    """What is needed of an asyncio transport, of whatever kind."""

    def write(self, data: bytes) -> None:
        """Send."""
        ...

    def abort(self) -> None:
        """Close at once; what was not sent yet is dropped."""
        ...


class DatagramWire:
    """A UDP socket that looks like a stream of frames."""

    def __init__(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Send one datagram."""
        self._transport.sendto(data)

    def abort(self) -> None:
        """Close the socket."""
        self._transport.abort()


async def open_transport(link: Link, protocol: asyncio.BaseProtocol) -> None:
    """Open the link's transport; ``protocol.connection_made`` is given it. The caller sets the time limit.

    Raises:
        OSError: it cannot be opened: nobody there, no such file or name, a certificate that does not verify.
    """
    loop = asyncio.get_running_loop()
    host = str(link.host)  # every protocol but serial has one
    if link.serial is not None:
        await _open_serial(loop, link.serial, protocol)
    elif link.protocol is LinkProtocol.UDP:
        datagrams = cast(asyncio.DatagramProtocol, protocol)
        await loop.create_datagram_endpoint(lambda: datagrams, remote_addr=(host, link.port))
    elif link.tls is not None:
        name = link.tls.server_name or host
        await loop.create_connection(lambda: protocol, host, link.port, ssl=tls_context(link.tls), server_hostname=name)
    else:
        await loop.create_connection(lambda: protocol, host, link.port)


def tls_context(tls: LinkTls) -> ssl.SSLContext:
    """Return a context that trusts ``tls.ca`` alone and checks the name. Read anew each time: certificates are replaced.

    Raises:
        OSError: a file is missing or holds no certificate.
    """
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(tls.ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # Modbus/TCP Security 21, section 6
    if tls.cert is not None:
        context.load_cert_chain(str(tls.cert), None if tls.key is None else str(tls.key))
    return context


async def _open_serial(loop: asyncio.AbstractEventLoop, port: SerialPort, protocol: asyncio.BaseProtocol) -> None:
    from pymodbus.transport.serialtransport import create_serial_connection  # heavy, and few have a serial line

    try:
        await create_serial_connection(
            loop,
            lambda: protocol,
            port.device,
            baudrate=port.baud,
            bytesize=port.byte_size,
            parity=port.parity,
            stopbits=port.stop_bits,
            timeout=0,
        )
    except termios.error as error:  # a setting that this port does not have; it is no OSError
        raise OSError(*error.args) from error
