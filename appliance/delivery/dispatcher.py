"""Says what is queued, most urgent first, one at a time, and keeps the receipts (R5).

In: pending deliveries of the ledger. Out: words through the mouth, and how each ended. The attempt is on disk before the
first sound and the receipt after the last; what a restart cut short is said again, and said to be a repetition.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from appliance.contracts.clock import Clock
from appliance.contracts.delivery import Delivery, DeliveryStatus
from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.contracts.ports import Mouth, Wording
from appliance.contracts.store import Ledger, T, Transaction
from appliance.delivery.record_keeping import record
from appliance.foundation.backoff import delays_s
from appliance.store import deliveries

log = logging.getLogger(__name__)


def voice_waits() -> Iterator[float]:
    """Yield the pauses while nobody can speak: 1 s doubling to 30 s, as each try costs two writes to the card."""
    return delays_s(1.0, 30.0)


class Dispatcher:
    """Service that speaks the ledger's deliveries. Without a voice they stay pending."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        mouth: Mouth,
        wording: Wording,
        *,
        waits: Callable[[], Iterator[float]] = voice_waits,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._mouth = mouth
        self._wording = wording
        self._waits = waits
        self._queued = asyncio.Event()
        self._voice_back = asyncio.Event()
        self._closing = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    def notify(self) -> None:
        """Tell that a delivery was committed. Cheap; call it after every commit that queued one, from the event loop."""
        self._queued.set()

    def voice_ready(self) -> None:
        """Tell that the voice can be reached again: what is waiting is tried at once instead of after its pause."""
        self._voice_back.set()
        self._queued.set()

    async def run(self) -> None:
        """Speak for ever. Cancellation leaves the delivery being said to be repeated by the next run."""
        await self._record(lambda tx: deliveries.recover(tx, self._clock))
        waits = self._waits()
        while True:
            self._queued.clear()
            self._voice_back.clear()
            if self._closing:
                await asyncio.Event().wait()
            delivery = await self._record(lambda tx: deliveries.begin_next(tx, self._clock))
            if delivery is None:
                await self._queued.wait()
            elif await self._attempt(delivery):
                waits = self._waits()
            else:
                await self._pause(next(waits))

    async def finish(self, limit_s: float) -> None:
        """Begin no further delivery, and wait at most ``limit_s`` for the one being said. The rest is said after a restart."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._quiet.wait()

    async def _attempt(self, delivery: Delivery) -> bool:
        """Say one delivery and record what came of it; return False when there is no voice now."""
        self._quiet.clear()
        try:
            return await self._say(delivery)
        finally:
            self._quiet.set()

    async def _say(self, delivery: Delivery) -> bool:
        try:
            receipt = await self._mouth.say(self._as_said(delivery))
        except Unavailable as error:
            await self._give_back(delivery, error)
            return False
        except (Malformed, Refused) as error:
            why = error.message
            log.error("delivery.failed", extra={"delivery": delivery.id, "code": error.code})
            await self._record(lambda tx: deliveries.fail(tx, self._clock, delivery.id, why=why))
            return True
        first_audio_mono_ns = receipt.first_audio_mono_ns
        await self._record(lambda tx: deliveries.finish(tx, self._clock, delivery.id, first_audio_mono_ns=first_audio_mono_ns))
        log.info("delivery.delivered", extra={"delivery": delivery.id, "attempts": delivery.attempts})
        return True

    async def _give_back(self, delivery: Delivery, error: Unavailable) -> None:
        heard = bool(error.facts.get("may_have_played"))
        why = error.message
        ended = await self._record(
            lambda tx: deliveries.give_back(tx, self._clock, delivery.id, may_have_been_heard=heard, why=why)
        )
        if ended.status is DeliveryStatus.ABANDONED:
            log.error("delivery.abandoned", extra={"delivery": delivery.id, "attempts": ended.attempts})

    def _as_said(self, delivery: Delivery) -> Delivery:
        """Put "again" in front of what may have been heard before. It becomes the lead, whose audio may be ready."""
        if not delivery.may_be_repeat:
            return delivery
        whole = f"{delivery.lead} {delivery.text}".strip()
        return replace(delivery, lead=self._wording.reply("repeat", delivery.language), text=whole)

    async def _record(self, work: Callable[[Transaction], T]) -> T:
        return await record(self._ledger, work, self._waits)

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next try, or until the voice is back."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._voice_back.wait()
