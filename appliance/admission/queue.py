"""What runs next: the most urgent free lane first, first come, first served inside a lane.

Alarms go first. What waits below them grows more urgent with the time it waits, until it goes before a fresh alarm; after that
a few alarms go first again. So under an alarm stream without end talk is slow, and never stands still (R1).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Set

from appliance.contracts.admission import PRIORITY_ALARM, PRIORITY_FLOOD, Admission, RequestKind
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Fault
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import contained_call
from appliance.store import admissions

log = logging.getLogger(__name__)

AGES_BY_ONE_IN_S = 15.0
"""Waiting this long makes an input one priority more urgent: what is typed (5) goes before a fresh alarm (9) after 75 s, when
whoever asked still stands there, and no sooner, as an alarm's announcement and its advice take about half of that to say."""
MOST_URGENT_BY_AGE = PRIORITY_FLOOD + 1
"""As urgent as waiting can make an input: above all that comes fresh from the plant, so that the longest wait ends."""
ALARMS_BETWEEN = 4
"""After an aged input went before waiting alarms, so many starts are by plain priority: a backlog of talk, as after a power cut,
delays an alarm by one turn and no more."""


class AdmissionQueue:
    """Hands out queued admissions. It starts none: that is one transaction with the turn, in ``session``."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._changed = asyncio.Event()
        self._stirred = asyncio.Event()  # the same for interjections, which are waited for beside the others
        self._plain_starts_left = 0
        self._passes_alarm = False

    async def next(
        self, busy_lanes: Set[str], holds_alarms: Callable[[], bool] = lambda: False, *, interjections: bool = False
    ) -> Admission:
        """Return the admission to start next; wait until there is one.

        ``busy_lanes`` are left out besides those with a started admission; it is read anew at every :meth:`wake`. The caller
        counts a lane as busy from here until the admission is terminal, else it gets the same one again. While
        ``holds_alarms()`` alarms are left where they are: it is not clear yet whether they are told one by one. With
        ``interjections`` only these are returned, without it everything else: there is one who waits for each.

        Raises:
            Fault: its row cannot be read; the fact ``admission`` names it. It comes again until it has ended.
        """
        changed = self._stirred if interjections else self._changed
        while (admission := await self.look(busy_lanes, holds_alarms(), interjections=interjections)) is None:
            await changed.wait()
        if not interjections:
            self._count_start()
        if admission.boot_id == self._clock.boot_id:
            waited_ms = (self._clock.monotonic_ns() - admission.admitted_mono_ns) // 1_000_000
            log.info("admission.next", extra={"admission": admission.id, "lane": admission.lane, "waited_ms": waited_ms})
        return admission

    async def look(self, busy_lanes: Set[str], holds_alarms: bool = False, *, interjections: bool = False) -> Admission | None:
        """Return the admission to start next, or None if nothing can start now."""
        (self._stirred if interjections else self._changed).clear()  # before looking: what comes meanwhile is looked at again
        rows = await self._ledger.fetch(
            admissions.NEXT,
            (
                json.dumps(sorted(busy_lanes)),
                RequestKind.ALARM if holds_alarms else "",
                interjections,
                self._clock.boot_id,
                self._clock.monotonic_ns(),
                int(AGES_BY_ONE_IN_S * 1e9),
                PRIORITY_ALARM,
                0 if self._plain_starts_left else MOST_URGENT_BY_AGE,
            ),
        )
        if not rows:
            return None
        if not interjections:
            self._passes_alarm = bool(rows[0]["passes_alarm"])
        try:
            return contained_call(lambda: admissions.to_admission(rows[0]))
        except Fault as fault:
            fault.facts["admission"] = rows[0]["id"]
            raise

    def wake(self) -> None:
        """Look again: something was admitted, or a lane became free."""
        self._changed.set()
        self._stirred.set()

    def _count_start(self) -> None:
        if self._passes_alarm:
            self._plain_starts_left = ALARMS_BETWEEN
        elif self._plain_starts_left:
            self._plain_starts_left -= 1
