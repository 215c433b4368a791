"""Many alarms at once become one conversation: counted, told by first-out, priority and area, and closed with what is left.

The first alarm of a quiet time is let through at once. One that comes soon after another is held until no more come for a
moment (``settle_s``, at most ``longest_settle_s``). Then the ledger is counted: enough of them are a flood. In one transaction
it is opened in the conversation of the burst's first activation, every alarm that waits joins it, and one turn is admitted that
tells of it. What comes while it lasts joins it in the same way. Everything that decides is in the ledger: whoever dies anywhere
leaves alarms that still wait, or the whole flood.

In: alarm admissions from the conductor. Out: whether a flood has them; ``RequestKind.FLOOD`` admissions with the payload
``{flood, news}``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.alarms.settings import AlarmSettings
from appliance.contracts.admission import PRIORITY_FLOOD, Admission, AdmissionStatus, Door, Outcome, Request, RequestKind
from appliance.contracts.alarm import Alarm, AlarmChange, Disposition
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.flood import Flood, FloodNews, FloodSummary
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.canonical import digest
from appliance.foundation.lookout import Lookout
from appliance.store import admissions, alarm_events, alarms, announcements, deliveries, floods, sessions

log = logging.getLogger(__name__)

_BY_NUMBER = (FloodNews.OPENED, FloodNews.GROWN, FloodNews.AGAIN)
"""News that a newer number replaces, as long as they were not said."""

FirstOut = Callable[[Sequence[Alarm]], Alarm]


def oldest(came: Sequence[Alarm]) -> Alarm:
    """Return the alarm that came first; ``came`` is in order."""
    return came[0]


@dataclass(frozen=True, slots=True)
class Stock:
    """What is told of a flood. ``was_heard``: something about it may have been heard before."""

    news: FloodNews
    summary: FloodSummary
    was_heard: bool


class Floods:
    """Decides which alarms are told one by one. Used from one event loop; ``run`` closes floods that are over."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        settings: AlarmSettings,
        *,
        wake: Callable[[], None],
        first_out: FirstOut = oldest,
    ) -> None:
        """``wake`` lets the queue look again; ``first_out`` picks the first-out of alarms in the order they came."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._wake = wake
        self._first_out = first_out
        self._round: asyncio.Event | None = None
        self._judged_seq = 0
        self._lookout = Lookout()
        self._started_mono_ns = clock.monotonic_ns()

    @property
    def is_gathering(self) -> bool:
        """Whether alarms are being held until it is clear what they belong to. Then no more of them need be taken."""
        return self._round is not None

    # one alarm --------------------------------------------------------------------------------------------------------
    async def takes(self, admission: Admission) -> bool:
        """Return True when a flood tells of this admission, which has ended with that; False when it is told by itself."""
        if admission.payload["change"] == AlarmChange.CLEARED:
            return await self._takes_clear(admission)
        while True:
            if await self.has_ended(admission):
                return True
            if self._judged_seq >= admission.seq or await self._is_quiet(admission):
                return False
            await self._gather()

    async def has_ended(self, admission: Admission) -> bool:
        """Whether a flood took the admission between :meth:`takes` and the opening of its turn."""
        known = (await self._ledger.fetch(admissions.STATE_OF, (admission.id,)))[0]
        return bool(known["status"] == AdmissionStatus.TERMINAL)

    async def _is_quiet(self, admission: Admission) -> bool:
        """Whether no flood is under way, few alarms wait, and none was raised shortly before this one."""
        around = (await self._ledger.fetch(floods.SURROUNDINGS))[0]
        if around["floods"] or around["waiting"] >= self._settings.flood_count:
            return False
        earlier = await self._ledger.fetch(admissions.RAISE_BEFORE, (admission.seq,))
        return not (earlier and self._is_shortly_before(earlier[0]["admitted_mono_ns"], earlier[0]["boot_id"], admission))

    async def _takes_clear(self, admission: Admission) -> bool:
        """Count the end of a flood's alarm, which was announced before there was a flood."""
        activation = str(admission.payload["activation_id"])
        if not await self._ledger.fetch(floods.MEMBER, (activation,)):
            return False

        def work(tx: Transaction) -> None:
            if admissions.by_id(tx, admission.id).status is AdmissionStatus.QUEUED:
                self._end(tx, admission)

        await self._ledger.transaction(work)
        return True

    # a burst ----------------------------------------------------------------------------------------------------------
    async def _gather(self) -> None:
        """Wait until no more alarms come, then decide about all that wait. Who comes meanwhile waits for the same decision."""
        if self._round is not None:
            await self._round.wait()
            return
        decided = self._round = asyncio.Event()
        try:
            await self._settle()
            self._judged_seq = await self._ledger.transaction(self._judge)
        finally:
            self._round = None
            decided.set()
            self._wake()
        self.notify()

    async def _settle(self) -> None:
        newest, waited_s, longest_s = await self._newest_seq(), 0.0, self._settings.longest_settle_s
        while waited_s < longest_s:
            pause_s = min(self._settings.settle_s, longest_s - waited_s)
            await asyncio.sleep(pause_s)
            if (seen := await self._newest_seq()) == newest or not pause_s:
                return
            newest, waited_s = seen, waited_s + pause_s

    async def _newest_seq(self) -> int:
        return int((await self._ledger.fetch(admissions.NEWEST_ALARM))[0]["seq"])

    def _judge(self, tx: Transaction) -> int:
        """Let what waits join the flood, opening one if there are enough. Return the newest admission that was judged."""
        waiting = admissions.waiting_of(tx, RequestKind.ALARM)
        newest = max((admission.seq for admission in waiting), default=self._judged_seq)
        raised = [admission for admission in waiting if _is_raise(admission)]
        flood, before = floods.current(tx), list[Admission]()
        if flood is None:
            if not raised:
                return newest
            before = self._raised_shortly_before(tx, raised[0], most=self._settings.flood_count)
            if len(before) + len(raised) < self._settings.flood_count:
                return newest
            flood = self._open(tx, [*before, *raised][0])
        joining = [str(admission.payload["activation_id"]) for admission in (*before, *raised)]
        if joining:
            floods.add(tx, self._clock, flood.id, joining)
            floods.bind_sessions(tx, flood)
        for admission in waiting:
            if _is_raise(admission) or _is_notice(admission) or floods.flood_of(tx, str(admission.payload["activation_id"])):
                self._end(tx, admission)
        self._tell_number(tx, flood)
        return newest

    def _raised_shortly_before(self, tx: Transaction, admission: Admission, *, most: int) -> list[Admission]:
        """Return up to ``most`` alarms raised within the window before one, oldest first. Another boot is long ago."""
        found: list[Admission] = []
        for earlier in admissions.newest_before(tx, RequestKind.ALARM, admission.seq):
            if len(found) == most or not self._is_shortly_before(earlier.admitted_mono_ns, earlier.boot_id, admission):
                break
            if _is_raise(earlier):
                found.append(earlier)
        return found[::-1]

    def _is_shortly_before(self, mono_ns: int, boot_id: str, admission: Admission) -> bool:
        apart_ns = admission.admitted_mono_ns - mono_ns
        return boot_id == admission.boot_id and apart_ns <= self._settings.flood_window_s * 1e9

    def _open(self, tx: Transaction, first: Admission) -> Flood:
        """Open a flood in the conversation of the burst's first activation, which may have begun already."""
        known = alarms.required(tx, str(first.payload["activation_id"]))
        session_id = known.session_id or sessions.open_for(tx, self._clock, self._ids, first.lane, known.asset)
        lane = sessions.lane_of(tx, session_id)
        flood = floods.open_flood(tx, self._clock, self._ids, session_id=session_id, lane=lane)
        log.warning("flood.opened", extra={"flood": flood.id, "lane": lane})
        return flood

    def _tell_number(self, tx: Transaction, flood: Flood) -> None:
        """Have the flood told of: at its beginning, when its number has doubled, and as long as nobody has heard the number."""
        number = floods.count(tx, flood.id)
        if flood.told_count == 0:
            self._tell(tx, flood, FloodNews.OPENED)
        elif number == flood.told_count or admissions.waiting_of(tx, RequestKind.FLOOD):
            return  # what waits to be led will tell the number as it is then
        elif number >= 2 * flood.told_count or announcements.awaits_words(tx, flood.id):
            self._tell(tx, flood, FloodNews.GROWN, number)
        else:
            return
        floods.told(tx, flood.id, number)

    def _end(self, tx: Transaction, admission: Admission) -> None:
        """End an admission that the flood tells of."""
        admissions.settle(tx, self._clock, admission.id, Outcome.DONE)
        if not _is_notice(admission):
            alarm_events.redispose(tx, admission.id, Disposition.FLOOD)

    def _tell(self, tx: Transaction, flood: Flood, news: FloodNews, number: int = 0) -> None:
        admit_news(tx, self._clock, self._ids, flood, news, number)

    # its life -----------------------------------------------------------------------------------------------------------
    def notify(self) -> None:
        """Look whether a flood has begun or ended: something about alarms was written. Cheap; call it from the event loop."""
        self._lookout.notify()

    async def run(self) -> None:
        """Close floods that are over, and tell when the last alarm of one has gone, for ever."""

        async def look() -> float | None:
            left_s = await self._ledger.transaction(self._look)
            self._wake()  # there may be news
            return left_s

        await self._lookout.run(look)

    def _look(self, tx: Transaction) -> float | None:
        """Tell what has ended; return in how many s to look again, None when only news can bring something to tell."""
        left_s = self._left_s(flood := floods.current(tx))
        if flood is not None and left_s is not None and left_s <= 0:
            self._tell(tx, floods.close(tx, self._clock, flood.id), FloodNews.OVER)
            floods.calm_down(tx)  # if nothing is left that is told with it
            return None
        # While there is a flood nothing sounds like its end; of several that are calm at last, people remember the newest.
        for calm in floods.calm_down(tx)[-1:] if flood is None else []:
            self._tell(tx, calm, FloodNews.CALM)
        return left_s

    def _left_s(self, flood: Flood | None) -> float | None:
        """Return how long the flood lasts if no more alarms come. What came while nobody looked counts from this start on."""
        if flood is None:
            return None
        is_this_boot = flood.boot_id == self._clock.boot_id
        since_ns = max(self._started_mono_ns, flood.newest_mono_ns if is_this_boot else 0)
        return self._settings.flood_over_s - (self._clock.monotonic_ns() - since_ns) / 1e9

    # what is told of it -------------------------------------------------------------------------------------------------
    async def take_stock(self, flood_id: str, news: FloodNews) -> Stock:
        """Return what there is to tell of a flood now. A number that was queued and is not being said gives way to this one."""

        def work(tx: Transaction) -> Stock:
            last_turn = announcements.last_turn(tx, flood_id)
            if news in _BY_NUMBER and last_turn is not None:
                deliveries.supersede(tx, self._clock, last_turn)
            was_heard = announcements.is_heard(tx, flood_id)
            # While nobody has heard of the flood, its first words are what is said, with the newer number.
            told = FloodNews.OPENED if news is FloodNews.GROWN and not was_heard else news
            members = floods.members(tx, flood_id)
            is_found = floods.is_found(tx, flood_id)
            return Stock(told, floods.summary(members, self._first_out(members), is_found=is_found), was_heard)

        return await self._ledger.transaction(work)


def admit_news(tx: Transaction, clock: Clock, ids: IdSource, flood: Flood, news: FloodNews, number: int = 0) -> None:
    """Admit the turn that tells news of a flood, in its conversation. ``number`` tells apart news of the same kind."""
    payload = {"flood": flood.id, "news": str(news)}
    request = Request(
        door=Door.SCHEDULE,
        kind=RequestKind.FLOOD,
        lane=flood.lane,
        dedupe_key=f"flood:{flood.id}:{news}:{number}",
        payload=payload,
        priority=PRIORITY_FLOOD,
    )
    admissions.insert(tx, clock, ids, request, digest(payload))


def _is_raise(admission: Admission) -> bool:
    """Whether an alarm's admission tells that it was raised; the others tell its end, or are notices about it."""
    return admission.payload["change"] == AlarmChange.RAISED and not _is_notice(admission)


def _is_notice(admission: Admission) -> bool:
    """Whether it tells of an alarm without being one of its events: that it chatters, or is to be told again."""
    return bool(admission.payload.get("notice"))
