"""Alarms as ISA-18.2 names them, and the event a source reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from appliance.contracts.admission import Admission


class AlarmChange(StrEnum):
    """What a source says happened."""

    RAISED = "raised"
    CLEARED = "cleared"


class AlarmState(StrEnum):
    """States of an activation (ISA-18.2). LATCHED: gone and acknowledged, but it stays until somebody resets it."""

    NORMAL = "normal"
    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    RETURNED_UNACKNOWLEDGED = "returned_unacknowledged"
    LATCHED = "latched"


class AlarmAction(StrEnum):
    """What moves an alarm between states."""

    RAISE = "raise"
    CLEAR = "clear"
    ACKNOWLEDGE = "acknowledge"
    RESET = "reset"


class Inhibition(StrEnum):
    """Why an alarm is not announced (ISA-18.2): SHELVED by a person for a time and with a reason, SUPPRESSED by design while the
    plant is in a certain state, OUT_OF_SERVICE by a person until put back. Its states go on being kept meanwhile."""

    SHELVED = "shelved"
    SUPPRESSED = "suppressed"
    OUT_OF_SERVICE = "out_of_service"


class Disposition(StrEnum):
    """What became of an event that was journalled. Everything but ANNOUNCE is suppressed, and says why.

    REPEAT: it told nothing new. MERGED: another source had told of the same. CHATTER: it came and went too often. FLOOD: its
    conversation tells of it by number. STATE: a retained message, or the truth found at start, about what was known already.
    """

    ANNOUNCE = "announce"
    REPEAT = "repeat"
    MERGED = "merged"
    SHELVED = "shelved"
    SUPPRESSED = "suppressed"
    OUT_OF_SERVICE = "out_of_service"
    CHATTER = "chatter"
    FLOOD = "flood"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class AlarmEvent:
    """One report from a source. (source, alarm, activation, change, sequence) is the duplicate key: a resend is the same event.

    ``activation`` is the source's counter or id of this activation; ``alarm_id`` is ours, from the plant model. ``sequence`` is
    the source's running number of what it sends, if it has one: a gap in it is something that was lost. ``is_state``: it was
    true before (a retained message, or what the PLC says at start), so it is truth and not news. ``was_missed``: read from the
    PLC because the gateway or the broker did not tell.
    """

    source: str
    alarm_id: str
    activation: str
    change: AlarmChange
    value: float | None
    unit: str
    source_utc: datetime | None
    source_mono_ns: int | None = None
    sequence: int | None = None
    is_state: bool = False
    was_missed: bool = False

    @property
    def activation_id(self) -> str:
        """Identity of one activation across duplicates and restarts."""
        return f"{self.source}:{self.alarm_id}:{self.activation}"

    @property
    def dedupe_key(self) -> str:
        """Admission key of this event."""
        numbered = "" if self.sequence is None else f":{self.sequence}"
        return f"alarm:{self.activation_id}:{self.change}{numbered}"

    def to_payload(self) -> dict[str, Any]:
        """Return what an admission of this event carries, times as ISO-8601 text. ``is_state`` says that it is no news."""
        return {
            "source": self.source,
            "alarm_id": self.alarm_id,
            "activation": self.activation,
            "activation_id": self.activation_id,
            "change": str(self.change),
            "value": self.value,
            "unit": self.unit,
            "source_utc": self.source_utc.isoformat() if self.source_utc else None,
            "source_mono_ns": self.source_mono_ns,
            "is_state": self.is_state,
            "was_missed": self.was_missed,
        }


@dataclass(frozen=True, slots=True)
class Alarm:
    """Stored state of one activation. ``revision`` grows by one with each change: it names what somebody was shown.

    ``source_utc`` is when its source says it came, by the source's own clock.
    """

    activation_id: str
    alarm_id: str
    source: str
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
    revision: int
    source_utc: datetime | None = None

    @property
    def is_active(self) -> bool:
        """Whether its cause is still there, as far as anybody told."""
        return self.cleared_utc is None


@dataclass(frozen=True, slots=True)
class Journalled:
    """Answer of the alarm door: the event is on disk as ``seq`` of the journal.

    ``admission`` is there when it is announced. ``alarm`` is the activation it was counted to, as stored now; None when it
    told of none.
    """

    seq: int
    disposition: Disposition
    admission: Admission | None
    alarm: Alarm | None
    is_duplicate: bool


class AdvanceAlarm(Protocol):
    """The alarm state machine; Refused for a step its table does not have, in words fit to be spoken."""

    def __call__(self, state: AlarmState, action: AlarmAction, *, latching: bool = False) -> AlarmState: ...
