"""Watches every alarm that has a condition, and hands what comes and goes to the ledger.

In: polled and published readings, and which link is in sight. Out: alarm events through ``AlarmSink``, in the order they were
found. Who calls: the field bus and the published values as their listeners, the journal with what it stored, on the event loop.

Of alarms the appliance alone watches, this is the source. Of those a gateway reports it notices what was lost on the way.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from appliance.contracts.alarm import Alarm
from appliance.contracts.alarm_definition import AlarmDefinition, Condition
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Plant
from appliance.contracts.ports import AlarmSink
from appliance.contracts.reading import Quality, Reading, Repeat, Visibility
from appliance.foundation.lookout import Lookout
from drivers.alarms.ledger_line import LedgerLine
from drivers.alarms.links import LinkSight
from drivers.alarms.watch import AlarmWatch, SuppressionWatch, source_of


class AlarmScan:
    """The alarm engine. Nothing is said about an alarm before what it watches was seen once."""

    def __init__(self, plant: Plant, clock: Clock, ids: IdSource, sink: AlarmSink) -> None:
        self._clock = clock
        self._line = LedgerLine(ids, sink)
        self._restless: dict[AlarmWatch, str] = {}
        self._watches = {
            alarm.id: _watch_of(plant, alarm, alarm.condition, self._restless)
            for alarm in plant.alarms
            if alarm.condition is not None
        }
        self._by_tag: defaultdict[str, list[AlarmWatch]] = defaultdict(list)
        self._suppressions: defaultdict[str, list[SuppressionWatch]] = defaultdict(list)
        self._shown: dict[str, Reading | None] = {}  # newest reading of the tags whose value is told
        self._units = {tag.key: tag.unit for tag in plant.tags}
        self._sight = LinkSight(plant, self._watches.values())
        self._lookout = Lookout(soonest_s=0.0)
        self._wake_mono_ns: int | None = None
        for alarm in plant.alarms:
            if alarm.condition is not None and alarm.condition.tag is not None:
                self._by_tag[alarm.condition.tag].append(self._watches[alarm.id])
                self._shown[alarm.tag or alarm.condition.tag] = None
            if alarm.suppressed_while is not None:
                tag = plant.tag_by_key[alarm.suppressed_while.tag]
                self._suppressions[tag.key].append(SuppressionWatch(alarm.id, alarm.suppressed_while, tag))

    # what is known and seen -----------------------------------------------------------------------------------------
    def know(self, live: Sequence[Alarm]) -> None:
        """Take in the ledger's live activations, before :meth:`run`: a restart neither announces nor forgets anything."""
        for alarm in live:
            if (watch := self._watches.get(alarm.alarm_id)) is not None:
                watch.learn(alarm)
                watch.settle()

    def known(self, alarm: Alarm) -> None:
        """Take in a change the ledger stored, whoever reported it."""
        watch = self._watches.get(alarm.alarm_id)
        if watch is not None:
            watch.learn(alarm)
            if watch.is_second:
                self._line.is_known(watch)
            elif watch.queued is None and not watch.live:
                watch.settle()  # a person closed what is still there: it is raised anew

    def take(self, readings: Collection[Reading]) -> None:
        """Take in polled or published readings. Cheap: only alarms that watch these tags are looked at."""
        at_ns = self._clock.monotonic_ns()
        if self._sight.is_unsure:
            for change in self._sight.seen_by(readings):
                self.note(change)
        if isinstance(readings, Repeat):
            self._take_again(readings, at_ns)
            return
        for reading in readings:  # before any event is made: it tells its value and whether it means anything
            if reading.tag in self._shown:
                self._shown[reading.tag] = reading
            for rule in self._suppressions.get(reading.tag, ()):
                if rule.hear(reading):
                    self._line.put_suppression(rule)
        for reading in readings:
            for watch in self._by_tag.get(reading.tag, ()):
                self._hear(watch, reading, at_ns)

    def _take_again(self, readings: Repeat, at_ns: int) -> None:
        """Only an alarm for which it counts how often or how long it was so looks at a reading that is as the last one."""
        for watch, tag in list(self._restless.items()):
            reading = readings.of(tag)
            if reading is not None:
                self._hear(watch, reading, at_ns)

    def _hear(self, watch: AlarmWatch, reading: Reading, at_ns: int) -> None:
        if watch.hear(reading, at_ns):
            self._found(watch)
        elif watch.delay.due_mono_ns is not None:
            self._wake_by(watch.delay.due_mono_ns)

    def note(self, change: Visibility) -> None:
        """Take in that a link, or a device behind it, came into sight or was lost."""
        for watch in self._sight.lost_by(change):
            watch.lose_sight()
        at_ns, at_utc = self._clock.monotonic_ns(), self._clock.utc()
        for watch, is_lost in self._sight.note(change):
            if is_lost is None:
                watch.delay.settle(watch.delay.is_active)
            elif watch.see(is_lost, at_ns, at_utc):
                self._found(watch)
            elif watch.delay.due_mono_ns is not None:
                self._wake_by(watch.delay.due_mono_ns)

    @property
    def counts(self) -> Mapping[str, int]:
        """Return what became of the transitions found so far; see ``LedgerLine``."""
        return self._line.counts

    def as_facts(self) -> Mapping[str, int]:
        """Return the account: ``seen`` is ``admitted`` + ``refused`` + ``withdrawn`` + ``pending``. ``watched`` alarms, of which
        ``unknown`` were not seen yet."""
        return {
            **{name: self._line.counts[name] for name in ("seen", "admitted", "refused", "withdrawn")},
            "pending": sum((watch.queued is not None) + (watch.waiting is not None) for watch in self._watches.values()),
            "watched": len(self._watches),
            "unknown": sum(watch.is_unknown for watch in self._watches.values()),
        }

    # time -----------------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Let delays pass and hand events in, for ever. Started again after a failure it goes on where it stood."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pass_time(), name="alarm delays")
            tasks.create_task(self._line.run(), name="alarm events")

    async def _pass_time(self) -> None:
        async def look() -> float | None:
            self.expire()
            dues = [watch.delay.due_mono_ns for watch in self._watches.values() if watch.delay.due_mono_ns is not None]
            self._wake_mono_ns = min(dues, default=None)
            return None if self._wake_mono_ns is None else (self._wake_mono_ns - self._clock.monotonic_ns()) / 1e9

        await self._lookout.run(look)

    def expire(self) -> None:
        """Let the delays that are over by now count. :meth:`run` does it when they are."""
        now_ns = self._clock.monotonic_ns()
        for watch in self._watches.values():
            if watch.delay.expire(now_ns):
                self._found(watch)

    def _found(self, watch: AlarmWatch) -> None:
        self._line.put(watch, watch.finding(*self._measured(watch.definition)))

    def _measured(self, definition: AlarmDefinition) -> tuple[float | None, str]:
        """Return value and unit to tell: of the alarm's tag, else of the one its condition is about."""
        key = definition.tag or (definition.condition.tag if definition.condition is not None else None)
        if key is None:
            return None, ""
        reading = self._shown.get(key)
        value = reading.value if reading is not None and reading.quality is Quality.GOOD else None
        if isinstance(value, bool) or not isinstance(value, float | int):
            return None, self._units[key]
        return float(value), self._units[key]

    def _wake_by(self, due_mono_ns: int) -> None:
        if self._wake_mono_ns is None or due_mono_ns < self._wake_mono_ns:
            self._wake_mono_ns = due_mono_ns
            self._lookout.notify()


def _watch_of(plant: Plant, alarm: AlarmDefinition, condition: Condition, restless: dict[AlarmWatch, str]) -> AlarmWatch:
    tag = plant.tag_by_key[condition.tag] if condition.tag is not None else None
    return AlarmWatch(alarm, condition, source_of(tag.link if tag is not None else str(condition.link)), tag, restless)
