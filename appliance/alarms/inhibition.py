"""Keeps alarms from being announced, and announces what is still there once nothing keeps it any more.

In: a person's word (shelve, out of service), the plant's (suppressed by design), and time. Out: rows, operations with who and
why, and an admission for each activation that is still active and was never told of. Who calls: tools, the local API, the alarm
door. As a service it ends shelvings whose time is over and chatter that has calmed down; it sleeps until the next of them.
"""

from __future__ import annotations

from collections.abc import Callable

from appliance.alarms.settings import AlarmSettings
from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_ALARM, Door, Request, RequestKind
from appliance.contracts.alarm import Disposition, Inhibition
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.canonical import digest
from appliance.foundation.lookout import Lookout
from appliance.store import admissions, alarm_chatter, alarm_events, alarms, inhibitions
from appliance.store.alarm_events import Entry
from appliance.store.inhibitions import Held

_HELD = tuple(Disposition(kind.value) for kind in Inhibition)
_TIME = "its time was over"
_DESIGN = "design"
_ASK_CLOCK_AGAIN_S = 60.0  # how long a shelving from before a reboot lasts is known once wall time is; nothing tells when that is


class Inhibitions:
    """Begins and ends inhibitions. ``woken`` is called when something was admitted."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        plant: Plant,
        settings: AlarmSettings,
        woken: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._plant = plant
        self._settings = settings
        self._woken = woken
        self._lookout = Lookout()

    # what people and the plant ask ----------------------------------------------------------------------------------
    def shelve_in(self, tx: Transaction, alarm_id: str, for_s: float, *, by: str, reason: str) -> Held:
        """Shelve an alarm, in the caller's transaction. Shelving it again starts its time anew.

        Raises:
            Refused: no such alarm, or longer than the site allows.
            Malformed: no reason, no person or no time.
        """
        self._known(alarm_id)
        longest_s = self._settings.shelve_longest_s
        if for_s > longest_s:
            refused = Refused(f"an alarm may be shelved for {longest_s / 60:g} minutes at most", alarm=alarm_id)
            raise refused.worded("shelve_too_long", longest={"value": longest_s, "unit": "s"})
        return inhibitions.begin(tx, self._clock, alarm_id, Inhibition.SHELVED, by=by, reason=reason, for_s=for_s)

    def take_out_in(self, tx: Transaction, alarm_id: str, *, by: str, reason: str) -> Held:
        """Take an alarm out of service until it is put back, in the caller's transaction.

        Raises:
            Refused: no such alarm.
            Malformed: no reason or no person.
        """
        self._known(alarm_id)
        return inhibitions.begin(tx, self._clock, alarm_id, Inhibition.OUT_OF_SERVICE, by=by, reason=reason)

    def end_in(self, tx: Transaction, alarm_id: str, kind: Inhibition, *, by: str) -> int:
        """End an inhibition in the caller's transaction; return how many activations are announced now.

        Raises:
            Refused: it does not hold.
        """
        if not inhibitions.end(tx, self._clock, alarm_id, kind, by=by):
            refused = Refused(f"{alarm_id} is not {kind.replace('_', ' ')}", alarm=alarm_id)
            raise refused.worded("alarm_not_shelved") if kind is Inhibition.SHELVED else refused
        return self._release(tx, alarm_id)

    async def shelve(self, alarm_id: str, for_s: float, *, by: str, reason: str) -> Held:
        """As :meth:`shelve_in`, in a transaction of its own."""
        held = await self._ledger.transaction(lambda tx: self.shelve_in(tx, alarm_id, for_s, by=by, reason=reason))
        self.notify()
        return held

    async def take_out(self, alarm_id: str, *, by: str, reason: str) -> Held:
        """As :meth:`take_out_in`, in a transaction of its own."""
        return await self._ledger.transaction(lambda tx: self.take_out_in(tx, alarm_id, by=by, reason=reason))

    async def end(self, alarm_id: str, kind: Inhibition, *, by: str) -> int:
        """As :meth:`end_in`, in a transaction of its own."""
        announced = await self._ledger.transaction(lambda tx: self.end_in(tx, alarm_id, kind, by=by))
        self._woken()
        return announced

    async def suppress(self, alarm_id: str, is_suppressed: bool, why: str) -> None:
        """Begin or end suppression by design. The same again changes nothing.

        Raises:
            Refused: no such alarm.
            Unavailable: the ledger cannot be written.
        """
        self._known(alarm_id)

        def work(tx: Transaction) -> None:
            holds = inhibitions.of_kind(tx, self._clock, alarm_id, Inhibition.SUPPRESSED) is not None
            if is_suppressed and not holds:
                inhibitions.begin(tx, self._clock, alarm_id, Inhibition.SUPPRESSED, by=_DESIGN, reason=why or _DESIGN)
            elif holds and not is_suppressed:
                self.end_in(tx, alarm_id, Inhibition.SUPPRESSED, by=_DESIGN)

        await self._ledger.transaction(work)
        self._woken()

    async def held(self) -> list[Held]:
        """Return what holds now, oldest first."""
        return await self._ledger.transaction(lambda tx: inhibitions.all_held(tx, self._clock))

    # time -----------------------------------------------------------------------------------------------------------
    def notify(self) -> None:
        """Look anew when the next end is: the ledger changed."""
        self._lookout.notify()

    async def run(self) -> None:
        """End what time ends, for ever."""
        await self._lookout.run(self.end_what_is_over)

    async def end_what_is_over(self) -> float | None:
        """End shelvings whose time is over and chatter that is calm; return how long until the next one, None for none."""

        def work(tx: Transaction) -> tuple[float | None, int]:
            announced, waits_s = 0, []
            for held in inhibitions.all_held(tx, self._clock):
                if held.left_s == 0:
                    announced += self.end_in(tx, held.alarm_id, held.kind, by=_TIME)
                elif held.left_s is not None:
                    waits_s.append(held.left_s if held.is_sure else min(held.left_s, _ASK_CLOCK_AGAIN_S))
            for chatter in alarm_chatter.all_of_them(tx, self._clock):
                left_s = self._settings.chatter_calm_s - chatter.calm_s
                if left_s > 0:
                    waits_s.append(left_s)
                else:
                    alarm_chatter.end(tx, self._clock, chatter.alarm_id)
                    announced += self._release(tx, chatter.alarm_id)
            return min(waits_s, default=None), announced

        wait_s, announced = await self._ledger.transaction(work)
        if announced:
            self._woken()
        return wait_s

    # what is still there --------------------------------------------------------------------------------------------
    def _release(self, tx: Transaction, alarm_id: str) -> int:
        """Announce what is active and was held, unless something else holds it; return how many."""
        inhibition = inhibitions.strongest(tx, self._clock, alarm_id)
        is_chattering = alarm_chatter.of_alarm(tx, self._clock, alarm_id) is not None
        announced = 0
        for alarm in reversed(alarms.active(tx, alarm_id)):
            began = alarm_events.raise_of(tx, alarm.activation_id)
            if began is None or began.disposition not in (*_HELD, Disposition.CHATTER):
                continue
            if inhibition is not None:
                alarm_events.hold_otherwise(tx, began.seq, Disposition(inhibition.value))
            elif is_chattering:
                alarm_events.hold_otherwise(tx, began.seq, Disposition.CHATTER)
            else:
                self._announce(tx, began, alarm.asset)
                announced += 1
        return announced

    def _announce(self, tx: Transaction, began: Entry, asset: str) -> None:
        """Admit a raise that was held. It is no news, but what is still so."""
        payload = began.event.to_payload() | {"activation_id": began.activation_id, "is_state": True}
        if began.boot_id == self._clock.boot_id and not began.event.is_state:  # wall time may have been set since then
            payload["active_for_s"] = (self._clock.monotonic_ns() - began.journalled_mono_ns) / 1e9
        # One that was admitted before was held before it could be said.
        key = began.event.dedupe_key if began.admission_id is None else f"late:{began.admission_id}"
        request = Request(Door.SCHEDULE, RequestKind.ALARM, lanes.of_asset(asset), key, payload, PRIORITY_ALARM)
        admission = admissions.insert(tx, self._clock, self._ids, request, digest(payload))
        alarm_events.announce_late(tx, began.seq, admission.id)

    def _known(self, alarm_id: str) -> None:
        if alarm_id not in self._plant.alarm_by_id:
            cure = "`floorhand alarms defined` shows those there are."
            refused = Refused(f"the plant model has no alarm {alarm_id}", alarm=alarm_id, cure=cure)
            raise refused.worded("no_such_alarm")
