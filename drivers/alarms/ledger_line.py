"""The way of what was found to the ledger: in order, bounded, and accounted for to the last transition.

In: findings of watched alarms, changes of what is suppressed. Out: calls of ``AlarmSink``. Who calls: the alarm engine.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, deque
from dataclasses import dataclass

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.clock import IdSource
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.ports import AlarmSink
from drivers.alarms.watch import AlarmWatch, Finding, Identity, SuppressionWatch

log = logging.getLogger(__name__)

_SHORTEST_PAUSE_S = 0.05  # between two tries of a ledger that says to try again at once
_MOST_TOGETHER = 64  # events on their way at once: about what the ledger writes in one group


@dataclass(frozen=True, slots=True, eq=False)
class _News:
    """An event of an alarm, on its way to the ledger."""

    watch: AlarmWatch
    event: AlarmEvent


class LedgerLine:
    """What waits for the ledger: at most one event and one change of suppression an alarm. Used from one event loop.

    An alarm that changes again while its event is on its way waits with that, and if it changes back, both changes cancel each
    other out. ``counts``: transitions ``seen``, of these ``admitted``, ``refused`` by the ledger, and ``withdrawn``: such pairs,
    and what the gateway turned out to have told after all. The rest is pending.
    """

    def __init__(self, ids: IdSource, sink: AlarmSink) -> None:
        self._ids = ids
        self._sink = sink
        self._line: deque[_News | SuppressionWatch] = deque()
        self._in_flight: tuple[_News | SuppressionWatch, ...] = ()
        self._news = asyncio.Event()
        self._why = ""
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._line)

    def put(self, watch: AlarmWatch, finding: Finding) -> None:
        """Take in that an alarm came or went: it is told now, or once what was told before has arrived."""
        self.counts["seen"] += 1
        if watch.queued is None:
            self._queue(watch, finding)
        elif watch.waiting is None and finding.change is not watch.queued:
            watch.waiting = finding
        else:  # back to what is on its way: the two cancel each other out
            watch.waiting = None
            self.counts["withdrawn"] += 2

    def put_suppression(self, rule: SuppressionWatch) -> None:
        """Take in that what is suppressed by design is other than was told."""
        if not rule.is_queued:
            rule.is_queued = True
            self._line.append(rule)
            self._news.set()

    def is_known(self, watch: AlarmWatch) -> None:
        """Take in that the ledger learned something about an alarm that a gateway reports, too."""
        if watch.queued is (AlarmChange.RAISED if watch.live else AlarmChange.CLEARED):
            self._withdraw(watch)
        if watch.queued is None:
            watch.settle()

    async def run(self) -> None:
        """Hand everything in, for ever; while the ledger is away, wait and offer it again."""
        while True:
            if not self._line:
                self._news.clear()
                await self._news.wait()
                continue
            self._in_flight = self._group()
            try:
                async with asyncio.TaskGroup() as tasks:
                    telling = [tasks.create_task(self._tell(item)) for item in self._in_flight]
            finally:
                self._in_flight = ()
            away = [error for task in telling if (error := task.result()) is not None]
            self._note(away[0].message if away else "")
            if away:
                await asyncio.sleep(max(_SHORTEST_PAUSE_S, away[0].retry_after_s))

    def _group(self) -> tuple[_News | SuppressionWatch, ...]:
        """Return what is next: one change of what is suppressed, or the events up to the next of those. Handed in together they
        reach the ledger in their order and are on disk by one write; a flood must not wait for the disk alarm by alarm."""
        first = self._line[0]
        if isinstance(first, SuppressionWatch):
            return (first,)
        events = itertools.takewhile(lambda item: isinstance(item, _News), self._line)
        return tuple(itertools.islice(events, _MOST_TOGETHER))

    async def _tell(self, item: _News | SuppressionWatch) -> Unavailable | None:
        """Hand one thing in and strike it off the line, or return why it stays there."""
        try:
            if isinstance(item, SuppressionWatch):
                await self._tell_suppression(item)
            else:
                await self._tell_news(item)
        except Unavailable as error:
            return error
        return None

    async def _tell_suppression(self, rule: SuppressionWatch) -> None:
        wanted = rule.is_suppressed
        if wanted is not None and wanted != rule.told:
            await self._sink.suppress(rule.alarm_id, wanted, rule.why)
            rule.told = wanted
        self._line.remove(rule)
        rule.is_queued = False
        if rule.is_suppressed != rule.told:  # it changed meanwhile
            self.put_suppression(rule)

    async def _tell_news(self, news: _News) -> None:
        event, watch = news.event, news.watch
        try:
            alarm = (await self._sink.admit(event)).alarm
            self.counts["admitted"] += 1
        except Refused as error:  # trying again changes nothing
            log.error("alarms.refused", extra={"alarm": event.alarm_id, "change": event.change, "why": error.message})
            self.counts["refused"] += 1
            alarm = None
        self._line.remove(news)
        watch.note_told(event, alarm)
        following, watch.waiting = watch.waiting, None
        if following is not None and watch.is_second and bool(watch.live) is watch.delay.is_active:
            following = None  # the ledger knows
            self.counts["withdrawn"] += 1
        if following is not None:
            self._queue(watch, following)
        elif watch.is_second:
            watch.settle()

    def _queue(self, watch: AlarmWatch, finding: Finding) -> None:
        identity = watch.identity if finding.change is AlarmChange.CLEARED else None
        if identity is None:
            identity = watch.own = Identity(watch.source, self._ids.mint("act"))
        event = AlarmEvent(
            source=identity.source,
            alarm_id=watch.definition.id,
            activation=identity.activation,
            change=finding.change,
            value=finding.value,
            unit=finding.unit,
            source_utc=finding.source_utc,
            source_mono_ns=finding.source_mono_ns,
            is_state=finding.is_state,
            was_missed=watch.is_second,
        )
        watch.queued = finding.change
        self._line.append(_News(watch, event))
        self._news.set()

    def _withdraw(self, watch: AlarmWatch) -> None:
        """Take back what the ledger learned from the gateway meanwhile, unless it is being handed in right now."""
        item = next((item for item in self._line if isinstance(item, _News) and item.watch is watch), None)
        if item is None or item in self._in_flight:
            return
        self._line.remove(item)
        self.counts["withdrawn"] += 1 if watch.waiting is None else 2
        watch.queued = watch.waiting = None

    def _note(self, why: str) -> None:
        if bool(why) != bool(self._why):
            if why:
                log.warning("alarms.waits_for_ledger", extra={"why": why, "waiting": len(self._line)})
            else:
                log.info("alarms.ledger_back", extra={"waiting": len(self._line)})
        self._why = why
