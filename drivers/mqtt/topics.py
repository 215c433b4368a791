"""What arrives by MQTT, and what it means. Pure.

A gateway publishes an alarm as one JSON object: ``source`` (the gateway), ``alarm`` (its name for the alarm, ``source_id`` in the
plant model), ``activation`` (its counter or id of this activation), ``state`` (``raised`` or ``cleared``), and, optional,
``value``, ``unit``, ``at`` (ISO 8601, UTC when no zone is given), ``sequence`` (the gateway's running number of what it sends: a
gap is something lost) and ``mono_ns`` (CLOCK_MONOTONIC of a gateway on this machine).
Unknown members are ignored: a gateway may say more than we use. An optional one that is no good is left out: an alarm without
its value is still an alarm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.errors import AlarmUnreadable, Malformed
from appliance.contracts.plant import Plant
from drivers.mqtt.checked import ABSENT, Checked, json_of


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One message as the broker sent it. ``expiry_s`` is the lifetime it had left on arrival, None for ever."""

    topic: str
    payload: bytes
    qos: int
    retained: bool
    duplicate: bool
    expiry_s: float | None
    arrived_mono_ns: int


def ignored_command(message: IncomingMessage, now_mono_ns: int) -> str:
    """Return why a command must not be followed, or an empty text.

    A retained command is from another time: it would be followed again at every restart. An expired one comes too late.
    """
    if message.retained:
        return "retained"
    if message.expiry_s is not None and (now_mono_ns - message.arrived_mono_ns) / 1e9 >= message.expiry_s:
        return "expired"
    return ""


def json_with_alarms(message: IncomingMessage) -> Any:
    """Return the JSON of a message that may tell of alarms.

    Raises:
        AlarmUnreadable: it is none; what it told is not known.
        Malformed: it is empty: whoever ends what the broker retains sends that, and tells of no alarm.
    """
    try:
        return json_of(message.topic, message.payload)
    except Malformed as error:
        if not message.payload:
            raise
        raise AlarmUnreadable(error.message, is_state=message.retained, topic=message.topic) from error


def parse_alarm(message: IncomingMessage, plant: Plant) -> AlarmEvent:
    """Return the alarm event in ``message``. A retained one is state: it was true before, so it is no news.

    Raises:
        AlarmUnreadable: not such an object, or an alarm the plant model does not have; the message names topic and member.
        Malformed: it is empty.
    """
    content = json_with_alarms(message)
    check = Checked(message.topic)
    told = content if isinstance(content, dict) else {}
    try:
        if not isinstance(content, dict):
            check.fail("$", f"an object is expected, not {type(content).__name__}")
        return _event(told, check, plant, is_state=message.retained)
    except Malformed as error:
        raise check.unreadable(error, told.get("source"), told.get("sequence"), is_state=message.retained) from error


def _event(content: dict[str, Any], check: Checked, plant: Plant, *, is_state: bool) -> AlarmEvent:
    def told(member: str) -> Any:
        return content.get(member, ABSENT)

    source_id = check.text("alarm", told("alarm"))
    definition = plant.alarm_by_source_id.get(source_id)
    if definition is None:
        check.fail("alarm", f"the plant model has no alarm with source_id {source_id[:64]!r}")
    change = check.text("state", told("state"))
    if change not in set(AlarmChange):
        check.fail("state", f"{' or '.join(AlarmChange)} is expected")
    return AlarmEvent(
        source=check.name("source", told("source")),
        alarm_id=definition.id,
        activation=check.name("activation", told("activation")),
        change=AlarmChange(change),
        value=check.optional(check.number, "value", told("value")),
        unit=check.optional(check.unit, "unit", told("unit")) or "",
        source_utc=check.optional(check.time, "at", told("at")),
        source_mono_ns=check.optional(check.counter, "mono_ns", told("mono_ns")),
        sequence=check.optional(check.counter, "sequence", told("sequence")),
        is_state=is_state,
    )
