"""Alarm events enter here, from whatever source.

In: an event. Out, in one transaction: the journal's row with what became of it, the alarm's state, and an admission if it is
announced. Who calls: the sources' drivers, which acknowledge to whoever sent it only after ``admit`` returned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_ALARM, Admission, Door, Request, RequestKind
from appliance.contracts.alarm import (
    AdvanceAlarm,
    Alarm,
    AlarmAction,
    AlarmChange,
    AlarmEvent,
    AlarmState,
    Disposition,
    Journalled,
)
from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.alarm_situation import DispositionRule, Situation
from appliance.contracts.clock import Clock
from appliance.contracts.errors import AlarmUnreadable, Refused
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Admitter
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import admissions, alarm_chatter, alarm_events, alarm_sources, alarm_unreadable, alarms, audit, inhibitions
from appliance.store.alarm_events import Entry
from appliance.store.alarm_sources import Source
from appliance.store.alarm_unreadable import Unreadable

Suppress = Callable[[str, bool, str], Awaitable[None]]
"""Begins or ends suppression by design of an alarm, and says why."""

_UNREADABLE = "alarms:unreadable"

_TELLS_NOTHING = (Disposition.REPEAT, Disposition.MERGED, Disposition.STATE)
_NAMED = 3  # topics named one by one
_ENTERED = (Disposition.ANNOUNCE, Disposition.CHATTER)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a transaction did, for those who are told once it is on disk."""

    answer: Journalled | Refused
    source: Source | None = None


