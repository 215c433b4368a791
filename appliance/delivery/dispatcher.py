"""Says what is queued, most urgent first, one at a time, and keeps the receipts (R5).

In: pending deliveries of the ledger. Out: words through the mouth, and how each ended. The attempt is on disk before the
first sound and the receipt after the last; what a restart cut short is said again, and said to be a repetition. What could not
be said for minutes is not told as present: answers are given up, and anything else is said to be from earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import Channel, Delivery
from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.contracts.ports import Mouth, Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.delivery.ledger_failures import LedgerFailures
from appliance.delivery.outbox import Outbox
from appliance.foundation.backoff import delays_s
from appliance.foundation.sentence import joined
from appliance.store import unsaid

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
        ids: IdSource,
        mouth: Mouth,
        wording: Wording,
        *,
        waits: Callable[[], Iterator[float]] = voice_waits,
        failures: LedgerFailures | None = None,
    ) -> None:
        super().__init__(ledger, clock, Channel.SPEECH, waits, failures=failures)
        self._ids = ids
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
            await self._fail(delivery, error.message)
            return True
        await self._finish(delivery, receipt.first_audio_mono_ns)
        log.info("delivery.delivered", extra={"delivery": delivery.id, "attempts": delivery.attempts})
        return True

    def _begin_next(self, tx: Transaction) -> Delivery | None:
        """Take the next delivery; answers that nobody waits for any more become one sentence that says so (R5)."""
        late = unsaid.abandon_late(tx, self._clock)
        if late:
            count = len(late) + unsaid.withdraw_notice(tx, self._clock)
            name, language = "answer_unsaid" if count == 1 else "answers_unsaid", late[-1].language
            text = self._wording.reply(name, language, count=count)
            unsaid.queue_notice(tx, self._clock, self._ids, language=language, text=text, count=count)
        return super()._begin_next(tx)

    def _as_said(self, delivery: Delivery) -> Delivery:
        """Put "again" in front of what may have been heard before, and "from earlier" in front of what waited for so long that
        its numbers are not of now. It becomes the lead, whose audio may be ready."""
        names = ["repeat"] if delivery.may_be_repeat else []
        if unsaid.is_old(delivery, self._clock):
            names.append("from_earlier")
        if not names:
            return delivery
        lead = joined(*(self._wording.reply(name, delivery.language) for name in names))
        return replace(delivery, lead=lead, text=joined(delivery.lead, delivery.text))

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next try, or until the voice is back."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._voice_back.wait()
