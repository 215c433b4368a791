"""The global hold (R10): alarms are admitted and told, nothing else is carried out. By a person's word, or by the key switch.

In: a word, a turn of the key. Out: rows with who and why, one sentence when it begins and one when it ends, and a retained
message, all in one transaction; whoever shows the hold is told after it. What is refused meanwhile is execution's matter
(``store.holds.require_none``). Who calls: the local API, the panel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import PRIORITY_HOLD
from appliance.contracts.errors import Refused
from appliance.contracts.hold import Hold, HoldSource
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.store import deliveries, holds

log = logging.getLogger(__name__)

_MESSAGE_PRIORITY = 9  # that of alarm changes: messages of one priority keep their order
_OVERTAKEN = "the hold changed again before it could be said"


class Holding:
    """The hold as it is now. ``listeners`` are called on the event loop after each change."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        wording: Wording,
        *,
        language: str,
        client_id: str,
        has_key: bool,
        queued: Callable[[], None],
    ) -> None:
        """``has_key``: there is a key switch, so that what it holds is its own to let go; ``queued`` is called after words and a
        message were queued."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._texts = {True: wording.reply("hold", language), False: wording.reply("hold_ended", language)}
        self._language = language
        self._topic = f"floorhand/{client_id}/hold"
        self._has_key = has_key
        self._queued = queued
        self._in_force: list[Hold] = []
        self.listeners: list[Callable[[], None]] = []

    @property
    def is_on(self) -> bool:
        """Whether anything holds."""
        return bool(self._in_force)

    def facts(self) -> dict[str, Any]:
        """Return ``{on_hold, holds}`` as status, the local API and the message have it."""
        return _facts(self._in_force)

    async def load(self) -> None:
        """Take up what the ledger says, and say it on its topic: what the broker has may be of a ledger before this one."""

        def work(tx: Transaction) -> list[Hold]:
            found = holds.in_force(tx)
            self._publish(tx, found)
            return found

        self._in_force = await self._ledger.transaction(work)
        if self._in_force:
            log.warning("hold.goes_on", extra={"holds": len(self._in_force)})
        self._queued()
        self._tell()

    async def hold(self, reason: str, by: str) -> Mapping[str, Any]:
        """See ``contracts.operating_acts.OperatingActs``."""
        return await self.begin(HoldSource.PERSON, by=by, reason=reason)

    async def release(self, by: str, *, of: str = "", everyone: bool = False) -> Mapping[str, Any]:
        """See ``contracts.operating_acts.OperatingActs``. A hold of a key switch that is configured no more is a person's to end.

        Raises:
            Refused: nothing is on hold, or only what is not to be released by this word; the message names who holds.
        """
        whose = of or by

        def is_meant(hold: Hold) -> bool:
            if hold.source is HoldSource.KEY_SWITCH:
                return not self._has_key
            return everyone or hold.by == whose

        def act(tx: Transaction) -> bool:
            standing = holds.in_force(tx)
            meant = [hold for hold in standing if is_meant(hold)]
            if not meant:
                raise _nothing_to_release(standing, whose)
            ended = [holds.end(tx, self._clock, hold.source, of=hold.by, by=by) for hold in meant]
            return any(ended)

        return await self._change(act)

    async def begin(self, source: HoldSource, *, by: str, reason: str) -> Mapping[str, Any]:
        """Put on hold; again by who holds already changes nothing, but for a reason that was not given yet."""
        return await self._change(lambda tx: holds.begin(tx, self._clock, source, by=by, reason=reason))

    async def end(self, source: HoldSource, *, by: str) -> Mapping[str, Any]:
        """Let go of what ``by`` holds itself; nothing changes when it holds nothing."""
        return await self._change(lambda tx: holds.end(tx, self._clock, source, of=by, by=by))

    async def _change(self, act: Callable[[Transaction], bool]) -> Mapping[str, Any]:
        def work(tx: Transaction) -> tuple[list[Hold], bool]:
            was_on = bool(holds.in_force(tx))
            changed = act(tx)
            now = holds.in_force(tx)
            if changed:
                self._publish(tx, now)
            if bool(now) != was_on:
                self._say(tx, is_on=bool(now))
            return now, changed

        self._in_force, changed = await self._ledger.transaction(work)
        if changed:
            log.warning("hold.changed", extra={"holds": [str(hold.source) for hold in self._in_force]})
            self._queued()
            self._tell()
        return self.facts()

    def _say(self, tx: Transaction, *, is_on: bool) -> None:
        """Queue the sentence. What waits to be said of the hold before is no longer so: it is never said."""
        deliveries.withdraw(tx, self._clock, self._texts.values(), why=_OVERTAKEN)
        deliveries.queue(
            tx,
            self._clock,
            self._ids,
            turn_id=None,
            language=self._language,
            text=self._texts[is_on],
            priority=PRIORITY_HOLD,
        )

    def _publish(self, tx: Transaction, now: list[Hold]) -> None:
        deliveries.queue_message(
            tx,
            self._clock,
            self._ids,
            turn_id=None,
            topic=self._topic,
            payload=_facts(now),
            priority=_MESSAGE_PRIORITY,
            retain=True,
        )

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()


def _nothing_to_release(standing: list[Hold], whose: str) -> Refused:
    if not standing:
        return Refused("nothing is on hold", cure="Nothing is to be released; what else keeps work waiting: floorhand status")
    persons = [hold.by for hold in standing if hold.source is HoldSource.PERSON]
    told = ", ".join([*persons, *["the key switch"] * (len(standing) > len(persons))])
    cure = "Turn the key back."
    if persons:
        cure = f"Each releases their own. When it is safe: floorhand release --for '{persons[0]}', or --all"
    return Refused(f"{whose} holds nothing; on hold by {told}", by=whose, holders=persons, cure=cure)


def _facts(in_force: list[Hold]) -> dict[str, Any]:
    return {
        "on_hold": bool(in_force),
        "holds": [
            {
                "source": str(hold.source),
                "by": hold.by,
                "reason": hold.reason,
                "since": hold.began_utc.isoformat(timespec="milliseconds"),
            }
            for hold in in_force
        ],
    }
