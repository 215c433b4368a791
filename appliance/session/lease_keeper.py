"""Renews the leases of the turns that work, all in one transaction; who has lost its lease is stopped (R3)."""

from __future__ import annotations

import asyncio
import logging

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Unavailable
from appliance.contracts.interrupt import Cause
from appliance.contracts.store import Ledger, Transaction
from appliance.store import interrupts, leases, stopping

log = logging.getLogger(__name__)


class LeaseKeeper:
    """Service that renews. Renewing is no sign of progress: ``turn_watch`` looks for that."""

    def __init__(self, ledger: Ledger, clock: Clock, ids: IdSource, epoch: int, *, every_s: float = leases.RENEW_EVERY_S) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._epoch = epoch
        self._every_s = every_s

    async def run(self) -> None:
        """Renew for ever. Nothing is written while no turn works."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.renew()
            except Unavailable as error:  # four more tries fit into a lease
                log.warning("leases.not_renewed", extra={"why": error.message})

    async def renew(self) -> list[str]:
        """Renew once; return the turns that were stopped because their lease is lost: gone, another's, or run out before this."""
        if not (await self._ledger.fetch(leases.WORK))[0]["goes_on"]:
            return []
        lost = await self._ledger.transaction(self._renewed)
        for turn_id in lost:
            log.warning("turn.lease_lost", extra={"stopped": turn_id})
        return lost

    def _renewed(self, tx: Transaction) -> list[str]:
        lost = [each for each in leases.renew_all(tx, self._clock, self._epoch) if interrupts.stop_of(tx, each) is None]
        for turn_id in lost:
            reason = f"its lease of {leases.LEASE_S:g} s was lost"
            stopping.stop(tx, self._clock, self._ids, turn_id, cause=Cause.SYSTEM, by="lease", reason=reason)
        return lost
