"""The one loop of every service that looks at something when it is due: look, wait until the next limit or until stirred, look.

Nothing is polled. In: word that something may have changed, and from each look how long nothing will be due. Out: looks. Who
calls: the services; each says what a look is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NoReturn

from appliance.contracts.errors import Unavailable

SOONEST_S = 0.02
"""A service does not look again by time alone before this: a timer may fire a little early, and a look may cost a transaction."""


class Lookout:
    """Owns the stirring of one service. :meth:`run` may be called again after it failed, by one caller at a time."""

    def __init__(self, *, soonest_s: float = SOONEST_S, together_s: float = 0.0) -> None:
        """``soonest_s`` is the least wait for a limit; stirs that come within ``together_s`` after the first share one look."""
        self._soonest_s = soonest_s
        self._together_s = together_s
        self._stirred = asyncio.Event()

    def notify(self) -> None:
        """Have it look, at once or once more if it is looking now. Cheap; call it from the event loop."""
        self._stirred.set()

    async def run(
        self, look: Callable[[], Awaitable[float | None]], *, away: Callable[[Unavailable], float] | None = None
    ) -> NoReturn:
        """Look for ever. ``look`` returns in how many s the next limit is reached, None when only a stir can bring something.

        ``away`` is told when a look could not be had, and returns after how many s to try again; without it that passes on.
        """
        while True:
            self._stirred.clear()  # before the look: what comes while it looks makes it look again
            try:
                wait_s = await look()
            except Unavailable as error:
                if away is None:
                    raise
                wait_s = away(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait_s is None else max(wait_s, self._soonest_s)):
                    await self._stirred.wait()
                if self._together_s:
                    await asyncio.sleep(self._together_s)
