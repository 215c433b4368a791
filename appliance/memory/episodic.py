"""L2: what happened here lately. Found by time, kept for the retention period."""

from __future__ import annotations

from datetime import datetime, timedelta

from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger
from appliance.memory.settings import MemorySettings
from appliance.store.memories import StoredMemory, drop_before, load_between

_PURGE_SLICE = 500  # memories a transaction: the writer is never held for long


class EpisodicMemory:
    """Episodes by time."""

    def __init__(self, ledger: Ledger, clock: Clock, settings: MemorySettings) -> None:
        self._ledger = ledger
        self._clock = clock
        self._settings = settings

    async def between(
        self, since: datetime, until: datetime, *, scope: str, asset: str, fault: str, limit: int
    ) -> list[StoredMemory]:
        """Return episodes of [since, until), newest first; an empty asset or fault matches all."""
        return await load_between(self._ledger, scope, since, until, asset, fault, limit)

    async def purge(self) -> int:
        """Drop what is past its retention and return how much; nothing while the clock is not synchronised, since a clock
        gone astray would drop everything."""
        if not self._clock.is_synced:
            return 0
        before = self._clock.utc() - timedelta(days=self._settings.retention_days)
        dropped = 0
        while True:
            count = await self._ledger.transaction(lambda tx: drop_before(tx, before, _PURGE_SLICE))
            dropped += count
            if count < _PURGE_SLICE:
                return dropped
