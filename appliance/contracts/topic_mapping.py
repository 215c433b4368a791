"""What a gateway publishes, in its own format, and what it means here."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SELECTOR = re.compile(r"""\$(?:topic\[\d{1,2}\]|(?:\.[A-Za-z_][\w-]*|\['[^']+'\]|\[\d{1,4}\])*)""", re.ASCII)
"""A selector: a level of the topic, or a path of members and places: ``$topic[2]``, ``$.a['odd name'].b[0]``, ``$`` for all."""

SPARKPLUG_NAMESPACE = "spBv1.0"  # Sparkplug 3.0.0, section 4.1
_SPARKPLUG_TOPIC = re.compile(rf"{re.escape(SPARKPLUG_NAMESPACE)}/[^/+#]+/\+/[^/+#]+/#")
_FILTER = re.compile(r"(?:[^/+#]*|\+)(?:/(?:[^/+#]*|\+))*(?:/#)?|#")  # MQTT 5.0, section 4.7.1


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TopicFormat(StrEnum):
    """``json``: any JSON, read by selectors. ``plain``: the payload is one value. ``sparkplug_b``: Sparkplug 3.0 payloads."""

    JSON = "json"
    PLAIN = "plain"
    SPARKPLUG_B = "sparkplug_b"


class AlarmSelectors(_Frozen):
    """Where an alarm's parts are. Each is a selector (``$.a.b[0]``, ``$topic[2]`` for a level of the topic) or a fixed text.

    ``each`` selects a list whose members are alarms; the other selectors then start at the member.
    ``raised`` and ``cleared`` list what ``state`` says for each, compared as text without case.
    Without ``activation`` the alarm's own time (``at``) stands for it, so that a resend stays the same activation; it has to be
    the time at which the alarm came, in the message that clears it too. Times are ISO 8601 or seconds, ms, us or ns since 1970.
    """

    each: str | None = None
    source: str
    alarm: str
    activation: str | None = None
    state: str
    raised: tuple[str, ...] = ("raised", "active", "true", "1", "on")
    cleared: tuple[str, ...] = ("cleared", "inactive", "false", "0", "off")
    value: str | None = None
    unit: str | None = None
    at: str | None = None
    sequence: str | None = None

    @model_validator(mode="after")
    def _selects(self) -> Self:
        fixed = (self.source, self.alarm, self.activation, self.state, self.value, self.unit, self.at, self.sequence)
        for selector in (self.each or "$", *(told for told in fixed if told and told.startswith("$"))):
            _check_selector(selector)
        if self.activation is None and self.at is None:
            raise ValueError("alarms: activation is needed, or at to stand for it")
        return self


class TopicMapping(_Frozen):
    """One topic filter and its format.

    ``alarms`` (json): where alarm events are. ``values``: selector (json), metric (sparkplug_b; ``device/metric`` for a
    device's) or just ``value`` (plain) -> key of a published tag. ``at`` (json): where the time of the values is; without
    it the time of arrival counts. ``stale_after_s``: a value that was not published again for so long is stale; 0 for never.
    For sparkplug_b ``topic`` is ``spBv1.0/<group>/+/<edge node>/#``; a metric that is an alarm is a published tag with a
    condition.
    """

    topic: str = Field(min_length=1)
    format: TopicFormat
    alarms: AlarmSelectors | None = None
    values: dict[str, str] = Field(default_factory=dict)
    at: str | None = None
    stale_after_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.alarms is None and not self.values:
            raise ValueError(f"topic {self.topic}: needs alarms or values")
        if self.alarms is not None and self.format is not TopicFormat.JSON:
            raise ValueError(f"topic {self.topic}: alarms are read from json only; watch a value by a condition instead")
        if self.format is TopicFormat.PLAIN and set(self.values) != {"value"}:
            raise ValueError(f"topic {self.topic}: a plain topic has exactly one value, named value")
        if _FILTER.fullmatch(self.topic) is None:
            raise ValueError(f"topic {self.topic}: not a topic filter; + stands for one whole level, # for all that follow")
        if self.format is TopicFormat.SPARKPLUG_B and _SPARKPLUG_TOPIC.fullmatch(self.topic) is None:
            raise ValueError(f"topic {self.topic}: {SPARKPLUG_NAMESPACE}/<group>/+/<edge node>/# is expected")
        if self.format is TopicFormat.JSON:
            for selector in (*self.values, *([self.at] if self.at else [])):
                _check_selector(selector)
        elif self.at is not None:
            raise ValueError(f"topic {self.topic}: at is for json")
        return self


def _check_selector(selector: str) -> None:
    if SELECTOR.fullmatch(selector) is None:
        raise ValueError(f"{selector!r} is not a selector such as $.a.b[0], $['odd name'] or $topic[2]")
