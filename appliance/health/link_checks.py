"""Looks whether a link can be reached, as far as that shows without asking a device anything."""

from __future__ import annotations

import os
import socket
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.contracts.link import LinkTls

Transport = Literal["tcp", "tls", "udp", "serial"]

_ANSWER_S = 3.0  # a link on the same site answers within milliseconds; this bounds the whole examination


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a link leads. ``check`` names the finding, ``what`` the link for people; ``host`` is the device file of serial."""

    check: str
    what: str
    host: str
    port: int = 0
    transport: Transport = "tcp"
    tls: LinkTls | None = None

    @property
    def place(self) -> str:
        """Name and place, for people."""
        return f"{self.what} at {self.host}" + ("" if self.transport == "serial" else f":{self.port}")


def look_at(link: Endpoint) -> tuple[bool, str, str]:
    """Return whether all is well, what was found, and the cure (empty when well). Takes a few seconds at most."""
    match link.transport:
        case "serial":
            return _serial(link)
        case "udp":
            return _udp(link)
    try:
        with socket.create_connection((link.host, link.port), timeout=_ANSWER_S) as connection:
            if link.tls is None:
                return True, f"{link.place} answers", ""
            return _shake_hands(link, link.tls, connection)
    except OSError as error:
        return False, _words(link, error), f"Check that it runs, its address in the configuration, and the cable to {link.host}."


def _shake_hands(link: Endpoint, tls: LinkTls, connection: socket.socket) -> tuple[bool, str, str]:
    """By the rules the driver has: the device is verified against ``ca`` alone, with its name; TLS 1.2 or newer."""
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(tls.ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as error:
        return (
            False,
            f"{link.what}: its certificates cannot be used: {_reason(error)}",
            "Check the files under tls, and who may read them.",
        )
    try:
        with context.wrap_socket(connection, server_hostname=tls.server_name or link.host) as secured:
            return True, f"{link.place} answers, its certificate is good ({secured.version()})", ""
    except OSError as error:
        cure = "Check ca and server_name of the link, the device's certificate, and the clock of both."
        return False, f"{link.place} answers, but not in TLS as agreed: {_reason(error)}", cure


def _udp(link: Endpoint) -> tuple[bool, str, str]:
    try:
        socket.getaddrinfo(link.host, link.port, type=socket.SOCK_DGRAM)
    except OSError as error:
        return False, _words(link, error), "Check its address in the configuration, and the name server."
    return True, f"{link.place} is UDP, which shows only by asking: floorhand tags read", ""


def _serial(link: Endpoint) -> tuple[bool, str, str]:
    try:
        mode = Path(link.host).stat().st_mode
    except OSError as error:
        cure = "Plug the adapter in; `ls /dev/serial/by-id` lists those there are, by names that stay the same."
        return False, f"{link.place}: {_reason(error)}", cure
    if not stat.S_ISCHR(mode):
        return False, f"{link.place} is no serial device", "Name the device file of the adapter."
    if not os.access(link.host, os.R_OK | os.W_OK):
        cure = "Put the service's user into its group (adduser floorhand dialout) and restart, or give access by a udev rule."
        return False, f"{link.place} may not be read and written", cure
    return True, f"{link.place} is there; who answers on it shows by asking: floorhand tags read", ""


def _words(link: Endpoint, error: OSError) -> str:
    return f"{link.place}: {_reason(error)}"


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.strerror or str(error) or type(error).__name__
