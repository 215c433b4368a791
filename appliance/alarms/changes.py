"""Tells of every stored change of an alarm, whoever made it: a source, a person, the clock.

In: commits of the ledger. Out: messages queued durably, in the transaction that moves the cursor on (so each change is published
once, whatever dies), and listeners called on the event loop. Who follows: the alarm scan, the published alarm topics, lamps.
"""

from __future__ import annotations

from collections.abc import Callable

from appliance.contracts.alarm import Alarm
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.lookout import Lookout
from appliance.store import alarm_feed

Publish = Callable[[Transaction, Alarm, str], None]
"""Queues a message about an alarm as it is now and what changed: ``raised``, ``cleared``, ``acknowledged``, ``reset`` or
``closed``."""


class AlarmChanges:
    """A service. ``listeners`` get each alarm as stored; ``stirred`` are called when anything about alarms was written.

    All are called on the event loop after the commit; they must be quick and not raise.
    """

    def __init__(self, ledger: Ledger, publish: Publish | None = None) -> None:
        self._ledger = ledger
        self._publish = publish
        self._lookout = Lookout()
        self.listeners: list[Callable[[Alarm], None]] = []
        self.stirred: list[Callable[[], None]] = []

    def notify(self) -> None:
        """Look again: the ledger may have changed. For ``Database.on_commit``."""
        self._lookout.notify()

    async def run(self) -> None:
        """Follow for ever. What an earlier process stored and did not tell any more is told first."""

        async def look() -> None:
            while await self.follow():
                pass

        await self._lookout.run(look)

    async def follow(self) -> bool:
        """Tell what there is; return whether there was anything."""
        head = await self._ledger.fetch(alarm_feed.HEAD)
        if not head or not head[0]["has_more"]:
            return False

        def work(tx: Transaction) -> list[Alarm]:
            changes = alarm_feed.take(tx)
            if self._publish is not None:
                for alarm, what in changes:
                    self._publish(tx, alarm, what)
            return [alarm for alarm, _ in changes]

        changed = await self._ledger.transaction(work)
        for alarm in changed:
            for listener in self.listeners:
                listener(alarm)
        for stir in self.stirred:
            stir()
        return True
