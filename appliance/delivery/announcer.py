"""Says once when something the people depend on is lost, and once when it is back.

In: changes of :class:`Degraded`. Out: deliveries. A loss is said only after it has lasted ``settle_s``, so that a link that
blinks, or one that is still connecting at start-up, is not talked about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set

from appliance.contracts.alarm_definition import ConditionKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries

SETTLE_S = 4.0  # a broker or PLC that comes back within this time was not missed by anybody
_SOON = 7  # below an alarm's announcement (9), above what is typed (6)
_IN_PASSING = 4  # nobody at the machine waits for this

REPLIES: Mapping[str, tuple[str, str, int]] = {
    "mqtt": ("broker_lost", "broker_back", _SOON),
    "plc": ("plc_unreachable", "plc_back", _SOON),
    "coordinator": ("coordinator_lost", "coordinator_back", _IN_PASSING),
    "sync": ("sync_stopped", "sync_goes_on", _IN_PASSING),
    "models": ("models_away", "models_back", _IN_PASSING),
    "audit": ("audit_broken", "audit_whole", _IN_PASSING),
    "clock_behind": ("clock_behind", "clock_right", _IN_PASSING),
}
"""Part (up to a colon) -> names of the replies that say it is lost, and back, and their priority."""

LOST_SENTENCES: Mapping[str, str] = {part: lost for part, (lost, _, _) in REPLIES.items()}
"""Part (up to a colon) -> the reply that says it is lost."""


def told_by_alarms(plant: Plant) -> frozenset[str]:
    """Return the parts whose loss is an alarm of the plant model: it is announced as one, and not twice."""
    conditions = (alarm.condition for alarm in plant.alarms if alarm.condition is not None)
    return frozenset(
        f"plc:{condition.link}" if condition.device_id is None else f"plc:{condition.link}:{condition.device_id}"
        for condition in conditions
        if condition.kind is ConditionKind.UNREACHABLE
    )


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
        silent: Set[str] = frozenset(),
    ) -> None:
        """``said_lost`` are the parts that were lost, and said to be, before this process started; ``silent`` are never talked
        about (:func:`told_by_alarms`)."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._wording = wording
        self._degraded = degraded
        self._language = language
        self._delivered = delivered
        self._settle_s = settle_s
        self._lost: set[str] = set()
        self._said_lost: set[str] = set(said_lost)
        self._silent = silent
        self._settling: dict[str, asyncio.TimerHandle] = {}
        self._settled: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Announce for ever."""
        self._degraded.listeners.append(self._note)
        try:
            for part in sorted(self._lost | self._said_lost | self._degraded.reasons.keys()):  # what nobody listened to
                self._note(part, self._degraded.reasons.get(part, ""))
                self._settle(part)
            while True:
                await self._announce(await self._settled.get())
        finally:
            self._degraded.listeners.remove(self._note)
            for timer in self._settling.values():
                timer.cancel()

    def _note(self, part: str, why: str) -> None:
        if part.partition(":")[0] in REPLIES and part not in self._silent and bool(why) != (part in self._lost):
            self._lost ^= {part}
            self._settle(part)

    def _settle(self, part: str) -> None:
        """Look at a part once it has stayed as it is now for long enough."""
        if (running := self._settling.get(part)) is not None:
            running.cancel()
        self._settling[part] = asyncio.get_running_loop().call_later(self._settle_s, self._settled.put_nowait, part)

    async def _announce(self, part: str) -> None:
        """Say what became of a part, unless that was said already."""
        if (part in self._lost) != (part in self._said_lost):
            lost, back, priority = REPLIES[part.partition(":")[0]]
            await self._say(lost if part in self._lost else back, priority)
            self._said_lost ^= {part}

    async def _say(self, reply: str, priority: int) -> None:
        text = self._wording.reply(reply, self._language)

        def queue(tx: Transaction) -> None:
            deliveries.queue(
                tx, self._clock, self._ids, turn_id=None, language=self._language, text=text,
                priority=priority,
            )  # fmt: skip

        await self._ledger.transaction(queue)
        self._delivered()