class AlarmDoor:
    """Takes alarm events in; implements ``AlarmSink``. ``rule`` decides what becomes of an event, ``epoch`` is the core's."""

    def __init__(
        self,
        ledger: Ledger,
        gate: Admitter,
        plant: Plant,
        clock: Clock,
        advance: AdvanceAlarm,
        rule: DispositionRule,
        suppress: Suppress,
        degraded: Degraded,
        *,
        epoch: int,
        door: Door = Door.MQTT,
    ) -> None:
        self._ledger = ledger
        self._gate = gate
        self._plant = plant
        self._clock = clock
        self._advance = advance
        self._rule = rule
        self._suppress = suppress
        self._degraded = degraded
        self._epoch = epoch
        self._door = door

    async def admit(self, event: AlarmEvent) -> Journalled:
        """Return once the event, what became of it and the alarm's new state are on disk. A resend changes nothing.

        Raises:
            Unavailable: the queue is full; the source keeps the event and offers it again.
            Refused: the same activation came with other content; it is in the audit log.
        """
        definition = self._plant.alarm_by_id[event.alarm_id]
        taken = await self._ledger.transaction(lambda tx: self._take(tx, event, definition))
        if taken.source is not None:
            self._name_missing(taken.source)
        if isinstance(taken.answer, Refused):
            raise taken.answer
        if not taken.answer.is_duplicate and taken.answer.disposition in _ENTERED:
            self._gate.wake()
        return taken.answer

    async def suppress(self, alarm_id: str, is_suppressed: bool, why: str) -> None:
        """Begin or end suppression by design. The same again changes nothing.

        Raises:
            Unavailable: the ledger cannot be written.
        """
        await self._suppress(alarm_id, is_suppressed, why)

    async def note_unreadable(self, topic: str, faults: Sequence[AlarmUnreadable]) -> None:
        """Return once it is on disk that alarms of one message could not be taken. Their running numbers did come.

        Raises:
            Unavailable: the ledger cannot be written.
        """

        def work(tx: Transaction) -> tuple[list[Source | None], list[Unreadable]]:
            first = faults[0]
            alarm_unreadable.note(tx, self._clock, topic, len(faults), first.message, is_state=first.is_state)
            came = [
                alarm_sources.note_sequence(tx, self._clock, fault.source, fault.sequence, is_state=fault.is_state)
                for fault in faults
                if fault.sequence is not None
            ]
            return came, alarm_unreadable.every(tx)

        sources, topics = await self._ledger.transaction(work)
        for source in filter(None, sources):
            self._name_missing(source)
        self._name_unreadable(topics)

    async def name_missing(self) -> None:
        """Name what never came or could not be read and nobody looked into; at start, and when somebody has."""
        sources, topics = await self._ledger.transaction(lambda tx: (alarm_sources.every(tx), alarm_unreadable.every(tx)))
        for source in sources:
            self._name_missing(source)
        self._name_unreadable(topics)

    def _name_unreadable(self, topics: Sequence[Unreadable]) -> None:
        unseen = [f"on {each.topic}: {each.newest_why}" for each in topics if each.unseen]
        if unseen:
            more = f"; and on {len(unseen) - _NAMED} topics more" if len(unseen) > _NAMED else ""
            self._degraded.mark(_UNREADABLE, f"alarms that could not be read {'; '.join(unseen[:_NAMED])}{more}")
        else:
            self._degraded.clear(_UNREADABLE)

    def _name_missing(self, source: Source) -> None:
        if source.unseen:
            self._degraded.mark(f"alarms:{source.name}", f"alarm events of {source.name} that never came: {source.unseen}")
        else:
            self._degraded.clear(f"alarms:{source.name}")

    # one transaction ------------------------------------------------------------------------------------------------
    def _take(self, tx: Transaction, event: AlarmEvent, definition: AlarmDefinition) -> _Taken:
        alarm_sources.note_seen(tx, self._clock, event.source)
        known = alarm_events.by_key(tx, event.dedupe_key)
        source = None
        is_again = known is not None and known.event.is_state and not event.is_state  # found before, sent only now
        if event.sequence is not None and (known is None or is_again):
            source = alarm_sources.note_sequence(
                tx, self._clock, event.source, event.sequence, is_state=event.is_state, is_again=is_again
            )
        if known is not None:
            return _Taken(self._again(tx, event, known), source)
        situation = self._situation(tx, event)
        disposition = self._rule.decide(event, situation)
        alarm = self._new_state(tx, event, definition, situation, disposition)
        activation_id = alarm.activation_id if alarm else event.activation_id
        admission = None
        if disposition is Disposition.ANNOUNCE:
            admission = self._announce(tx, event, definition, activation_id, came_and_went=situation.alarm is None)
        if disposition is Disposition.CHATTER and event.change is AlarmChange.RAISED:
            self._note_chatter(tx, event, definition, activation_id)
        seq = alarm_events.journal(
            tx,
            self._clock,
            event,
            activation_id=activation_id,
            admission_id=admission.id if admission else None,
            disposition=disposition,
            epoch=self._epoch,
        )
        return _Taken(Journalled(seq, disposition, admission, alarm, is_duplicate=False), source)

    def _again(self, tx: Transaction, event: AlarmEvent, known: Entry) -> Journalled | Refused:
        """A known key: a duplicate, or other content under it. What was found, and not sent, may differ in value and time."""
        told = alarm_events.digest_of(event)
        was_found = any(each.is_state or each.was_missed for each in (event, known.event))
        if told != known.digest and not was_found:
            alarm_sources.note_conflict(tx, event.source)
            facts = {"key": event.dedupe_key, "known": known.digest, "offered": told}
            audit.note(tx, self._clock, "alarm_conflict", event.activation_id, facts)
            return Refused(f"{event.dedupe_key} was journalled before with other content", event=known.seq)
        alarm_events.came_again(tx, known.seq)
        admission = admissions.by_id(tx, known.admission_id) if known.admission_id else None
        alarm = alarms.by_activation(tx, known.activation_id)
        return Journalled(known.seq, known.disposition, admission, alarm, is_duplicate=True)

    def _situation(self, tx: Transaction, event: AlarmEvent) -> Situation:
        alarm, is_own = _belongs_to(tx, event)
        began = alarm_events.raise_of(tx, alarm.activation_id) if alarm else None
        chatter = alarm_chatter.of_alarm(tx, self._clock, event.alarm_id)
        if chatter is not None and chatter.calm_s >= self._rule.chatter_calm_s:
            chatter = None
        return Situation(
            alarm=alarm,
            is_own=is_own,
            raise_became=began.disposition if began else None,
            inhibition=inhibitions.strongest(tx, self._clock, event.alarm_id),
            is_chattering=chatter is not None,
            recent_raises=0 if chatter else len(self._recent(tx, event.alarm_id)),
        )

    def _recent(self, tx: Transaction, alarm_id: str) -> list[str]:
        return alarm_events.recent_raises(tx, self._clock, alarm_id, self._rule.chatter_window_s)

    def _new_state(
        self, tx: Transaction, event: AlarmEvent, definition: AlarmDefinition, situation: Situation, disposition: Disposition
    ) -> Alarm | None:
        """Store the alarm's state with the event taken in. A raise and its clear may come in either order."""
        known = situation.alarm
        if disposition in _TELLS_NOTHING:
            if known is not None and situation.is_own and not known.is_active and event.change is AlarmChange.RAISED:
                return alarms.apply(tx, self._clock, definition, event, known.state)  # the raise after its clear: its value
            return known
        if known is None:
            state = self._advance(AlarmState.NORMAL, AlarmAction.RAISE, latching=definition.latching)
            if event.change is AlarmChange.CLEARED:  # its raise has not come: it came and went unseen, and is accounted for
                state = self._advance(state, AlarmAction.CLEAR, latching=definition.latching)
            return alarms.apply(tx, self._clock, definition, event, state)
        state = self._advance(known.state, AlarmAction.CLEAR, latching=definition.latching)
        return alarms.apply(tx, self._clock, definition, event, state, activation_id=known.activation_id)

    def _announce(
        self, tx: Transaction, event: AlarmEvent, definition: AlarmDefinition, activation_id: str, *, came_and_went: bool
    ) -> Admission:
        payload = event.to_payload() | {"activation_id": activation_id}
        if event.change is AlarmChange.CLEARED and came_and_went:  # its raise has not come: nobody was told that it began
            payload["came_and_went"] = True
        return self._gate.enter(tx, self._request(definition, event.dedupe_key, payload))

    def _note_chatter(self, tx: Transaction, event: AlarmEvent, definition: AlarmDefinition, activation_id: str) -> None:
        """Count the raise. The first one says, once, that the alarm chatters; all share the conversation of the one before."""
        chatter = alarm_chatter.of_alarm(tx, self._clock, event.alarm_id)
        if chatter is not None and chatter.calm_s < self._rule.chatter_calm_s:
            alarm_chatter.raised_again(tx, self._clock, event.alarm_id)
            alarms.follow(tx, activation_id, chatter.leader)
            return
        alarm_chatter.end(tx, self._clock, event.alarm_id)
        recent = self._recent(tx, event.alarm_id)
        raises = len(recent) + 1
        alarm_chatter.begin(tx, self._clock, event.alarm_id, recent[0], raises)
        alarms.follow(tx, activation_id, recent[0])
        payload = event.to_payload() | {"activation_id": recent[0], "notice": "chatter", "count": raises}
        self._gate.enter(tx, self._request(definition, f"chatter:{event.dedupe_key}", payload))

    def _request(self, definition: AlarmDefinition, key: str, payload: dict[str, object]) -> Request:
        lane = lanes.of_asset(definition.asset)
        return Request(self._door, RequestKind.ALARM, lane, key, payload, PRIORITY_ALARM)


def _belongs_to(tx: Transaction, event: AlarmEvent) -> tuple[Alarm | None, bool]:
    """Return the activation an event is about, and whether its own source raised it.

    Two sources that watch one alarm see the same activation: what the second one tells is counted to the first one's.
    """
    own = alarms.by_activation(tx, event.activation_id)
    if own is not None:
        return own, True
    merged = alarm_events.counted_to(tx, event.activation_id)
    if merged is not None:
        return alarms.by_activation(tx, merged), False
    active = alarms.active(tx, event.alarm_id)
    others = active if event.is_state and event.change is AlarmChange.RAISED else [a for a in active if a.source != event.source]
    return (others[0], False) if others else (None, True)
