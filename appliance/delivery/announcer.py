"""Says once when something the people depend on is lost, and once when it is back.

In: changes of :class:`Degraded`. Out: deliveries. A loss is said only after it has lasted ``settle_s``, so that a link that
blinks, or one that is still connecting at start-up, is not talked about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import Channel
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries

SETTLE_S = 4.0  # a broker or PLC that comes back within this time was not missed by anybody
_PRIORITY = 7  # below an alarm's announcement (9), above answers

REPLIES: Mapping[str, tuple[str, str]] = {
    "mqtt": ("broker_lost", "broker_back"),
    "plc": ("plc_unreachable", "plc_back"),
    "coordinator": ("coordinator_lost", "coordinator_back"),
}
"""Part (up to a colon) -> names of the replies that say it is lost, and back."""


class Announcer:
    """Service that turns lasting changes of what is degraded into speech."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        wording: Wording,
        degraded: Degraded,
        *,
        language: str,
        delivered: Callable[[], None],
        settle_s: float = SETTLE_S,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._wording = wording
        self._degraded = degraded
        self._language = language
        self._delivered = delivered
        self._settle_s = settle_s
        self._changed = asyncio.Event()
        self._said_lost: set[str] = set()

    async def run(self) -> None:
        """Announce for ever."""
        self._degraded.listeners.append(self._note)
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await asyncio.sleep(self._settle_s)  # what changes back within this time is not worth a word
                await self._announce()
        finally:
            self._degraded.listeners.remove(self._note)

    def _note(self, part: str, _: str) -> None:
        if part.partition(":")[0] in REPLIES:
            self._changed.set()

    async def _announce(self) -> None:
        lost = {part for part in self._degraded.reasons if part.partition(":")[0] in REPLIES}
        for part in sorted(lost - self._said_lost):
            await self._say(REPLIES[part.partition(":")[0]][0])
        for part in sorted(self._said_lost - lost):
            await self._say(REPLIES[part.partition(":")[0]][1])
        self._said_lost = lost

    async def _say(self, reply: str) -> None:
        text = self._wording.reply(reply, self._language)

        def queue(tx: Transaction) -> None:
            deliveries.queue(
                tx, self._clock, self._ids, channel=Channel.SPEECH, turn_id=None, language=self._language, text=text,
                priority=_PRIORITY,
            )  # fmt: skip

        await self._ledger.transaction(queue)
        self._delivered()
