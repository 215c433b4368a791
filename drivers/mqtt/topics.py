"""What arrives by MQTT, and what it means. Pure.

A gateway publishes an alarm as one JSON object: ``source`` (the gateway), ``alarm`` (its name for the alarm, ``source_id`` in the
plant model), ``activation`` (its counter or id of this activation), ``state`` (``raised`` or ``cleared``), and, optional,
``value``, ``unit``, ``at`` (ISO 8601, UTC when no zone is given), ``sequence`` (the gateway's running number of what it sends: a
gap is something lost) and ``mono_ns`` (CLOCK_MONOTONIC of a gateway on this machine).
Unknown members are ignored: a gateway may say more than we use.
"""

from __future__ import annotations

from dataclasses import dataclass

from appliance.contracts.alarm import AlarmChange, AlarmEvent
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


def parse_alarm(message: IncomingMessage, plant: Plant) -> AlarmEvent:
    """Return the alarm event in ``message``. A retained one is state: it was true before, so it is no news.

    Raises:
        Malformed: not such an object, or an alarm the plant model does not have; the message names topic and member.
    """
    content = json_of(message.topic, message.payload)
    check = Checked(message.topic)
    if not isinstance(content, dict):
        check.fail("$", f"an object is expected, not {type(content).__name__}")

    def told(member: str) -> object:
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
        value=check.number("value", told("value")),
        unit=check.unit("unit", told("unit")),
        source_utc=check.time("at", told("at")),
        source_mono_ns=check.counter("mono_ns", told("mono_ns")),
        sequence=check.counter("sequence", told("sequence")),
        is_state=message.retained,
    )
