"""What arrives by MQTT, and what it means. Pure.

A gateway publishes an alarm as one JSON object: ``source`` (the gateway), ``alarm`` (its name for the alarm, ``source_id`` in the
plant model), ``activation`` (its counter or id of this activation), ``state`` (``raised`` or ``cleared``), and, optional,
``value``, ``unit``, ``at`` (ISO 8601, UTC when no zone is given) and ``mono_ns`` (CLOCK_MONOTONIC of a gateway on this machine).
Unknown members are ignored: a gateway may say more than we use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any, NoReturn

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.errors import Malformed
from appliance.contracts.plant import Plant

MAX_PAYLOAD_BYTES = 64 * 1024
_MAX_COUNTER = 2**63 - 1  # what the ledger's INTEGER holds
_NAME = re.compile(r"[\w./@+-]{1,64}", re.ASCII)  # no colon: names are joined with colons into identities
_MAX_UNIT_CHARACTERS = 16


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
    """Return the alarm event in ``message``. A retained one is an event too: its activation says whether it is known.

    Raises:
        Malformed: not such an object, or an alarm the plant model does not have; the message names topic and member.
    """
    reader = _Members(message.topic, _object(message))
    source_id = reader.text("alarm")
    definition = plant.alarm_by_source_id.get(source_id)
    if definition is None:
        reader.fail("alarm", f"the plant model has no alarm with source_id {source_id[:64]!r}")
    return AlarmEvent(
        source=reader.name("source"),
        alarm_id=definition.id,
        activation=reader.name("activation"),
        change=reader.change("state"),
        value=reader.number("value"),
        unit=reader.unit("unit"),
        source_utc=reader.time("at"),
        source_mono_ns=reader.counter("mono_ns"),
    )


def _object(message: IncomingMessage) -> Mapping[str, Any]:
    where = f"message on {message.topic}"
    if len(message.payload) > MAX_PAYLOAD_BYTES:
        raise Malformed(f"{where}: {len(message.payload)} bytes, more than {MAX_PAYLOAD_BYTES}", topic=message.topic)
    try:
        content = json.loads(message.payload.decode("utf-8"), parse_constant=_not_json)
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or a number of thousands of digits
        raise Malformed(f"{where}: not JSON ({type(error).__name__})", topic=message.topic) from error
    if not isinstance(content, dict):
        raise Malformed(f"{where}: an object is expected, not {type(content).__name__}", topic=message.topic)
    return content


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


class _Members:
    """Reads members of one object; every complaint names the topic and the member."""

    def __init__(self, topic: str, content: Mapping[str, Any]) -> None:
        self._topic = topic
        self._content = content

    def fail(self, member: str, why: str) -> NoReturn:
        raise Malformed(f"message on {self._topic}: {member}: {why}", topic=self._topic, member=member)

    def text(self, member: str) -> str:
        value = self._content.get(member)
        if not isinstance(value, str) or not value:
            self.fail(member, "a text is expected" if member in self._content else "is missing")
        return value

    def name(self, member: str) -> str:
        value = self._content.get(member)
        if isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:d}" if abs(value) <= _MAX_COUNTER else ""
        if not isinstance(value, str):
            self.fail(member, "a text or whole number is expected" if member in self._content else "is missing")
        if not _NAME.fullmatch(value):
            self.fail(member, "1 to 64 letters, digits or . _ / @ + - are expected")
        return value

    def change(self, member: str) -> AlarmChange:
        value = self.text(member)
        if value not in set(AlarmChange):
            self.fail(member, f"{' or '.join(AlarmChange)} is expected")
        return AlarmChange(value)

    def number(self, member: str) -> float | None:
        value = self._content.get(member)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(member, "a number is expected")
        try:
            number = float(value)
        except OverflowError:
            self.fail(member, "is beyond any measurement")
        if not isfinite(number):
            self.fail(member, "is not finite")
        return number

    def unit(self, member: str) -> str:
        value = self._content.get(member)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > _MAX_UNIT_CHARACTERS or not (value == "" or value.isprintable()):
            self.fail(member, f"a text of at most {_MAX_UNIT_CHARACTERS} characters is expected")
        return value

    def time(self, member: str) -> datetime | None:
        value = self._content.get(member)
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            self.fail(member, "an ISO 8601 time is expected")

    def counter(self, member: str) -> int | None:
        value = self._content.get(member)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNTER:
            self.fail(member, "a whole number from 0 to 2^63-1 is expected")
        return value
