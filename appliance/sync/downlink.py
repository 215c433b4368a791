"""Hears what the coordinator has to say: changes and the cursor that covers them, in one transaction.

In: the device's feed. Out: rows of the ledger. Applying a change again changes nothing, so the feed may be read from its
start whenever the coordinator turns out to be older than it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.ports import CoordinatorLink, Reachability
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.untrusted import clean
from appliance.store import operations, uplink, work_orders
from appliance.sync.settings import SyncSettings
from appliance.sync.waits import FullJitter

log = logging.getLogger(__name__)

_LONGEST_NUMBER, _LONGEST_STATUS = 64, 32  # characters of what the coordinator calls an order and where it stands

IGNORED, RENUMBERED = "change.ignored", "work_order.renumbered"


class Downlink:
    """Service that pulls. While the coordinator is lost it waits; looking for it is the uplink's work alone."""

    def __init__(
        self, ledger: Ledger, link: CoordinatorLink, clock: Clock, settings: SyncSettings, availability: Reachability
    ) -> None:
        self._ledger = ledger
        self._link = link
        self._clock = clock
        self._settings = settings
        self._availability = availability

    async def run(self) -> None:
        """Pull for ever."""
        waits = FullJitter(self._settings.retry_first_s, self._settings.retry_longest_s)
        while True:
            await self._availability.until_online()
            try:
                cursor, changes = await self._pull()
            except (Unavailable, Refused) as error:
                await self._availability.missed(error.message)
                await asyncio.sleep(max(waits.next_s(), getattr(error, "retry_after_s", 0.0)))
                continue
            await self._availability.reached()
            waits.reset()
            if not changes:
                await asyncio.sleep(self._settings.poll_s)
                continue
            await self.apply(changes, cursor)

    async def apply(self, changes: Sequence[Mapping[str, Any]], cursor: int) -> None:
        """Apply contiguous changes and move the cursor to ``cursor``, all or nothing.

        Changes pulled before the cursor was set back are left alone: they will be pulled again.
        """
        before = changes[0]["position"] - 1

        def work(tx: Transaction) -> None:
            if uplink.cursor_in(tx) != before:
                return
            for change in changes:
                self._apply(tx, change)
            uplink.save_cursor(tx, cursor)

        await self._ledger.transaction(work)

    async def _pull(self) -> tuple[int, Sequence[Mapping[str, Any]]]:
        after = await uplink.cursor(self._ledger)
        try:
            cursor, changes = await self._link.pull(after)
        except Refused as refusal:
            if refusal.facts.get("reason") != "cursor_ahead":
                raise
            await self._ledger.transaction(lambda tx: uplink.save_cursor(tx, 0))
            log.warning("feed.restarted", extra={"cursor": after, "feed_ends_at": refusal.facts.get("cursor")})
            cursor, changes = await self._link.pull(0)
            after = 0
        positions = [change["position"] for change in changes]
        if positions != list(range(after + 1, after + 1 + len(positions))) or cursor != after + len(positions):
            raise Unavailable(f"the feed after {after} has a gap", retry_after_s=0.0)
        return cursor, changes

    def _apply(self, tx: Transaction, change: Mapping[str, Any]) -> None:
        match change:
            case {"kind": "work_order.numbered" | "work_order.status", "payload": payload}:
                self._hear_of_order(tx, change, payload)
            case _:
                self._ignore(tx, change, "this version does not know its kind")

    def _hear_of_order(self, tx: Transaction, change: Mapping[str, Any], said: Any) -> None:
        """Give a work order the number, and the status if any, that people see at the coordinator."""
        match said:
            case {"id": str(order_id), "number": str(number)}:
                number, order = clean(number, _LONGEST_NUMBER), work_orders.load(tx, order_id)
            case _:
                self._ignore(tx, change, "it lacks an id or a number")
                return
        if order is None:
            self._ignore(tx, change, "there is no such work order here")
            return
        if order.number not in (None, number):
            facts = {"was": order.number, "number": number}
            operations.append(tx, self._clock, OperationLane.P1, RENUMBERED, order_id, facts)
        status = said.get("status", order.status)
        status = clean(status, _LONGEST_STATUS) if isinstance(status, str) else order.status
        work_orders.heard_of(tx, order_id, number=number, status=status)

    def _ignore(self, tx: Transaction, change: Mapping[str, Any], why: str) -> None:
        """Leave a note of a change that means nothing here; it must not stop those behind it."""
        note = {"kind": change["kind"], "why": why}
        operations.append(tx, self._clock, OperationLane.P1, IGNORED, str(change["position"]), note)
        log.warning("change.ignored", extra={"position": change["position"], **note})
