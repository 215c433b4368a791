"""Closes a connection whose TLS handshake is given up: httpcore (1.0.9) closes it after an error, not when it is cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Handshake:
    """The ``trace`` extension of one request of httpx."""

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, event: str, facts: Mapping[str, Any]) -> None:
        """Take note of what httpcore has done. The socket would stay with the event loop until the other side closes it."""
        if event == "connection.connect_tcp.complete":
            self._stream = facts["return_value"]
        elif event == "connection.start_tls.failed" and self._stream is not None:
            await self._stream.aclose()
