"""Builds what talks to the coordinator: the log up, changes down, keys of its session tokens. Read with ``app``."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

from appliance.access.keys import KeyRing
from appliance.coordination.availability import Availability
from appliance.opening import Opened
from appliance.sync.downlink import Downlink
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.key_refresh import KeyRefresh
from appliance.sync.uplink import Uplink

_FLUSH_S = 5.0


class SyncRooms:
    """Sync of one core; nothing runs without a coordinator. A ledger that may be a copy is not synced until it is adopted."""

    def __init__(self, opened: Opened, availability: Availability, keys: KeyRing, stack: contextlib.AsyncExitStack) -> None:
        settings, ledger, clock = opened.settings.sync, opened.ledger, opened.clock
        self._availability = availability
        self._uplink: Uplink | None = None
        self.services: dict[str, Callable[[], Awaitable[None]]] = {}
        """Name -> what runs for ever."""
        if not settings.is_enabled or keys.of_coordinator is None:
            return
        link = HttpCoordinator(settings)
        stack.push_async_callback(link.close)
        self._uplink = Uplink(ledger, link, clock, settings, availability, opened.degraded)
        downlink = Downlink(ledger, link, clock, settings, availability)
        refresh = KeyRefresh(link, availability, settings, keys.of_coordinator.replace)
        availability.listeners.append(refresh.changed)
        ledger.on_commit(self._uplink.notify)
        own = opened.standing.when_own
        self.services = {
            "uplink": partial(own, self._uplink.run),
            "downlink": partial(own, downlink.run),
            "keys": refresh.run,
        }

    async def load(self) -> None:
        """Take up whether the coordinator could be reached last: turns that go on before sync has tried are offline if not."""
        if self._uplink is not None:
            await self._availability.load()

    async def finish(self) -> None:
        """Send what is left, for a few seconds, if the coordinator can be reached."""
        if self._uplink is not None and self._availability.is_online:
            await self._uplink.drain(_FLUSH_S)
