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
from appliance.contracts.delivery import Channel, Delivery
from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.contracts.ports import Mouth, Wording
from appliance.contracts.store import Ledger
from appliance.delivery.outbox import Outbox
from appliance.foundation.backoff import delays_s
from appliance.store import deliveries

log = logging.getLogger(__name__)


def voice_waits() -> Iterator[float]:
    """Yield the pauses while nobody can speak: 1 s doubling to 30 s, as each try costs two writes to the card."""
    return delays_s(1.0, 30.0)


class Dispatcher(Outbox):
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
        super().__init__(ledger, clock, Channel.SPEECH, waits)
        self._mouth = mouth
        self._wording = wording
        self._voice_back = asyncio.Event()

    def voice_ready(self) -> None:
        """Tell that the voice can be reached again: what is waiting is tried at once instead of after its pause."""
        self._voice_back.set()
        self._queued.set()

    async def _until_ready(self) -> None:
        self._voice_back.clear()

    async def _deliver(self, delivery: Delivery) -> bool:
        try:
            receipt = await self._mouth.say(self._as_said(delivery))
        except Unavailable as error:
            may_have_been_heard = bool(error.facts.get("may_have_played"))
            await self._give_back(delivery, error.message, may_have_been_heard=may_have_been_heard)
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

    def _as_said(self, delivery: Delivery) -> Delivery:
        """Put "again" in front of what may have been heard before. It becomes the lead, whose audio may be ready."""
        if not delivery.may_be_repeat:
            return delivery
        whole = f"{delivery.lead} {delivery.text}".strip()
        return replace(delivery, lead=self._wording.reply("repeat", delivery.language), text=whole)

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next try, or until the voice is back."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._voice_back.wait()
