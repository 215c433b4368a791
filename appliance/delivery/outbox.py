"""What speaking and sending share: one delivery of a channel at a time, on disk before it goes, its receipt after (R5).

What a restart cut short goes again. Who calls: the dispatcher, the publisher and the webhooks, which know how their channel
delivers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from appliance.contracts.clock import Clock
from appliance.contracts.delivery import Channel, Delivery, DeliveryStatus
from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Ledger, T, Transaction
from appliance.delivery.ledger_failures import LedgerFailures
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries

log = logging.getLogger(__name__)


class Outbox(ABC):
    """Service for one channel of the ledger's deliveries, or for those of one topic in it.

    ``waits`` are the pauses while nobody takes them. ``failures`` counts what cannot be written, for all channels together.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        channel: Channel,
        waits: Callable[[], Iterator[float]],
        *,
        topic: str | None = None,
        failures: LedgerFailures | None = None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._channel = channel
        self._topic = topic
        self._name = str(channel) if topic is None else f"{channel} {topic}"
        self._waits = waits
        self._failures = failures or LedgerFailures(Degraded())
        self._queued = asyncio.Event()
        self._closing = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    def notify(self) -> None:
        """Tell that a delivery was committed. Cheap; call it after every commit that queued one, from the event loop."""
        self._queued.set()

    async def run(self) -> None:
        """Deliver for ever. Cancellation leaves the delivery under way to be repeated by the next run."""
        await self._record(lambda tx: deliveries.recover(tx, self._clock, self._channel, self._topic))
        waits = self._waits()
        while True:
            await self._until_ready()
            self._queued.clear()
            if self._closing:
                await asyncio.Event().wait()
            delivery = await self._record(self._begin_next)
            if delivery is None:
                await self._queued.wait()
            elif await self._attempt(delivery):
                waits = self._waits()
            else:
                await self._pause(next(waits))

    async def finish(self, limit_s: float) -> None:
        """Begin no further delivery, and wait at most ``limit_s`` for the one under way. The rest goes after a restart."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._quiet.wait()

    @abstractmethod
    async def _until_ready(self) -> None:
        """Return when there is any sense in taking the next delivery."""

    @abstractmethod
    async def _deliver(self, delivery: Delivery) -> bool:
        """Deliver once and record what came of it; return False when nobody takes it now."""

    def _begin_next(self, tx: Transaction) -> Delivery | None:
        """Take the next delivery, in a transaction that is on disk before it goes."""
        return deliveries.begin_next(tx, self._clock, self._channel, self._topic)

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next try."""
        await asyncio.sleep(pause_s)

    async def _attempt(self, delivery: Delivery) -> bool:
        self._quiet.clear()
        try:
            return await self._deliver(delivery)
        finally:
            self._quiet.set()

    async def _finish(self, delivery: Delivery, first_audio_mono_ns: int | None = None) -> None:
        await self._record(lambda tx: deliveries.finish(tx, self._clock, delivery.id, first_audio_mono_ns=first_audio_mono_ns))

    async def _fail(self, delivery: Delivery, why: str) -> None:
        log.error("delivery.failed", extra={"delivery": delivery.id, "channel": self._name, "why": why})
        await self._record(lambda tx: deliveries.fail(tx, self._clock, delivery.id, why=why))

    async def _give_back(self, delivery: Delivery, why: str, *, may_have_been_heard: bool) -> None:
        ended = await self._record(
            lambda tx: deliveries.give_back(tx, self._clock, delivery.id, may_have_been_heard=may_have_been_heard, why=why)
        )
        if ended.status is DeliveryStatus.ABANDONED:
            log.error("delivery.abandoned", extra={"delivery": delivery.id, "attempts": ended.attempts, "why": why})

    async def _record(self, work: Callable[[Transaction], T]) -> T:
        """Write to the ledger; while it cannot be written (a full card) wait and try again. What was said or sent stays so: the
        receipt is kept here until it is on disk, so that nothing is said or sent again meanwhile."""
        pauses = self._waits()
        while True:
            try:
                value = await self._ledger.transaction(work)
            except Unavailable as error:
                self._failures.failed(self._name, error.message)
                await asyncio.sleep(next(pauses))
            else:
                self._failures.written(self._name)
                return value
