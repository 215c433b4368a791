"""Watches the hash chains of the operation log: the newest part at start, then all of it bit by bit (X7).

In: the ledger's entries. Out: the degraded mark ``audit`` with lane and entry, once a chain is broken. Who calls: ``app`` runs
it; the local API verifies through it, so that what a person finds is shown as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import Degraded
from appliance.store import head_witness
from appliance.store.audit_check import SLICE, Walked, newest_slice, walk_slice

log = logging.getLogger(__name__)

PART = "audit"
_BACKGROUND_SLICE = 250  # some 25 ms of a Pi's core
_PAUSE_S = 0.25  # a tenth of the time is spent verifying: a hundred thousand entries in two minutes


class AuditWatch:
    """Service that verifies. A broken lane stays named until all of it was verified again, from its first entry to its head."""

    def __init__(
        self,
        ledger: Ledger,
        degraded: Degraded,
        *,
        witnessed: Callable[[], head_witness.Heads] = dict,
        pause_s: float = _PAUSE_S,
    ) -> None:
        """``witnessed`` reads what is known outside the ledger of how the lanes ended; called on a thread."""
        self._ledger = ledger
        self._witnessed = witnessed
        self._degraded = degraded
        self._pause_s = pause_s
        self._upto: dict[OperationLane, int] = {}
        self._broken: dict[OperationLane, Walked] = {}
        self._again: dict[OperationLane, int] = {}  # up to where a broken lane was found whole since, from its beginning

    def facts(self) -> dict[str, Any]:
        """Return ``{broken, verified}``: what was found, and up to which entry each lane was verified since the start."""
        return {
            "broken": [broken.as_facts()["broken"] for broken in self._broken.values()],
            "verified": {str(lane): upto for lane, upto in self._upto.items()},
        }

    async def run(self) -> None:
        """Verify the newest slice of every lane, then every lane from its beginning; then wait for ever."""
        for lane in OperationLane:
            witnessed = await asyncio.to_thread(self._witnessed)
            self._note(await newest_slice(self._ledger, lane, witnessed=witnessed))
        for lane in OperationLane:
            walked = Walked(lane, self._upto.get(lane, 0), 1)
            while not walked.is_over:
                await asyncio.sleep(self._pause_s)
                walked = await self._walk(lane, walked.upto, _BACKGROUND_SLICE)
        if not self._broken:
            log.info("audit.verified", extra={"lanes": {str(lane): upto for lane, upto in self._upto.items()}})
        await asyncio.Event().wait()

    async def verify(self, lane: OperationLane, after: int) -> Mapping[str, Any]:
        """Verify the next slice of a lane; see ``contracts.operating_acts.OperatingActs.verify_audit``.

        Raises:
            Malformed: there is no entry ``after``.
        """
        return (await self._walk(lane, after, SLICE)).as_facts()

    async def _walk(self, lane: OperationLane, after: int, limit: int) -> Walked:
        witnessed = await asyncio.to_thread(self._witnessed)
        walked = await walk_slice(self._ledger, lane, after, limit, witnessed=witnessed)
        self._note(walked)
        self._note_whole(walked, after)
        if walked.broken_seq is None and after <= self._upto.get(lane, 0):
            self._upto[lane] = max(self._upto.get(lane, 0), walked.upto)
        return walked

    def _note(self, walked: Walked) -> None:
        if walked.broken_seq is None:
            return
        self._again[walked.lane] = 0
        if walked.lane in self._broken:
            return
        self._broken[walked.lane] = walked
        log.error("audit.broken", extra={"lane": str(walked.lane), "seq": walked.broken_seq, "what": walked.what})
        self._show()

    def _note_whole(self, walked: Walked, after: int) -> None:
        """See whether a lane that was broken is whole again: what was altered was put back."""
        lane = walked.lane
        if lane not in self._broken or walked.broken_seq is not None or after > self._again[lane]:
            return
        self._again[lane] = max(self._again[lane], walked.upto)
        if walked.is_over:
            del self._broken[lane]
            log.warning("audit.whole_again", extra={"lane": str(lane), "upto": walked.upto})
            self._show()

    def _show(self) -> None:
        if not self._broken:
            self._degraded.clear(PART)
            return
        each = [f"entry {found.broken_seq} of lane {lane} {found.what}" for lane, found in self._broken.items()]
        self._degraded.mark(PART, "; ".join(each))
