"""Checks what a message says, value by value. Every complaint names the topic and where in the message it is."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, NoReturn, TypeVar

from appliance.contracts.errors import AlarmUnreadable, Malformed
from appliance.contracts.topic_mapping import SPARKPLUG_NAMESPACE

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_PAYLOAD_BYTES = 64 * 1024
MAX_SPARKPLUG_BYTES = 240 * 1024  # a birth names every metric; below the shipped broker's max_packet_size
ABSENT: Final = object()
"""Stands for a part that the message does not have."""

_MAX_COUNTER = 2**63 - 1  # what the ledger's INTEGER holds
_NAME = re.compile(r"[\w./@+-]{1,64}", re.ASCII)  # no colon: names are joined with colons into identities
_MAX_UNIT_CHARACTERS = 16
_MOST_DIGITS = 400  # of a whole number in JSON; what is longer is beyond any float
# Seconds since 1970 stay below 1e11 until the year 5138; the same moment in ms, us and ns is that many powers of 1,000 larger.
_EPOCHS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))


def most_bytes(topic: str) -> int:
    """Return how long a payload on a topic may be."""
    return MAX_SPARKPLUG_BYTES if topic.startswith(f"{SPARKPLUG_NAMESPACE}/") else MAX_PAYLOAD_BYTES


class Checked:
    """The checks of one message's parts. ``where`` is the member or the selector, ``told`` what is there, or :data:`ABSENT`."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def fail(self, where: str, why: str) -> NoReturn:
        """Raise Malformed."""
        raise Malformed(f"message on {self._topic}: {where}: {why}", topic=self._topic, member=where)

    def optional(self, check: Callable[[str, Any], T | None], where: str, told: Any) -> T | None:
        """Return what a check makes of a part that can be done without; None, with a line in the log, when it is no good."""
        try:
            return check(where, told)
        except Malformed as error:
            log.warning("mqtt.part_ignored", extra={"topic": self._topic, "why": error.message})
            return None

    def unreadable(self, error: Malformed, source: Any, sequence: Any, *, is_state: bool) -> AlarmUnreadable:
        """Return ``error`` as an alarm that cannot be taken, with what can be read of the number that its source gave it."""
        try:
            named, number = self.name("", source), self.counter("", sequence)
        except Malformed:
            named, number = "", None
        return AlarmUnreadable(error.message, source=named, sequence=number, is_state=is_state, **error.facts)

    def text(self, where: str, told: Any) -> str:
        """Return a text that is not empty."""
        if not isinstance(told, str) or not told:
            self.fail(where, "is missing" if told is ABSENT else "a text is expected")
        return told

    def name(self, where: str, told: Any) -> str:
        """Return a name that can be part of an identity; a whole number is its decimal text."""
        if isinstance(told, int) and not isinstance(told, bool):
            told = f"{told:d}" if abs(told) <= _MAX_COUNTER else ""
        if not isinstance(told, str):
            self.fail(where, "is missing" if told is ABSENT else "a text or whole number is expected")
        if not _NAME.fullmatch(told):
            self.fail(where, "1 to 64 letters, digits or . _ / @ + - are expected")
        return told

    def number(self, where: str, told: Any) -> float | None:
        """Return a finite number, None when nothing or null is told."""
        if told is None or told is ABSENT:
            return None
        if isinstance(told, bool) or not isinstance(told, int | float):
            self.fail(where, "a number is expected")
        try:
            number = float(told)
        except OverflowError:
            self.fail(where, "is beyond any measurement")
        if not isfinite(number):
            self.fail(where, "is not finite")
        return number

    def unit(self, where: str, told: Any) -> str:
        """Return a unit, empty when nothing is told."""
        if told is None or told is ABSENT:
            return ""
        if not isinstance(told, str) or len(told) > _MAX_UNIT_CHARACTERS or not (told == "" or told.isprintable()):
            self.fail(where, f"a text of at most {_MAX_UNIT_CHARACTERS} characters is expected")
        return told

    def time(self, where: str, told: Any) -> datetime | None:
        """Return the moment of an ISO 8601 text, UTC when it has no zone; None when nothing is told."""
        if told is None or told is ABSENT:
            return None
        try:
            moment = datetime.fromisoformat(told)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            self.fail(where, "an ISO 8601 time is expected")

    def moment(self, where: str, told: Any) -> datetime | None:
        """Return :meth:`time`, or the moment of a number of s, ms, us or ns since 1970; its size tells which."""
        if isinstance(told, bool) or not isinstance(told, int | float):
            return self.time(where, told)
        a_second = next((a_second for below, a_second in _EPOCHS if 0 <= told < below), None)
        if a_second is None:
            self.fail(where, "is no time")
        return datetime.fromtimestamp(told / a_second, UTC)

    def counter(self, where: str, told: Any) -> int | None:
        """Return a whole number that the ledger can hold, None when nothing is told."""
        if told is None or told is ABSENT:
            return None
        if isinstance(told, bool) or not isinstance(told, int) or not 0 <= told <= _MAX_COUNTER:
            self.fail(where, "a whole number from 0 to 2^63-1 is expected")
        return told


def json_of(topic: str, payload: bytes) -> Any:
    """Return the JSON of a payload. Numbers that are none (NaN, Infinity, a million digits) are floats that are not finite.

    Raises:
        Malformed: too long, not UTF-8, not JSON, or nested deeper than the reader goes.
    """
    where = f"message on {topic}"
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Malformed(f"{where}: {len(payload)} bytes, more than {MAX_PAYLOAD_BYTES}", topic=topic)
    try:
        return json.loads(payload.decode("utf-8"), parse_constant=float, parse_int=_whole)
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, or not JSON
        raise Malformed(f"{where}: not JSON ({type(error).__name__})", topic=topic) from error


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)
