"""Loss accounting from the source to the loudspeaker: what came in is what was said plus what was not, each with its reason.

    seen       = journalled + duplicates + conflicts
    journalled = announced + suppressed + waiting

``announced`` means that it was heard, ``waiting`` that this is still to come. What a flood tells of is suppressed once somebody
heard of the flood. Whatever breaks a sum is named. Alarms that came and could not be read are counted by topic, and are a fault
until somebody has looked into them. What else the drivers could not use is theirs to count: it is shown beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger, Transaction
from appliance.store import alarm_account, alarm_sources, alarm_unreadable
from appliance.store.alarm_account import SourceCounts
from appliance.store.alarm_sources import Source
from appliance.store.alarm_unreadable import Unreadable


class AlarmAccount:
    """Draws up the account. ``drivers`` are counters of the parts before the door, by name; they count from the start on."""

    def __init__(self, ledger: Ledger, clock: Clock, drivers: Mapping[str, Callable[[], Mapping[str, Any]]]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._drivers = drivers

    async def draw_up(self) -> dict[str, Any]:
        """Return ``{holds, faults, sources, unreadable, drivers}``; each source has its counts, by the names of
        :class:`SourceCounts`, each topic by those of :class:`Unreadable`."""
        sources = await alarm_account.counts(self._ledger)
        unreadable = await alarm_unreadable.listed(self._ledger)
        faults = [fault for counted in sources for fault in faults_of(counted)]
        faults += [f"{each.topic}: {each.unseen} not read, newest: {each.newest_why}" for each in unreadable if each.unseen]
        return {
            "holds": not faults,
            "faults": faults,
            "sources": [asdict(counted) for counted in sources],
            "unreadable": [asdict(each) for each in unreadable],
            "drivers": {name: dict(tell()) for name, tell in self._drivers.items()},
        }

    async def accept_missing(self, name: str, by: str) -> Source | Unreadable:
        """Note that ``by`` looked into what never came from a source so far, or could not be read on a topic.

        Raises:
            Refused: nothing ever came from it.
        """

        def work(tx: Transaction) -> Source | Unreadable:
            topic = alarm_unreadable.accept(tx, self._clock, name, by)
            if topic is not None and all(source.name != name for source in alarm_sources.every(tx)):
                return topic
            return alarm_sources.accept_missing(tx, self._clock, name, by)

        return await self._ledger.transaction(work)


def faults_of(counted: SourceCounts) -> list[str]:
    """Return what does not add up, in words; nothing when all does."""
    faults = []
    known = counted.journalled + counted.duplicates + counted.conflicts
    if counted.seen != known:
        faults.append(f"{counted.source}: {counted.seen} handed in, {known} accounted for")
    told = counted.announced + counted.waiting + sum(counted.suppressed.values())
    if counted.journalled != told:
        faults.append(f"{counted.source}: {counted.journalled - told} to be announced, heard by nobody")
    if counted.unseen:
        faults.append(f"{counted.source}: {counted.unseen} never came, by its own numbers")
    return faults
