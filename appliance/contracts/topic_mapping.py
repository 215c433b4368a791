"""What a gateway publishes, in its own format, and what it means here."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


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
    Without ``activation`` the alarm's own time (``at``) stands for it, so that a resend stays the same activation.
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


class TopicMapping(_Frozen):
    """One topic filter and its format.

    ``alarms`` (json): where alarm events are. ``values``: selector (json), metric (sparkplug_b; ``device/metric`` for a
    device's) or just ``value`` (plain) -> key of a published tag. ``stale_after_s``: a value that was not published again for so
    long is stale; 0 for never. For sparkplug_b ``topic`` is ``spBv1.0/<group>/+/<edge node>/#``; a metric that is an alarm is a
    published tag with a condition.
    """

    topic: str = Field(min_length=1)
    format: TopicFormat
    alarms: AlarmSelectors | None = None
    values: dict[str, str] = Field(default_factory=dict)
    stale_after_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.alarms is None and not self.values:
            raise ValueError(f"topic {self.topic}: needs alarms or values")
        if self.alarms is not None and self.format is not TopicFormat.JSON:
            raise ValueError(f"topic {self.topic}: alarms are read from json only; watch a value by a condition instead")
        if self.format is TopicFormat.PLAIN and set(self.values) != {"value"}:
            raise ValueError(f"topic {self.topic}: a plain topic has exactly one value, named value")
        return self
