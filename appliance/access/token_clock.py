"""What time it is for a token. An appliance has no RTC: after a power cut its clock may stand years back, or anywhere.

Time is then at least what the clock says, at least the newest record of the ledger, at least the making of any token that was
taken, and goes on from there with the monotonic clock. That keeps a token from living on because the power was cut; how much of
its life is left nobody knows, so :attr:`TokenTime.is_sure` is False and a token gives less (:mod:`appliance.access.verifier`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger
from appliance.store import audit


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
        self._least_utc: datetime | None = None
        self._least_mono_ns = 0

    async def read(self) -> TokenTime:
        """Return what time it is. A clock that is disciplined is believed before any record of one that was not."""
        latest = await audit.latest_moments(self._ledger)
        now_utc, is_sure = self._clock.utc(), self._clock.is_synced
        known = [now_utc, *(at for was_synced, at in latest.items() if was_synced or not is_sure)]
        if not is_sure and self._least_utc is not None:
            since_ns = self._clock.monotonic_ns() - self._least_mono_ns
            known.append(self._least_utc + timedelta(microseconds=since_ns // 1000))
        at_least_utc = max(known)
        self._keep(at_least_utc)
        return TokenTime(at_least_utc, is_sure)

    def took(self, made_utc: datetime, time: TokenTime) -> None:
        """Say that a token made then was taken: while nobody knows the time, it is not earlier than that."""
        if not time.is_sure and made_utc > time.now_utc:
            self._keep(made_utc)

    def _keep(self, utc: datetime) -> None:
        self._least_utc, self._least_mono_ns = utc, self._clock.monotonic_ns()
