"""The demo's view of the core: its local API, asked as the technician's CLI asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

_MOST_SHOWN = 8_000  # characters of an answer that was not the wanted one: all of a status, whatever is degraded


class CoreClient:
    """Reads the local API of a running core; survives its restarts."""

    def __init__(self, socket: Path) -> None:
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket)), base_url="http://floorhand", timeout=10.0
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def get(self, path: str) -> Any:
        """GET a JSON answer; ``path`` may carry a query.

        Raises:
            httpx.HTTPError: the core is not there or refuses.
        """
        answer = await self._http.get(path)
        answer.raise_for_status()
        return answer.json()

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """POST a JSON body and return the JSON answer."""
        answer = await self._http.post(path, json=body, timeout=60.0)
        answer.raise_for_status()
        return answer.json()

    async def until(
        self,
        path: str,
        wanted: Callable[[Any], Any],
        *,
        what: str,
        within_s: float,
        still: Callable[[], bool] = lambda: True,
    ) -> Any:
        """Ask ``path`` until ``wanted(answer)`` is truthy and return that value.

        Raises:
            TimeoutError: it did not become true within ``within_s``; the message says ``what``.
            RuntimeError: it cannot become true any more: ``still()`` became false.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + within_s
        last: Any = None
        while loop.time() < ends:
            try:
                last = await self.get(path)
            except httpx.HTTPError as error:
                last = repr(error)
            else:
                if found := wanted(last):
                    return found
            if not still():
                raise RuntimeError(f"{what} did not happen, and will not; last answer: {str(last)[:_MOST_SHOWN]}")
            await asyncio.sleep(0.1)  # another process' state: there is nothing to wait on but asking again
        raise TimeoutError(f"{what} did not happen within {within_s:g} s; last answer: {str(last)[:_MOST_SHOWN]}")
