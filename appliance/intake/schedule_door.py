"""Checks that were asked for earlier enter here when they are due, each at most once (FC-R07), and none is lost (FC-R08).

In: rows that wait. Out, in one transaction each: the row is started by compare-and-set, the check is admitted as if its sentence
was said now, and it is said what comes. One that is late by no more than ten minutes is made up and says so. A later one is
missed, which is said too. Who calls: ``app`` runs it.

Nothing is polled: it sleeps until the next one is due, and looks when told of news (a check was asked for, the clock was set).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_UTTERANCE, Door, Request, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import StorageFullError, Unavailable
from appliance.contracts.ports import Admitter, Wording
from appliance.contracts.principal import PRINCIPAL, UNATTENDED
from appliance.contracts.scheduled_check import CheckStatus, ScheduledCheck
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.due_time import left_s
from appliance.foundation.lookout import Lookout
from appliance.store import deliveries, scheduled_checks

log = logging.getLogger(__name__)

LATEST_S = 600.0
"""A check that is late by more is of no use any more: what it was to tell was then."""

BY = "schedule"
"""Who asks, in the payload and in records; the person who asked for it earlier is its principal."""

_SAID_LATE_FROM_S = 30.0  # a check that waited behind others for some seconds is on time to people
_ASK_LEDGER_AGAIN_S = 1.0  # while the card is full or does not answer: a try that fails writes nothing


class _Ended(Exception):
    """Somebody else has ended the check: whatever this transaction wrote goes."""


class ScheduleDoor:
    """Service that admits what is due; implements ``contracts.check_acts.CheckActs``.

    ``said`` is called after words were queued.
    """

    def __init__(
        self,
        ledger: Ledger,
        gate: Admitter,
        clock: Clock,
        ids: IdSource,
        wording: Wording,
        *,
        said: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._gate = gate
        self._clock = clock
        self._ids = ids
        self._wording = wording
        self._said = said
        self._lookout = Lookout()
        self._started_mono_ns = clock.monotonic_ns()

    def notify(self) -> None:
        """Tell that a check may have been asked for, or that the clock was set. Cheap; call it from the event loop."""
        self._lookout.notify()

    async def run(self) -> None:
        """Admit what is due for ever."""

        def away(error: Unavailable) -> float:
            log.warning("schedule.waits", extra={"why": error.message})
            return max(error.retry_after_s, _ASK_LEDGER_AGAIN_S)

        await self._lookout.run(self.look, away=away)

    async def look(self) -> float | None:
        """End what is due; return in how many s to look again, None when nothing waits that time alone makes due."""
        waits_s: list[float] = []
        for row in await self._ledger.fetch(scheduled_checks.WAITING):
            check = scheduled_checks.to_check(row)
            left = left_s(self._clock, check)
            if left is None:
                left = await self._without_clock(check)
            elif left <= 0:
                left = await self._due(check, late_s=-left)
            if left is not None:
                waits_s.append(left)
        return min(waits_s, default=None)

    # what becomes of one ----------------------------------------------------------------------------------------------
    async def _due(self, check: ScheduledCheck, late_s: float) -> float | None:
        """Admit or miss a check; return in how many s to try again when there is no room for it now."""
        if late_s > LATEST_S:
            await self._miss(check, "check_missed_down", f"due {late_s:.0f} s ago, while nothing ran")
            return None
        try:
            await self._ledger.transaction(lambda tx: self._start(tx, check, late_s))
        except _Ended:
            return None
        except StorageFullError:
            return await self._later(check, late_s, _ASK_LEDGER_AGAIN_S)
        except Unavailable as full:
            return await self._later(check, late_s, full.retry_after_s)
        log.info("check.started", extra={"check": check.id, "late_s": round(late_s, 1)})
        self._gate.wake()
        self._said()
        return None

    def _start(self, tx: Transaction, check: ScheduledCheck, late_s: float) -> None:
        if scheduled_checks.load(tx, check.id).status is not CheckStatus.WAITING:
            raise _Ended
        payload = {
            "text": check.what,
            "language": check.language,
            "by": BY,
            "check": check.id,
            "late_s": round(late_s, 1),
            PRINCIPAL: check.principal.to_json(),
            UNATTENDED: True,
        }
        is_late = late_s >= _SAID_LATE_FROM_S
        words: dict[str, Any] = {"what": check.what} | ({"late": {"value": round(late_s), "unit": "s"}} if is_late else {})
        self._say(tx, check, "check_due_late" if is_late else "check_due", **words)
        key = f"check:{check.id}"  # a second barrier: no key is admitted twice
        request = Request(Door.SCHEDULE, RequestKind.UTTERANCE, lanes.CHECKS, key, payload, PRIORITY_UTTERANCE)
        admission = self._gate.enter(tx, request)
        if not scheduled_checks.start(tx, self._clock, check.id, admission.id, late_s=late_s):
            raise _Ended

    async def _later(self, check: ScheduledCheck, late_s: float, again_s: float) -> float | None:
        """There is no room for it: look again, until it is too late."""
        if late_s + again_s <= LATEST_S:
            return again_s
        await self._miss(check, "check_missed_full", "too much waited until it was too late")
        return None

    async def _without_clock(self, check: ScheduledCheck) -> float | None:
        """Wait for a clock that can be trusted. Once this start alone has lasted too long it is missed, whatever time it is."""
        since_start_s = (self._clock.monotonic_ns() - self._started_mono_ns) / 1e9
        left = check.after_s + LATEST_S - since_start_s
        if check.clock_synced and left > 0:
            return left
        await self._miss(check, "check_missed_clock", "restarted, and no clock tells when it was due")
        return None

    async def _miss(self, check: ScheduledCheck, reply: str, why: str) -> None:
        def work(tx: Transaction) -> bool:
            is_missed = scheduled_checks.miss(tx, self._clock, check.id, why)
            if is_missed:
                self._say(tx, check, "check_missed", what=check.what, why=self._wording.reply(reply, check.language))
            return is_missed

        if await self._ledger.transaction(work):
            log.warning("check.missed", extra={"check": check.id, "why": why})
            self._said()

    def _say(self, tx: Transaction, check: ScheduledCheck, reply: str, **words: Any) -> None:
        """Queue a sentence for everybody: who asked may have gone."""
        text = self._wording.reply(reply, check.language, **words)
        deliveries.queue(
            tx, self._clock, self._ids, turn_id=None, language=check.language, text=text, priority=PRIORITY_UTTERANCE
        )

    # what people ask ----------------------------------------------------------------------------------------------------
    async def checks(self, *, waiting_only: bool, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return checks, newest first, with how each stands: see ``contracts.check_acts``."""
        rows = await self._ledger.fetch(scheduled_checks.LISTED, (int(waiting_only), limit))
        return [self._shown(row) for row in rows]

    async def cancel(self, check_id: str, by: str) -> Mapping[str, Any]:
        """Cancel a check that waits. Raises Refused: there is no such check, or it does not wait any more."""
        cancelled = await self._ledger.transaction(lambda tx: scheduled_checks.cancel(tx, self._clock, check_id, by))
        self.notify()
        return {"id": cancelled.id, "status": str(cancelled.status), "what": cancelled.what}

    def _shown(self, row: Any) -> Mapping[str, Any]:
        check = scheduled_checks.to_check(row)
        is_waiting = check.status is CheckStatus.WAITING
        left = left_s(self._clock, check) if is_waiting else None
        why = check.why
        if is_waiting and left is None:
            why = "waits until something sets the clock: it was asked for before the machine was restarted"
        return {
            "id": check.id,
            "status": str(check.status),
            "what": check.what,
            "language": check.language,
            "by": check.principal.by,
            "due_utc": check.due_utc.isoformat(timespec="seconds"),
            "left_s": None if left is None else round(left, 1),
            "why": why,
            "turn": row["turn_id"],
            "outcome": row["outcome"] or row["admission_status"],
            "asked_in_turn": check.asked_turn_id,
            "created_utc": check.created_utc.isoformat(timespec="seconds"),
        }
