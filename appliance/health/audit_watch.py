"""Watches the hash chains of the operation log: the newest part at start, then all of it bit by bit (X7).

In: the ledger's entries. Out: the degraded mark ``audit`` with lane and entry, once a chain is broken. Who calls: ``app`` runs
it; the local API verifies through it, so that what a person finds is shown as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import Degraded
from appliance.store.audit_check import SLICE, Walked, newest_slice, walk_slice

log = logging.getLogger(__name__)

PART = "audit"
_BACKGROUND_SLICE = 250  # some 25 ms of a Pi's core
_PAUSE_S = 0.25  # a tenth of the time is spent verifying: a hundred thousand entries in two minutes


class AuditWatch:
    """Service that verifies. A broken chain stays named until the process ends: nothing here can mend it."""

    def __init__(self, ledger: Ledger, degraded: Degraded, *, pause_s: float = _PAUSE_S) -> None:
        self._ledger = ledger
        self._degraded = degraded
        self._pause_s = pause_s
        self._upto: dict[OperationLane, int] = {}
        self._broken: dict[OperationLane, Walked] = {}

    def facts(self) -> dict[str, Any]:
        """Return ``{broken, verified}``: what was found, and up to which entry each lane was verified since the start."""
        return {
            "broken": [broken.as_facts()["broken"] for broken in self._broken.values()],
            "verified": {str(lane): upto for lane, upto in self._upto.items()},
        }

    async def run(self) -> None:
        """Verify the newest slice of every lane, then every lane from its beginning; then wait for ever."""
        for lane in OperationLane:
            self._note(await newest_slice(self._ledger, lane))
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
        walked = await walk_slice(self._ledger, lane, after, limit)
        self._note(walked)
        if walked.broken_seq is None and after <= self._upto.get(lane, 0):
            self._upto[lane] = max(self._upto.get(lane, 0), walked.upto)
        return walked

    def _note(self, walked: Walked) -> None:
        if walked.broken_seq is None or walked.lane in self._broken:
            return
        self._broken[walked.lane] = walked
        log.error("audit.broken", extra={"lane": str(walked.lane), "seq": walked.broken_seq, "what": walked.what})
        each = [f"entry {found.broken_seq} of lane {lane} {found.what}" for lane, found in self._broken.items()]
        self._degraded.mark(PART, "; ".join(each))
