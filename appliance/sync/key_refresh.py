"""Hears the coordinator's public keys now and then, so that its session tokens verify while it is away.

In: the coordinator's key set. Out: whoever keeps it. Asked for when the coordinator comes back, and twice a day while it stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.contracts.ports import CoordinatorLink, Reachability
from appliance.foundation.lookout import Lookout
from appliance.sync.settings import SyncSettings
from appliance.sync.waits import FullJitter

log = logging.getLogger(__name__)

REFRESH_EVERY_S = 12 * 3600.0
"""A key is replaced by hand, and rarely; one that is new is known everywhere within a shift, or at the next contact."""


class KeyRefresh:
    """Service that asks. While the coordinator is lost it waits; looking for it is the uplink's work alone."""

    def __init__(
        self,
        link: CoordinatorLink,
        availability: Reachability,
        settings: SyncSettings,
        keep: Callable[[Mapping[str, Any]], bool],
        *,
        every_s: float = REFRESH_EVERY_S,
    ) -> None:
        """``keep`` gets what was told, on another thread; returns whether it is new, and raises Malformed for what is no key set
        and OSError when it cannot be kept."""
        self._link = link
        self._availability = availability
        self._keep = keep
        self._every_s = every_s
        self._waits = FullJitter(settings.retry_first_s, settings.retry_longest_s)
        self._lookout = Lookout()
        self._trouble = ""

    def changed(self, online: bool, why: str) -> None:
        """Hear that the coordinator was lost or is back (a listener of ``Availability``). Call on the event loop."""
        if online:
            self._lookout.notify()

    async def run(self) -> None:
        """Ask for ever."""
        await self._lookout.run(self._ask)

    async def _ask(self) -> float:
        """Ask once, as soon as the coordinator is there; return after how many seconds to ask again if nothing happens."""
        await self._availability.until_online()
        try:
            if await asyncio.to_thread(self._keep, await self._link.keys()):
                log.info("key_set.new")
        except Unavailable as away:
            return max(self._waits.next_s(), away.retry_after_s)
        except (Refused, Malformed) as error:
            self._say(error.message)
        except OSError as error:
            self._say(f"it cannot be kept: {error.strerror}")
        else:
            self._trouble = ""
        self._waits.reset()
        return self._every_s

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("key_set.not_taken", extra={"why": trouble})
        self._trouble = trouble
