"""The local API as a service on a Unix socket. Who may open the socket may ask: the file's mode is the door."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvicorn

from appliance.console.acts import NO_ACTS, Acts
from appliance.console.peer import PeerProtocol
from appliance.console.routes import ReadVitals, build_api
from appliance.contracts.errors import OwnedElsewhere
from appliance.contracts.ports import Core
from appliance.contracts.store import Ledger
from appliance.foundation.unix_socket import refusal_of

log = logging.getLogger(__name__)

_SOCKET_MODE = 0o660  # owner and group: technicians are members of the service's group
_FOLDER_MODE = 0o750
_BACKLOG = 64
_GRACE_S = 3  # a request in flight gets this long when the core stops (R7: 3 s grace)


class LocalApi:
    """Serves :func:`build_api` on ``path`` until cancelled; the socket's file is there only while it serves."""

    def __init__(
        self,
        core: Core,
        ledger: Ledger,
        read_vitals: ReadVitals,
        *,
        path: Path,
        language: str,
        languages: Sequence[str] = (),
        acts: Acts = NO_ACTS,
        refuses_talk: Callable[[], str] = lambda: "",
    ) -> None:
        self._path = path
        self._api = build_api(
            core, ledger, read_vitals, language=language, languages=languages, acts=acts, refuses_talk=refuses_talk
        )
        self.serving = asyncio.Event()

    async def run(self) -> None:
        """Serve for ever; ``serving`` is set while the socket accepts.

        Raises:
            OwnedElsewhere: another living process serves this socket.
        """
        listener = listen(self._path)
        config = uvicorn.Config(
            self._api,
            lifespan="off",
            http=PeerProtocol,
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="local api")
        try:
            log.info("local_api.serving", extra={"socket": str(self._path)})
            self.serving.set()
            await asyncio.shield(serving)
        finally:
            self.serving.clear()
            self._path.unlink(missing_ok=True)
            server.end()
            await serving
            listener.close()


class _Server(uvicorn.Server):
    """uvicorn within a process that has its own signal handling, and that tells it when to end: it does not look ten times a
    second whether it shall, nor what the time is for a header."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    async def main_loop(self) -> None:
        """Serve until :meth:`end`."""
        await self._ending.wait()

    def end(self) -> None:
        """Take no more requests, finish those that run, and return from ``serve``."""
        self.should_exit = True
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(path: Path) -> socket.socket:
    """Return a listening Unix socket at ``path``; a file left by a process that died is replaced.

    Raises:
        OwnedElsewhere: a living process answers there.
    """
    path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    if not isinstance(refusal_of(path), FileNotFoundError | ConnectionRefusedError):
        raise OwnedElsewhere(f"another process serves {path}; stop that one first", socket=str(path))
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(_SOCKET_MODE)  # before listen(): until then nobody can connect
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
