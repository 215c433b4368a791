"""Watches wall time (a Pi has no clock that runs while it is off): its steps are noted, what it cannot be is said.

In: the kernel's word that time was set, and a look a minute. Out: ``audit.clock_stepped`` and ``audit.clock_synced`` with what
the monotonic clock said, the degraded marks ``clock`` (nothing disciplines it) and ``clock_behind`` (the ledger has a later
record: it is certainly wrong). Nothing is re-stamped: order is by sequence, durations are of the monotonic clock, and every
operation says whether the clock was disciplined when it was written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import audit

log = logging.getLogger(__name__)

PART, BEHIND_PART = "clock", "clock_behind"
UNDISCIPLINED = "nothing sets the clock: times may be wrong, their order and durations are not"
CANNOT_ASK = (
    "it cannot be told whether anything sets the clock: the kernel does not answer adjtimex to this service"
    " (its unit needs `ProtectClock=no` and `SystemCallFilter=adjtimex clock_adjtime`)"
)
_LOOK_EVERY_S = 60.0  # nothing tells when a clock becomes disciplined, and where the kernel tells no steps they are found so
_STEP_S = 1.0  # below: a process that was held up between two readings; nobody cares for less
_BEHIND_S = 60.0  # a restart takes less, and so much may have been written ahead by a clock that was then corrected


class Steps(Protocol):
    """Who tells of steps: ``foundation.clock_steps.ClockSteps``."""

    async def wait(self) -> None:
        """Return once wall time was set."""
        ...


class ClockWatch:
    """Service that watches. ``listeners`` are called on the event loop after a step or a change of discipline."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        degraded: Degraded,
        steps: Steps,
        *,
        can_ask: Callable[[], bool] = lambda: True,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        """``can_ask`` says whether the kernel answers at all: one that cannot be asked has another cure than one nobody sets."""
        self._ledger = ledger
        self._clock = clock
        self._degraded = degraded
        self._steps = steps
        self._can_ask = can_ask
        self._look_every_s = look_every_s
        self._offset_s, self._mono_ns = self._read()
        self._is_synced = clock.is_synced
        self._latest: Mapping[bool, datetime] | None = None
        self._last_step: dict[str, Any] | None = None
        self._step_count = 0
        self.listeners: list[Callable[[], None]] = []

    def facts(self) -> dict[str, Any]:
        """Return ``{utc, is_synced, is_behind, steps, last_step}``; ``last_step`` is None, or what its audit entry holds."""
        return {
            "utc": self._clock.utc().isoformat(timespec="seconds"),
            "is_synced": self._clock.is_synced,
            "is_behind": BEHIND_PART in self._degraded.reasons,
            "steps": self._step_count,
            "last_step": self._last_step,
        }

    async def run(self) -> None:
        """Watch for ever."""
        if self._latest is None:
            self._latest = await audit.latest_moments(self._ledger)
        self._show()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_every_s):
                    await self._steps.wait()
            await self.look()

    async def look(self) -> None:
        """Compare wall time with the monotonic clock and with what it was when looked at last, and note what is new."""
        offset_s, mono_ns = self._read()
        step_s, was_synced = offset_s - self._offset_s, self._is_synced
        is_synced = self._clock.is_synced
        is_step = abs(step_s) >= _STEP_S
        facts = {
            "step_s": round(step_s, 3),
            "before_offset_s": round(self._offset_s, 3),
            "after_offset_s": round(offset_s, 3),
            "at_mono_ns": mono_ns,
            "last_looked_mono_ns": self._mono_ns,
            "boot_id": self._clock.boot_id,
            "is_synced": is_synced,
        }

        def work(tx: Transaction) -> None:
            if is_step:
                audit.note(tx, self._clock, "clock_stepped", PART, facts)
            if is_synced != was_synced:
                audit.note(tx, self._clock, "clock_synced", PART, {"is_synced": is_synced, "at_mono_ns": mono_ns})

        if is_step or is_synced != was_synced:
            try:
                await self._ledger.transaction(work)
            except Unavailable as error:  # a full card: found again at the next look
                log.warning("clock.not_noted", extra={"why": error.message})
                return
            log.warning("clock.changed", extra=facts)
            if is_step:
                self._step_count, self._last_step = self._step_count + 1, facts | {"at": self.facts()["utc"]}
        self._is_synced = is_synced
        self._offset_s, self._mono_ns = (offset_s, mono_ns) if is_step else (self._offset_s, mono_ns)
        self._show()
        if is_step or is_synced != was_synced:
            for listener in self.listeners:
                listener()

    def _show(self) -> None:
        if self._is_synced:
            self._degraded.clear(PART)
        else:
            self._degraded.mark(PART, UNDISCIPLINED if self._can_ask() else CANNOT_ASK)
        now, latest = self._clock.utc(), self._latest or {}
        # A clock that is disciplined now is believed before one that was not when the record was made.
        believed = [at for was_synced, at in latest.items() if was_synced or not self._is_synced]
        newest_utc = max(believed, default=now)
        if (newest_utc - now).total_seconds() <= _BEHIND_S:
            self._degraded.clear(BEHIND_PART)
        elif BEHIND_PART not in self._degraded.reasons:
            behind = f"it is {now:%Y-%m-%d %H:%M} by the clock, and the ledger has a record of {newest_utc:%Y-%m-%d %H:%M} UTC"
            self._degraded.mark(BEHIND_PART, behind)

    def _read(self) -> tuple[float, int]:
        """Return wall time less monotonic time in s, and the monotonic time in ns. NTP slews both clocks alike: only a step moves
        the difference."""
        before_ns = self._clock.monotonic_ns()
        utc_s = self._clock.utc().timestamp()
        mono_ns = (before_ns + self._clock.monotonic_ns()) // 2
        return utc_s - mono_ns / 1e9, mono_ns
