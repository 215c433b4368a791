"""An alarm as the controls engineer declares it: where it comes from, how urgent it is, what is said."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Priority(StrEnum):
    """Alarm priorities (ISA-18.2); urgency order is LOW < MEDIUM < HIGH < CRITICAL."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class ConditionKind(StrEnum):
    """What makes an alarm active. HH, H, L and LL are limits of a tag; each level is an alarm of its own (ISA-18.2)."""

    BIT = "bit"
    HIGH_HIGH = "hh"
    HIGH = "h"
    LOW = "l"
    LOW_LOW = "ll"
    RATE = "rate"
    BAD_VALUE = "bad_value"
    UNREACHABLE = "unreachable"


HIGH_LIMITS = (ConditionKind.HIGH_HIGH, ConditionKind.HIGH)
LOW_LIMITS = (ConditionKind.LOW, ConditionKind.LOW_LOW)


class Condition(_Frozen):
    """What the appliance itself watches. ``tag`` must be polled.

    ``bit``: the tag is ``active_when``. Limits: at or beyond ``limit``; over again once it is back by more than ``hysteresis``.
    ``rate``: it changed by ``limit`` or more, up or down, within ``within_s``; over again as for limits. ``bad_value``: the
    device gives no number. ``unreachable``: the link, or only ``device_id`` behind it, gives no answer. ``on_delay_s`` and
    ``off_delay_s``: how long it must last to count.
    """

    kind: ConditionKind
    tag: str | None = None
    link: str | None = None
    device_id: int | None = Field(default=None, ge=0, le=255)
    active_when: bool = True
    limit: float | None = None
    hysteresis: float = Field(default=0.0, ge=0)
    within_s: float = Field(default=60.0, gt=0, le=86_400)
    on_delay_s: float = Field(default=0.0, ge=0, le=3_600)
    off_delay_s: float = Field(default=0.0, ge=0, le=3_600)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.kind is ConditionKind.UNREACHABLE:
            if self.link is None or self.tag is not None:
                raise ValueError("condition unreachable needs link, and takes no tag")
        elif self.tag is None or self.link is not None or self.device_id is not None:
            raise ValueError(f"condition {self.kind} needs tag, and takes neither link nor device_id")
        needs_limit = self.kind in (*HIGH_LIMITS, *LOW_LIMITS, ConditionKind.RATE)
        if needs_limit != (self.limit is not None and isfinite(self.limit)):
            raise ValueError(f"condition {self.kind} {'needs a finite limit' if needs_limit else 'takes no limit'}")
        return self


class Suppression(_Frozen):
    """Suppressed by design (ISA-18.2): while ``tag`` is ``equals`` the alarm means nothing, like low pressure at rest."""

    tag: str
    equals: bool | int | str


class AlarmDefinition(_Frozen):
    """One alarm. ``id`` is unique in the plant, ``source_id`` is the name the gateway publishes.

    With a ``source_id`` the gateway says when it comes and goes; a ``condition`` beside it is read from the PLC to notice, after
    ``missed_after_s``, what the gateway or the broker lost. With a ``condition`` alone the appliance itself watches.
    ``text`` per language may use ``{value}``; it is spoken. ``tag`` names the measured value, if any. ``latching``: it stays
    until somebody resets it. The first to come of a ``group`` is its first-out.
    """

    id: str
    asset: str
    source_id: str | None = None
    condition: Condition | None = None
    priority: Priority
    fault: str = Field(description="fault class, shared by similar alarms: over_temperature, low_pressure, …")
    tag: str | None = None
    playbook: str
    text: dict[str, str]
    latching: bool = False
    group: str | None = None
    suppressed_while: Suppression | None = None
    missed_after_s: float = Field(default=5.0, gt=0, le=600)

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if self.source_id is None and self.condition is None:
            raise ValueError(f"alarm {self.id}: needs source_id, condition, or both")
        return self

    @property
    def watched_tags(self) -> tuple[str, ...]:
        """Tags the appliance has to poll for this alarm."""
        watched = (self.condition and self.condition.tag, self.suppressed_while and self.suppressed_while.tag)
        return tuple(tag for tag in watched if tag)
