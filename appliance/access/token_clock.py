"""What time it is for a token. An appliance has no RTC: after a power cut its clock may stand years back, or anywhere.

Time is then at least what the clock says, at least the newest record of the ledger, at least the making of any token that was
taken, and goes on from there with the monotonic clock. That least is in the ledger, so that neither a restart nor a reboot
brings back a token that had ended. How much of a token's life is left nobody knows while the machine was off, so
:attr:`TokenTime.is_sure` is False and a token gives less (:mod:`appliance.access.verifier`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Ledger
from appliance.store import audit, token_time
from appliance.store.token_time import KeptTime

log = logging.getLogger(__name__)

_KEPT_ANEW = timedelta(minutes=1)  # what it has grown by is written then: a token that nobody saw end comes back for no longer


@dataclass(frozen=True, slots=True)
class TokenTime:
    """A moment. ``is_sure``: something disciplines the clock, so that it is this moment and not a later one."""

    now_utc: datetime
    is_sure: bool


class TokenClock:
    """Tells the time for tokens."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._unwritten: KeptTime | None = None

    async def read(self) -> TokenTime:
        """Return what time it is. A clock that is disciplined is believed before any record of one that was not."""
        latest, kept = await audit.latest_moments(self._ledger), await self._kept()
        now_utc, is_sure = self._clock.utc(), self._clock.is_synced
        known = [now_utc, *(at for was_synced, at in latest.items() if was_synced or not is_sure)]
        if not is_sure and kept is not None:
            known.append(kept.by(self._clock))
        time = TokenTime(max(known), is_sure)
        if kept is None or kept.boot_id != self._clock.boot_id or _differs(time, kept):
            await self._keep(time.now_utc)
        return time

    async def took(self, made_utc: datetime, time: TokenTime) -> None:
        """Say that a token made then was taken: while nobody knows the time, it is not earlier than that."""
        if not time.is_sure and made_utc > time.now_utc:
            await self._keep(made_utc)

    async def ended(self, ends_utc: datetime, time: TokenTime) -> None:
        """Say that a token was refused since it had ended: it stays ended, to the second."""
        kept = await self._kept()
        if kept is None or kept.at_least_utc < ends_utc <= time.now_utc:
            await self._keep(time.now_utc)

    async def _kept(self) -> KeptTime | None:
        return self._unwritten or await token_time.kept(self._ledger)

    async def _keep(self, utc: datetime) -> None:
        try:
            await self._ledger.transaction(lambda tx: token_time.keep(tx, self._clock, utc))
        except Unavailable as error:  # a full card: who asks is known all the same, and this process remembers
            log.warning("token.time_not_kept", extra={"why": error.message})
            mono_ns = self._clock.monotonic_ns()
            self._unwritten = KeptTime(utc, mono_ns, self._clock.boot_id, mono_ns)
            return
        self._unwritten = None


def _differs(time: TokenTime, kept: KeptTime) -> bool:
    """Whether what was kept is out of date, or wrong where the time is known."""
    grown = time.now_utc - kept.at_least_utc
    return grown > _KEPT_ANEW or (time.is_sure and grown < -_KEPT_ANEW)
