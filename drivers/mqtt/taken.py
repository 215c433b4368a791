"""What a message comes to, and what a told value means for its tag. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from appliance.contracts.alarm import AlarmEvent
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.named_value import number_of, text_of
from appliance.contracts.reading import Quality, Reading, Value
from appliance.contracts.tag import MOST_STRING_REGISTERS, DataType, Tag

_FLOATS = (DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64)
_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_MOST_DIGITS = 40  # of a number told as text: more than any 64-bit number has
_MOST_CHARACTERS = 2 * MOST_STRING_REGISTERS


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send at once, QoS 0 and not retained: a request that is made again if it is lost."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a message. ``lost``: key of a published tag -> why its value is not true any more.

    ``faults`` are the parts that could not be understood; the others are good.
    """

    events: tuple[AlarmEvent, ...] = ()
    readings: tuple[Reading, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    send: tuple[Outgoing, ...] = ()
    faults: tuple[Malformed, ...] = ()


NOTHING = Taken()


def to_reading(tag: Tag, told: Any, source_utc: datetime | None, *, where: str, stale: str = "") -> Reading:
    """Return the reading of a published tag: GOOD, STALE with the reason ``stale``, or BAD when ``told`` is no value of its type.

    ``told`` is what JSON, text or a metric holds; None is "no value". ``where`` names its place in the message.
    """
    value, why = _decode(tag, told)
    if value is None:
        return Reading(tag.key, None, tag.unit, Quality.BAD, source_utc, (), f"{why} ({where})")
    return Reading(tag.key, value, tag.unit, Quality.STALE if stale else Quality.GOOD, source_utc, (), stale)


def _decode(tag: Tag, told: Any) -> tuple[Value | None, str]:
    """Return the engineering value, or None and why there is none."""
    if told is None:
        return None, "the gateway gives no value"
    if tag.type is DataType.BOOL:
        truth = _truth(told)
        return (truth, "") if truth is not None else (None, "true or false is expected")
    if tag.type is DataType.STRING:
        is_text = isinstance(told, str) and len(told) <= _MOST_CHARACTERS and (told == "" or told.isprintable())
        return (told, "") if is_text else (None, f"a text of at most {_MOST_CHARACTERS} characters is expected")
    if tag.names or tag.flags:
        return _meaning(tag, told)
    return _number(tag, told)


def _truth(told: Any) -> bool | None:
    if isinstance(told, str):
        word = told.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return bool(told) if isinstance(told, int | float) and told in (0, 1) else None


def _meaning(tag: Tag, told: Any) -> tuple[Value | None, str]:
    number = _whole(told)
    if number is None and isinstance(told, str) and len(told) <= _MOST_CHARACTERS:
        try:
            number = number_of(tag, told)  # the gateway says the name itself
        except Refused as error:
            return None, error.message
    if number is None or number.bit_length() > 64 or (tag.flags and number < 0):
        return None, "a whole number or a declared name is expected"
    return (None, "the device gives no number") if _is_sentinel(tag, number) else (text_of(tag, number), "")


def _number(tag: Tag, told: Any) -> tuple[Value | None, str]:
    if isinstance(told, str):
        told = told.strip()
        if len(told) > _MOST_DIGITS or _NUMBER.fullmatch(told) is None:
            return None, "a number is expected"
        told = int(told) if told.lstrip("+-").isdecimal() else float(told)
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None, "a number is expected"
    if isinstance(told, int) and told.bit_length() > 64:
        return None, "is beyond any measurement"
    whole = _whole(told)
    if not isfinite(told) or (whole is not None and _is_sentinel(tag, whole)):
        return None, "the device gives no number"
    if tag.type not in _FLOATS and not isinstance(told, int):
        told = whole if whole is not None else told
    value: float = told
    if tag.scale != 1 or tag.offset != 0:  # in decimal, so that 943 at scale 0.1 is 94.3
        value = float(Decimal(str(told)) * Decimal(str(tag.scale)) + Decimal(str(tag.offset)))
    if tag.clamp is not None:
        value = max(tag.clamp[0], min(tag.clamp[1], value))
    return (value, "") if isfinite(value) else (None, "is beyond any measurement")


def _whole(told: Any) -> int | None:
    if isinstance(told, bool) or not isinstance(told, int | float) or not isfinite(told):
        return None
    return int(told) if told == int(told) else None


def _is_sentinel(tag: Tag, number: int) -> bool:
    """Sentinels are unsigned raw values; a gateway may have made the number negative."""
    return bool(tag.sentinels) and number % 2 ** (16 * tag.register_count) in tag.sentinels
