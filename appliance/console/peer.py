"""Who is at the other end of the local socket: the kernel knows the user (unix(7), SO_PEERCRED), and cannot be told otherwise."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
from dataclasses import dataclass

from fastapi import Request
from uvicorn.protocols.http.auto import AutoHTTPProtocol

_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_USER = "uid"


class PeerProtocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # it is a class, chosen when uvicorn is imported
    """HTTP over a Unix socket; a request's ``client`` is ``("uid", user id)``, which uvicorn leaves empty there."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        end: socket.socket = transport.get_extra_info("socket")
        _, uid, _ = _UCRED.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        self.client = (_USER, uid)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks. ``owns_secrets``: could read this service's secret files anyhow, being root or the service's own user."""

    user: str
    owns_secrets: bool


def peer_of(request: Request) -> Peer:
    """Return who asks. The name may be looked up over a network: call it on another thread."""
    client = request.client
    if client is None or client.host != _USER:
        return Peer("", owns_secrets=False)
    try:
        name = pwd.getpwuid(client.port).pw_name
    except KeyError:  # a user of another machine, or a container's
        name = str(client.port)
    return Peer(name, owns_secrets=client.port in (0, os.getuid()))
