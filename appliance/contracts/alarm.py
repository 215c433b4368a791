"""Alarms as ISA-18.2 names them, and the event a source reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AlarmChange(StrEnum):
    """What a source says happened."""

    RAISED = "raised"
    CLEARED = "cleared"


class AlarmState(StrEnum):
    """ISA-18.2 states built so far; shelving and suppression come with alarm handling in depth."""

    NORMAL = "normal"
    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    RETURNED_UNACKNOWLEDGED = "returned_unacknowledged"


class AlarmAction(StrEnum):
    """What moves an alarm between states."""

    RAISE = "raise"
    CLEAR = "clear"
    ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True)
class AlarmEvent:
    """One report from a source. (source, activation, change) is the duplicate key: a resend is the same event.

    ``activation`` is the source's counter or id of this activation; ``alarm_id`` is ours, from the plant model.
    """

    source: str
    alarm_id: str
    activation: str
    change: AlarmChange
    value: float | None
    unit: str
    source_utc: datetime | None
    source_mono_ns: int | None = None

    @property
    def activation_id(self) -> str:
        """Identity of one activation across duplicates and restarts."""
        return f"{self.source}:{self.alarm_id}:{self.activation}"

    @property
    def dedupe_key(self) -> str:
        """Admission key of this event."""
        return f"alarm:{self.activation_id}:{self.change}"


@dataclass(frozen=True, slots=True)
class Alarm:
    """Stored state of one activation."""

    activation_id: str
    alarm_id: str
    asset: str
    priority: str
    state: AlarmState
    value: float | None
    unit: str
    session_id: str | None
    raised_utc: datetime
    cleared_utc: datetime | None
    acknowledged_utc: datetime | None
    acknowledged_by: str | None
