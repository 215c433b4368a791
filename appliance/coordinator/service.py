"""Runs one replica of the coordinator until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from appliance.contracts.errors import ConfigError
from appliance.coordinator.app import create_app
from appliance.coordinator.desk import Desk
from appliance.coordinator.settings import CoordinatorSettings
from appliance.coordinator.signer import Signer
from appliance.coordinator.store.database import CoordinatorStore
from appliance.coordinator.tokens import admin_digest
from appliance.foundation.id_source import SystemIds
from appliance.foundation.system_clock import SystemClock

log = logging.getLogger(__name__)

_GRACE_S = 2  # requests under way at SIGTERM may finish within this; their senders know how to ask again
_KEEP_ALIVE_S = 75  # longer than an appliance's pause between two polls, so that its connection stays usable
_CONCURRENT = 200  # connections served at once; more are told 503 rather than queued


class _Server(uvicorn.Server):
    """Uvicorn that says when it listens and leaves signals to :func:`serve`."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._says_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._says_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: CoordinatorSettings, *, ready: Callable[[int], None] | None = None) -> None:
    """Serve until SIGTERM, SIGINT or cancellation; then stop within 3 s. ``ready`` is called with the port once it listens.

    Raises:
        ConfigError: the address cannot be listened on, or the admin token file or the signing key is not private.
        Refused: the database was written by a newer version.
        Unavailable: the database cannot be had.
    """
    clock = SystemClock()
    digest = await asyncio.to_thread(admin_digest, settings.admin_token_file)
    signer = await asyncio.to_thread(Signer.load_or_make, settings.signing_key_path, settings.fleet)
    store = CoordinatorStore(settings.database_url)
    try:
        await asyncio.to_thread(store.migrate)
        with _listening(settings) as listener:
            port = int(listener.getsockname()[1])

            def started() -> None:
                log.info("coordinator.ready", extra={"host": settings.host, "port": port, "tls": settings.tls_cert is not None})
                if ready is not None:
                    ready(port)

            desk = Desk(store, clock, SystemIds(clock), digest, signer)
            server = _Server(_config(create_app(desk), settings), started)
            with _stopping(server):
                await server.serve([listener])
    finally:
        store.close()


def _config(app: object, settings: CoordinatorSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's alias spells ASGI with its own types
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=_CONCURRENT,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


@contextlib.contextmanager
def _listening(settings: CoordinatorSettings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=256)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            file="coordinator",
            key="port",
            cure="Free the port or choose another; 0 takes any.",
        ) from error
    with listener:
        # Accepted connections inherit this. Without it every answer waits some 40 ms for the other side's delayed
        # acknowledgement: asyncio sets it by itself only on sockets made with an explicit protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


@contextlib.contextmanager
def _stopping(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the server where this process takes signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
