"""The socket: a Wyoming server for exactly one client at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from wyoming.event import Event, async_read_event, async_write_event

from voice import wire
from voice.service import VoiceService

log = logging.getLogger(__name__)

_LIMIT_BYTES = 4_000_000  # of one line; grammars travel as counted data behind it


@contextlib.contextmanager
def _listening_on(path: Path) -> Iterator[socket.socket]:
    """A socket that only this user can connect to; its file goes with it."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    try:
        yield listening
    finally:
        path.unlink(missing_ok=True)


class VoiceServer:
    """Carries events between the client and the service. :meth:`emit` may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._outbound: asyncio.Queue[Event] = asyncio.Queue(1_000)
        self._client_writer: asyncio.StreamWriter | None = None
        self._no_client = asyncio.Event()
        self._no_client.set()
        self.service: VoiceService

    def emit(self, event: Event) -> None:
        """Send an event to the client; without one it is dropped, and a transcript's loss is logged."""
        self._loop.call_soon_threadsafe(self._put, event)

    async def serve(self, path: Path, stopping: asyncio.Event) -> None:
        """Serve on ``path`` until told to stop."""
        with _listening_on(path) as listening:
            async with await asyncio.start_unix_server(self._client, sock=listening, limit=_LIMIT_BYTES):
                await stopping.wait()
                if self._client_writer is not None:
                    self._client_writer.close()
                await self._no_client.wait()

    def _put(self, event: Event) -> None:
        if self._client_writer is None or self._outbound.full():
            if event.type == wire.TRANSCRIPT:
                log.warning("voice.transcript_lost", extra={"utterance": event.data["id"]})
            return
        self._outbound.put_nowait(event)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._client_writer is not None:
                await async_write_event(wire.error_event("another client is connected", "owned_elsewhere"), writer)
                return
            self._client_writer = writer
            self._no_client.clear()
            sending = asyncio.create_task(self._send(writer))
            try:
                while (event := await async_read_event(reader)) is not None:
                    await self._handle(event)
            finally:
                self._client_writer = None
                self._no_client.set()
                sending.cancel()
                self.service.forget_client()
                while not self._outbound.empty():
                    self._outbound.get_nowait()
        except (ConnectionError, asyncio.IncompleteReadError):
            log.info("voice.client_gone")
        finally:
            writer.close()

    async def _handle(self, event: Event) -> None:
        try:
            await self.service.handle(event)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("voice.malformed_event", extra={"type": event.type, "why": repr(error)})
            self.emit(wire.error_event(f"{event.type}: {error!r}", "malformed", delivery=event.data.get("delivery")))

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await async_write_event(await self._outbound.get(), writer)
