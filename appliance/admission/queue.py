"""What runs next: the most urgent free lane first, first come, first served inside a lane."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Set

from appliance.contracts.admission import Admission, RequestKind
from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger
from appliance.store import admissions

log = logging.getLogger(__name__)


class AdmissionQueue:
    """Hands out queued admissions. It starts none: that is one transaction with the turn, in ``session``."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._changed = asyncio.Event()

    async def next(self, busy_lanes: Set[str], holds_alarms: Callable[[], bool] = lambda: False) -> Admission:
        """Return the admission to start next; wait until there is one.

        ``busy_lanes`` are left out besides those with a started admission; it is read anew at every :meth:`wake`. The caller
        counts a lane as busy from here until the admission is terminal, else it gets the same one again. While
        ``holds_alarms()`` alarms are left where they are: it is not clear yet whether they are told one by one.
        """
        while (admission := await self.look(busy_lanes, holds_alarms())) is None:
            await self._changed.wait()
        if admission.boot_id == self._clock.boot_id:
            waited_ms = (self._clock.monotonic_ns() - admission.admitted_mono_ns) // 1_000_000
            log.info("admission.next", extra={"admission": admission.id, "lane": admission.lane, "waited_ms": waited_ms})
        return admission

    async def look(self, busy_lanes: Set[str], holds_alarms: bool = False) -> Admission | None:
        """Return the admission to start next, or None if nothing can start now."""
        self._changed.clear()  # before looking, so that what comes meanwhile is looked at again
        left_out = RequestKind.ALARM if holds_alarms else ""
        rows = await self._ledger.fetch(admissions.NEXT, (json.dumps(sorted(busy_lanes)), left_out))
        return admissions.to_admission(rows[0]) if rows else None

    def wake(self) -> None:
        """Look again: something was admitted, or a lane became free."""
        self._changed.set()
