"""Carries the operation log to the coordinator: alarms first, in bounded slices, each entry until it is durable there.

In: the ledger's pending entries. Out: pushes, and ``acknowledged_seq`` once the coordinator has them on disk. Every contact
begins by comparing heads, so that a lost reply, a restored backup on either side and a cloned card are told apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.operation import Operation, OperationLane
from appliance.contracts.ports import CoordinatorLink, Reachability
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import Degraded
from appliance.store import uplink as log_table
from appliance.store.uplink import LaneHead
from appliance.sync.reconciliation import Reconciliation
from appliance.sync.settings import BULK_TURNS, SyncSettings
from appliance.sync.slices import SliceSize
from appliance.sync.waits import FullJitter

T = TypeVar("T")

_LEAST_PAUSE_S = 0.2  # a drain tries five times a second at most
_STRANGER = frozenset({"unauthenticated", "forbidden", "token_file", "ca_file"})
_TOO_MUCH = frozenset({"too_large", "malformed"})


class _NoContact(Exception):
    """The coordinator was not reached, or does not take us for whom we are; ``wait_s`` is what it asked for."""

    def __init__(self, why: str, wait_s: float) -> None:
        super().__init__(why)
        self.why, self.wait_s = why, wait_s


class Uplink:
    """Service that pushes. A lane whose history the coordinator contradicts is stopped, shown and kept whole; others go on."""

    def __init__(
        self,
        ledger: Ledger,
        link: CoordinatorLink,
        clock: Clock,
        settings: SyncSettings,
        availability: Reachability,
        degraded: Degraded,
    ) -> None:
        self._ledger = ledger
        self._link = link
        self._clock = clock
        self._settings = settings
        self._availability = availability
        self._slices = {lane: SliceSize(settings.batch_operations) for lane in OperationLane}
        self._turns_taken = 0
        self._reconciliation = Reconciliation(ledger, clock, degraded)
        self._waits = FullJitter(settings.retry_first_s, settings.retry_longest_s)
        self._last_error = ""
        self._woken = asyncio.Event()
        self._hurried = asyncio.Event()
        self._moved = asyncio.Event()

    def notify(self) -> None:
        """Say that something was committed. Call on the event loop; harmless at any time."""
        self._woken.set()

    async def run(self) -> None:
        """Push for ever."""
        await self._pause(random.uniform(0.0, self._settings.first_contact_s))
        while True:
            try:
                await self._compare_heads()
                await self._availability.reached()
                await self._push_while_online()
            except _NoContact as away:
                self._last_error = away.why
                await self._availability.missed(away.why)
                self._reconciliation.forgive()
                self._moved.set()
                await self._pause(max(self._waits.next_s(), away.wait_s))

    async def drain(self, timeout_s: float) -> bool:
        """Push what is pending now, without waiting for timers; return whether all of it is durable at the coordinator."""
        try:
            async with asyncio.timeout(timeout_s):
                while pending := await self._pending():
                    if set(pending) <= set(self._reconciliation.stopped):
                        return False
                    self._moved.clear()
                    self._hurried.set()
                    self._woken.set()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def progress(self) -> dict[str, Any]:
        """Return ``{online, last_error, lanes: {lane: {newest, acknowledged, pending, oldest_age_s, stopped}}}`` as of now."""
        heads = await log_table.lane_heads(self._ledger)
        oldest = await log_table.oldest_pending_utc(self._ledger)
        now = self._clock.utc()
        lanes = {
            str(lane): {
                "newest": head.seq,
                "acknowledged": head.acknowledged_seq,
                "pending": head.pending,
                "oldest_age_s": _age_s(oldest.get(lane), now),
                "stopped": self._reconciliation.stopped.get(lane, ""),
            }
            for lane, head in heads.items()
            if head.seq > 0
        }
        return {"online": self._availability.is_online, "last_error": self._last_error, "lanes": lanes}

    # pushing --------------------------------------------------------------------------------------------------------
    async def _push_while_online(self) -> None:
        """Push until contact is lost, or a stopped lane is due to be looked at again."""
        compared_ns = self._clock.monotonic_ns()
        while True:
            self._woken.clear()
            pending = await self._pending()
            lane = self._next_lane(pending)
            if lane is not None:
                await self._push_slice(lane, pending[lane])
                continue
            self._went_well()
            self._moved.set()
            age_s = (self._clock.monotonic_ns() - compared_ns) / 1e9
            if not self._availability.is_online or (self._reconciliation.stopped and age_s > self._settings.retry_longest_s):
                return
            await _happens(self._woken, self._settings.poll_s)

    async def _pending(self) -> dict[OperationLane, LaneHead]:
        heads = await log_table.lane_heads(self._ledger)
        return {lane: head for lane, head in heads.items() if head.pending > 0}

    def _next_lane(self, pending: Mapping[OperationLane, LaneHead]) -> OperationLane | None:
        """Choose who pushes next: alarms whenever there are any, the others by turns so that no backlog starves another."""
        ready = [lane for lane in pending if lane not in self._reconciliation.stopped]
        if OperationLane.P0 in ready:
            return OperationLane.P0
        for _ in BULK_TURNS:
            lane = BULK_TURNS[self._turns_taken % len(BULK_TURNS)]
            self._turns_taken += 1
            if lane in ready:
                return lane
        return None

    async def _push_slice(self, lane: OperationLane, head: LaneHead) -> None:
        size = self._slices[lane]
        entries = await log_table.next_slice(
            self._ledger, lane, head.acknowledged_seq, operations=size.operations, size_bytes=self._settings.batch_bytes
        )
        began_ns = self._clock.monotonic_ns()
        try:
            held = await self._contact(self._link.push(entries))
        except _NoContact:
            size.halve()
            raise
        except Refused as refusal:
            await self._refused(lane, head, entries, refusal)
            return
        size.took(self._clock.monotonic_ns() - began_ns)
        # Only what was sent and answered for: what else the coordinator may hold is not ours to conclude from this answer.
        durable = min(held[lane], entries[-1].seq)
        if durable <= head.acknowledged_seq:
            raise _NoContact(f"{lane}: answered {durable} to a push of {entries[0].seq} to {entries[-1].seq}", 0.0)
        await self._ledger.transaction(lambda tx: log_table.acknowledge(tx, lane, durable))
        self._reconciliation.goes_on(lane)
        await self._availability.reached()
        self._went_well()

    def _went_well(self) -> None:
        """Only a push that got through, or having none to do, ends a row of failures: heads may pass where slices do not."""
        self._waits.reset()
        self._last_error = ""

    async def _refused(self, lane: OperationLane, head: LaneHead, entries: list[Operation], refusal: Refused) -> None:
        """Find out what a refused push means: too much at once, other heads than we thought, or a lane that cannot go on."""
        if refusal.facts.get("reason") in _TOO_MUCH and len(entries) > 1:
            self._slices[lane].limit(len(entries) // 2)  # so the good ones before a bad one still get through
            return
        await self._compare_heads()
        now = (await log_table.lane_heads(self._ledger))[lane]
        if lane not in self._reconciliation.stopped and now.acknowledged_seq == head.acknowledged_seq:
            await self._reconciliation.stop(lane, str(refusal.facts.get("reason", refusal.code)), refusal.message, now)

    async def _compare_heads(self) -> None:
        """Bring both sides' heads in line, as every contact begins."""
        try:
            held = await self._contact(self._link.heads())
        except Refused as refusal:
            raise _NoContact(refusal.message, 0.0) from refusal
        await self._reconciliation.compare(held)

    # contact --------------------------------------------------------------------------------------------------------
    async def _contact(self, call: Awaitable[T]) -> T:
        """Await one call of the link. Its being away is told apart here from the ledger's, which is another matter."""
        try:
            return await call
        except Unavailable as error:
            raise _NoContact(error.message, error.retry_after_s) from error
        except Refused as refusal:
            if refusal.facts.get("reason") in _STRANGER:
                raise _NoContact(refusal.message, 0.0) from refusal
            raise

    async def _pause(self, wait_s: float) -> None:
        """Wait by the own timer, whatever is committed meanwhile; only :meth:`drain` cuts it short, and never to nothing."""
        self._hurried.clear()
        await asyncio.sleep(min(wait_s, _LEAST_PAUSE_S))
        await _happens(self._hurried, wait_s - _LEAST_PAUSE_S)


async def _happens(event: asyncio.Event, within_s: float) -> None:
    if within_s > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await event.wait()


def _age_s(at_utc: str | None, now: datetime) -> float | None:
    return None if at_utc is None else max(0.0, (now - datetime.fromisoformat(at_utc)).total_seconds())
