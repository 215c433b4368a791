"""Says once when something the people depend on is lost, and once when it is back.

In: changes of :class:`Degraded`. Out: deliveries. A loss is said only after it has lasted ``settle_s``, so that a link that
blinks, or one that is still connecting at start-up, is not talked about.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Set

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import Channel
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries

SETTLE_S = 4.0  # a broker or PLC that comes back within this time was not missed by anybody
_ABOVE_ANSWERS = 7  # below an alarm's announcement (9)
_BELOW_ANSWERS = 4  # nobody at the machine waits for this

REPLIES: Mapping[str, tuple[str, str, int]] = {
    "mqtt": ("broker_lost", "broker_back", _ABOVE_ANSWERS),
    "plc": ("plc_unreachable", "plc_back", _ABOVE_ANSWERS),
    "coordinator": ("coordinator_lost", "coordinator_back", _BELOW_ANSWERS),
}
"""Part (up to a colon) -> names of the replies that say it is lost, and back, and their priority."""


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
        said_lost: Set[str] = frozenset(),
    ) -> None:
        """``said_lost`` are the parts that were lost, and said to be, before this process started."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._wording = wording
        self._degraded = degraded
        self._language = language
        self._delivered = delivered
        self._settle_s = settle_s
        self._changed = asyncio.Event()
        self._flips: Counter[str] = Counter()
        self._lost: set[str] = set()
        self._said_lost: set[str] = set(said_lost)

    async def run(self) -> None:
        """Announce for ever."""
        self._degraded.listeners.append(self._note)
        try:
            for part in self._lost | self._degraded.reasons.keys():  # what changed while nobody listened
                self._note(part, self._degraded.reasons.get(part, ""))
            self._changed.set()  # something may be known and not said yet
            while True:
                await self._changed.wait()
                self._changed.clear()
                before = dict(self._flips)
                await asyncio.sleep(self._settle_s)
                known = self._flips.keys() | self._said_lost
                await self._announce({part for part in known if before.get(part, 0) == self._flips[part]})
        finally:
            self._degraded.listeners.remove(self._note)

    def _note(self, part: str, why: str) -> None:
        if part.partition(":")[0] in REPLIES and bool(why) != (part in self._lost):
            self._lost ^= {part}
            self._flips[part] += 1
            self._changed.set()

    async def _announce(self, settled: Set[str]) -> None:
        """Say what became of the parts that have stayed as they are; one that has not comes with the next look."""
        for part in sorted(settled):
            if (part in self._lost) != (part in self._said_lost):
                lost, back, priority = REPLIES[part.partition(":")[0]]
                await self._say(lost if part in self._lost else back, priority)
                self._said_lost ^= {part}

    async def _say(self, reply: str, priority: int) -> None:
        text = self._wording.reply(reply, self._language)

        def queue(tx: Transaction) -> None:
            deliveries.queue(
                tx, self._clock, self._ids, channel=Channel.SPEECH, turn_id=None, language=self._language, text=text,
                priority=priority,
            )  # fmt: skip

        await self._ledger.transaction(queue)
        self._delivered()
