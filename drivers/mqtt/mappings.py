"""Topics in a gateway's own JSON, or of one plain value, read as the plant model's topic map says. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.errors import AlarmUnreadable, Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Reading
from appliance.contracts.tag import Tag
from appliance.contracts.topic_mapping import AlarmSelectors, TopicMapping
from drivers.mqtt.checked import ABSENT, MAX_PAYLOAD_BYTES, Checked, json_of
from drivers.mqtt.selectors import Selector
from drivers.mqtt.taken import Taken, to_reading
from drivers.mqtt.topics import IncomingMessage, json_with_alarms

MOST_MEMBERS = 1_000
"""Longest list of alarms taken from one message."""

_RETAINED = "retained by the broker, so its age is not known"

T = TypeVar("T")


class PlainTopic:
    """A topic whose payload is one value."""

    def __init__(self, mapping: TopicMapping, plant: Plant) -> None:
        self._tag = plant.tag_by_key[mapping.values["value"]]
        self._stale_after_s = mapping.stale_after_s

    def take(self, message: IncomingMessage, now: datetime) -> Taken:
        """Return the value's reading.

        Raises:
            Malformed: too long, or not text.
        """
        topic = message.topic
        if len(message.payload) > MAX_PAYLOAD_BYTES:
            raise Malformed(f"message on {topic}: {len(message.payload)} bytes, more than {MAX_PAYLOAD_BYTES}", topic=topic)
        try:
            told = message.payload.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"message on {topic}: not text", topic=topic) from error
        source_utc, stale = _moment_of(message, None, self._stale_after_s, now)
        return Taken(readings=(to_reading(self._tag, told, source_utc, where=topic, stale=stale),))


class JsonTopic:
    """A topic whose payload is JSON; alarms and values are where the selectors say."""

    def __init__(self, mapping: TopicMapping, plant: Plant) -> None:
        self._stale_after_s = mapping.stale_after_s
        self._at = Selector(mapping.at) if mapping.at else None
        self._values = [(Selector(selector), plant.tag_by_key[key]) for selector, key in mapping.values.items()]
        self._alarms = _AlarmReader(mapping.alarms, plant) if mapping.alarms else None

    def take(self, message: IncomingMessage, now: datetime) -> Taken:
        """Return what the message says. A value it does not mention stays as it was: gateways send what has changed.

        Raises:
            AlarmUnreadable: not JSON, or not the list of alarms it should be.
            Malformed: the same where no alarms are told, or nothing in it is where a selector looks.
        """
        content = json_with_alarms(message) if self._alarms else json_of(message.topic, message.payload)
        levels = message.topic.split("/")
        check = Checked(message.topic)
        found = [
            (selector, tag, told) for selector, tag in self._values if (told := selector.select(content, levels)) is not ABSENT
        ]
        if not found and self._alarms is None:
            check.fail(", ".join(selector.text for selector, _ in self._values)[:200], "is missing")
        events, faults = list[AlarmEvent](), list[Malformed]()
        if self._alarms and (not found or self._alarms.is_told(content, levels)):
            events, faults = self._alarms.read(content, levels, message, check)
        try:
            readings = tuple(self._readings(found, content, levels, message, now))
        except Malformed as error:
            readings, faults = (), [*faults, error]
        return Taken(events=tuple(events), readings=readings, faults=tuple(faults))

    def _readings(
        self, found: list[tuple[Selector, Tag, Any]], content: Any, levels: list[str], message: IncomingMessage, now: datetime
    ) -> Iterator[Reading]:
        if not found:
            return
        told_at = self._at.select(content, levels) if self._at else ABSENT
        at = Checked(message.topic).moment(self._at.text, told_at) if self._at else None
        source_utc, stale = _moment_of(message, at, self._stale_after_s, now)
        for selector, tag, told in found:
            yield to_reading(tag, told, source_utc, where=f"{message.topic} {selector.text}", stale=stale)


class _Parts(NamedTuple):
    source: Selector
    alarm: Selector
    state: Selector
    activation: Selector | None
    value: Selector | None
    unit: Selector | None
    at: Selector | None
    sequence: Selector | None


class _AlarmReader:
    def __init__(self, selectors: AlarmSelectors, plant: Plant) -> None:
        self._plant = plant
        self._each = Selector(selectors.each) if selectors.each else None
        self._parts = _Parts(*(Selector(text) if (text := getattr(selectors, part)) else None for part in _Parts._fields))  # type: ignore[arg-type]
        self._changes = {word.lower(): AlarmChange.CLEARED for word in selectors.cleared}
        self._changes |= {word.lower(): AlarmChange.RAISED for word in selectors.raised}

    def is_told(self, content: Any, levels: list[str]) -> bool:
        """Whether any part is there that only a message with an alarm has."""
        looked_for = (
            [self._each] if self._each else [part for part in (self._parts.alarm, self._parts.state) if part.is_of_content]
        )
        return not looked_for or any(part.select(content, levels) is not ABSENT for part in looked_for)

    def read(
        self, content: Any, levels: list[str], message: IncomingMessage, check: Checked
    ) -> tuple[list[AlarmEvent], list[Malformed]]:
        """Return the alarms, and what is wrong with those that are not understood: one bad member takes nobody with it.

        Raises:
            AlarmUnreadable: there is no list of them where one should be.
        """
        members, faults = [content], list[Malformed]()
        if self._each is not None:
            members = self._each.select(content, levels)
            if not isinstance(members, list) or len(members) > MOST_MEMBERS:
                why = f"message on {message.topic}: {self._each.text}: a list of at most {MOST_MEMBERS} members is expected"
                raise AlarmUnreadable(why, is_state=message.retained, topic=message.topic, member=self._each.text)
        events = []
        for member in members:
            try:
                events.append(self._event(member, levels, message, check))
            except Malformed as error:
                source, number = (
                    ABSENT if part is None else part.select(member, levels) for part in (self._parts.source, self._parts.sequence)
                )
                faults.append(check.unreadable(error, source, number, is_state=message.retained))
        return events, faults

    def _event(self, content: Any, levels: list[str], message: IncomingMessage, check: Checked) -> AlarmEvent:
        parts = self._parts

        def told(part: Selector | None) -> tuple[str, Any]:
            return ("", ABSENT) if part is None else (part.text, part.select(content, levels))

        where, named = told(parts.alarm)
        source_id = _as_text(named)
        definition = self._plant.alarm_by_source_id.get(source_id)
        if definition is None:
            check.fail(where, f"the plant model has no alarm with source_id {source_id[:64]!r}" if source_id else "is missing")
        where, state = told(parts.state)
        change = self._changes.get(_as_text(state).lower())
        if change is None:
            check.fail(where, f"{_as_text(state)[:32]!r} is neither raised nor cleared")
        at = check.optional(check.moment, *told(parts.at))
        where, activation = told(parts.activation)
        if activation is ABSENT or activation is None:
            if at is None:
                check.fail(where or (parts.at.text if parts.at else ""), "is missing, and nothing else tells the activation")
            activation = f"{at:%Y%m%dT%H%M%S.%fZ}"
        return AlarmEvent(
            source=check.name(*told(parts.source)),
            alarm_id=definition.id,
            activation=check.name(where, activation),
            change=change,
            value=check.optional(check.number, *told(parts.value)),
            unit=check.optional(check.unit, *told(parts.unit)) or "",
            source_utc=at,
            sequence=check.optional(check.counter, *told(parts.sequence)),
            is_state=message.retained,
        )


def _moment_of(message: IncomingMessage, at: datetime | None, stale_after_s: float, now: datetime) -> tuple[datetime | None, str]:
    """Return when the value was true, and why it is stale already if it is.

    What the broker retained was published at some time before; where values grow stale, one of unknown age is.
    """
    if at is not None or not message.retained:
        return at or now, ""
    return None, _RETAINED if stale_after_s else ""


def _as_text(told: Any) -> str:
    """Return how JSON would write a text, truth or number; a whole number without a point. Empty for anything else."""
    if isinstance(told, bool):
        return "true" if told else "false"
    if isinstance(told, int):
        return f"{told:d}" if told.bit_length() <= 64 else ""
    if isinstance(told, float):
        return f"{told:.0f}" if told.is_integer() else repr(told)
    return told if isinstance(told, str) else ""
