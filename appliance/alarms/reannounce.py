"""Tells again of alarms that nobody acknowledged or answered: after a time their priority sets, a few times at most.

What was told, when and how often is in the ledger: a restart neither forgets a repetition nor makes one twice. While a flood
lasts nothing else is told again; a flood is told again as a whole, not alarm by alarm.

In: announcements as the conductor notes them. Out: admissions in the alarm's or the flood's conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from appliance.alarms.floods import admit_news
from appliance.alarms.settings import AlarmSettings
from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_ALARM, Door, Request, RequestKind
from appliance.contracts.alarm import Alarm, AlarmChange, AlarmState
from appliance.contracts.alarm_definition import Priority
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.flood import FloodNews
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.canonical import digest
from appliance.foundation.lookout import Lookout
from appliance.store import admissions, alarms, announcements, floods, inhibitions
from appliance.store.announcements import Announcement


class Reannouncer:
    """Service that admits repetitions when they are due. It sleeps until then, and looks at once when told of news."""

    def __init__(self, ledger: Ledger, clock: Clock, ids: IdSource, settings: AlarmSettings, *, wake: Callable[[], None]) -> None:
        """``wake`` lets the queue look: something was admitted."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._wake = wake
        self._lookout = Lookout()
        self._started_mono_ns = clock.monotonic_ns()

    def notify(self) -> None:
        """Tell that an alarm or a flood was told of. Cheap; call it from the event loop after the commit."""
        self._lookout.notify()

    async def run(self) -> None:
        """Tell again for ever."""

        async def look() -> float | None:
            next_s = await self._ledger.transaction(self.look)
            self._wake()
            return next_s

        await self._lookout.run(look)

    def look(self, tx: Transaction) -> float | None:
        """Admit what is due; return in how many s to look again, None when nothing will be due before there is news."""
        running = floods.current(tx)
        waits_s: list[float] = []
        for told in announcements.unfinished(tx):
            if running is not None and told.subject != running.id:
                continue  # the flood's end is news, and is looked at
            after_s = self._after_s(tx, told)
            if after_s is None or told.again >= self._settings.reannounce_most:
                announcements.finish(tx, told.subject)
                continue
            left_s = after_s - self._since_s(told.last_mono_ns, told.last_boot_id)
            if left_s <= 0 and not self._is_kept_quiet(tx, told):
                self._tell_again(tx, told)
                left_s = after_s
            # What waits to be said, or is shelved, is looked at again after a while.
            waits_s.append(left_s if left_s > 0 else after_s)
        return min(waits_s, default=None)

    def _after_s(self, tx: Transaction, told: Announcement) -> float | None:
        """Return how long after the last telling a subject is told again; None when it need not be."""
        if told.is_flood:
            return self._soonest_s(alarm for alarm in floods.members(tx, told.subject) if alarm.is_active)
        alarm = alarms.by_activation(tx, told.subject)
        if alarm is None or floods.flood_of(tx, told.subject) or announcements.is_answered(tx, told.turn_id):
            return None
        return self._soonest_s([alarm])

    def _soonest_s(self, candidates: Iterable[Alarm]) -> float | None:
        urgent = (alarm.priority for alarm in candidates if alarm.state is AlarmState.UNACKNOWLEDGED)
        after_s = [self._settings.reannounce_after_s.get(Priority(priority)) for priority in urgent]
        return min((known for known in after_s if known is not None), default=None)

    def _is_kept_quiet(self, tx: Transaction, told: Announcement) -> bool:
        """Whether it is shelved, suppressed or out of service, or what was told last has not been said yet."""
        if announcements.is_being_said(tx, told.last_turn_id):
            return True
        alarm = None if told.is_flood else alarms.by_activation(tx, told.subject)
        return alarm is not None and inhibitions.strongest(tx, self._clock, alarm.alarm_id) is not None

    def _tell_again(self, tx: Transaction, told: Announcement) -> None:
        announcements.count_again(tx, self._clock, told.subject)
        number = told.again + 1
        if told.is_flood:
            admit_news(tx, self._clock, self._ids, floods.by_id(tx, told.subject), FloodNews.AGAIN, number)
            return
        alarm = alarms.required(tx, told.subject)
        payload = {
            "alarm_id": alarm.alarm_id,
            "activation_id": alarm.activation_id,
            "change": str(AlarmChange.RAISED),
            "notice": "again",
            "value": alarm.value,
            "unit": alarm.unit,
            "active_for_s": self._active_for_s(told),
        }
        key = f"again:{told.subject}:{number}"
        lane = lanes.of_asset(alarm.asset)
        request = Request(Door.SCHEDULE, RequestKind.ALARM, lane, key, payload, PRIORITY_ALARM)
        admissions.insert(tx, self._clock, self._ids, request, digest(payload))

    def _active_for_s(self, told: Announcement) -> float | None:
        """Return for how long it is known; None when a reboot came between and wall time was not to be trusted at both ends."""
        if told.first_boot_id == self._clock.boot_id:
            return (self._clock.monotonic_ns() - told.first_mono_ns) / 1e9
        age_s = (self._clock.utc() - told.first_utc).total_seconds()
        return age_s if self._clock.is_synced and told.first_clock_synced and age_s >= 0 else None

    def _since_s(self, mono_ns: int, boot_id: str) -> float:
        """Return the time since a moment. One of another boot counts from this start on: not all is due at once."""
        since_ns = mono_ns if boot_id == self._clock.boot_id else self._started_mono_ns
        return (self._clock.monotonic_ns() - since_ns) / 1e9
