"""Keeps since when each part is degraded, and says once of one that stays so for two hours that somebody should look (R8).

In: changes of :class:`Degraded`. Out: one sentence, one message and one line in the log a part (of :data:`AT_ONCE` a message at
once as well); ``needs_attention`` in status. One timer a degraded part; nothing is looked at in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries

log = logging.getLogger(__name__)

AFTER_S = 2 * 3600.0  # requirements R8
AT_ONCE = frozenset({"sync"})
"""Parts of which a message is sent at once as well: whoever reads messages can mend them, and nobody at the machine."""
_PRIORITY = 4  # nobody at the machine waits for this
_MESSAGE_PRIORITY = 9  # that of alarm changes: messages of one priority keep their order


class Attention:
    """Service that asks for attention. Times count from when this was made: a restart is a new beginning.

    ``sentences`` has, for a part (up to a colon), the reply that says that it is lost.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        wording: Wording,
        degraded: Degraded,
        *,
        sentences: Mapping[str, str],
        language: str,
        client_id: str,
        queued: Callable[[], None],
        may_be_over: Callable[[str], bool],
        after_s: float = AFTER_S,
    ) -> None:
        """``queued`` is called after words and a message were queued. ``may_be_over`` says whether what degrades a part may be
        over, and nobody has looked: then its two hours begin anew. It is asked only while this runs."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._wording = wording
        self._degraded = degraded
        self._sentences = sentences
        self._language = language
        self._topic = f"floorhand/{client_id}/attention"
        self._queued = queued
        self._after_s = after_s
        self._may_be_over = may_be_over
        self._doubted_mono_ns: dict[str, int] = {}
        self._since_mono_ns = {part: clock.monotonic_ns() for part in degraded.reasons}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._asked: set[str] = set()
        self._told: set[str] = set()
        degraded.listeners.append(self._note)

    def degraded_s(self) -> dict[str, float]:
        """Return for how many seconds each degraded part has been so."""
        now_ns = self._clock.monotonic_ns()
        return {part: round((now_ns - since_ns) / 1e9, 1) for part, since_ns in sorted(self._since_mono_ns.items())}

    def needs_attention(self) -> list[str]:
        """Return the parts that have been degraded for so long that somebody should look."""
        sure = (part for part in sorted(self._since_mono_ns) if not self._may_be_over(part))
        return [part for part in sure if round(self._sure_s(part), 1) >= self._after_s]

    async def run(self) -> None:
        """Ask for ever."""
        for part in self._since_mono_ns:
            self._start(part)
        try:
            while True:
                await self._ask(await self._due.get())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _note(self, part: str, why: str) -> None:
        if not why:
            self._since_mono_ns.pop(part, None)
            self._doubted_mono_ns.pop(part, None)
            self._asked.discard(part)
            self._told.discard(part)
            if (timer := self._timers.pop(part, None)) is not None:
                timer.cancel()
        elif part not in self._since_mono_ns:  # else it is degraded for another reason now, and was before
            self._since_mono_ns[part] = self._clock.monotonic_ns()
            self._start(part)

    def _start(self, part: str) -> None:
        waits_s = 0.0 if self._is_to_tell(part) else self._after_s
        left_s = waits_s - self._sure_s(part)
        if part not in self._asked and part not in self._timers:
            self._timers[part] = asyncio.get_running_loop().call_later(max(0.0, left_s), self._ring, part)

    def _is_to_tell(self, part: str) -> bool:
        return part in AT_ONCE - self._told

    def _sure_s(self, part: str) -> float:
        since_mono_ns = max(self._since_mono_ns[part], self._doubted_mono_ns.get(part, 0))
        return (self._clock.monotonic_ns() - since_mono_ns) / 1e9

    def _ring(self, part: str) -> None:
        self._timers.pop(part, None)
        if self._may_be_over(part):
            self._doubted_mono_ns[part] = self._clock.monotonic_ns()
            self._start(part)
        else:
            self._due.put_nowait(part)

    async def _ask(self, part: str) -> None:
        why = self._degraded.reasons.get(part, "")
        if not why or part in self._asked:
            return
        lost = self._wording.reply(self._sentences.get(part.partition(":")[0], "part_degraded"), self._language)
        text = self._wording.reply("needs_attention", self._language, what=lost)
        at = self._clock.utc().isoformat(timespec="milliseconds")
        in_words = not self._is_to_tell(part)
        payload: dict[str, Any] = {"part": part, "why": why, "degraded_s": self.degraded_s().get(part, 0.0), "at": at}

        def queue(tx: Transaction) -> None:
            if in_words:
                deliveries.queue(
                    tx, self._clock, self._ids, turn_id=None, language=self._language, text=text, priority=_PRIORITY
                )  # fmt: skip
            deliveries.queue_message(
                tx, self._clock, self._ids, turn_id=None, topic=self._topic, payload=payload, priority=_MESSAGE_PRIORITY
            )  # fmt: skip

        await self._ledger.transaction(queue)
        if in_words:
            self._asked.add(part)
        else:
            self._told.add(part)
            self._start(part)
        log.error("attention.needed", extra={"part": part, "why": why})
        self._queued()
