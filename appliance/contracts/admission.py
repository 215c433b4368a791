"""What enters, and the durable record that it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Door(StrEnum):
    """The entrance an input came through."""

    VOICE = "voice"
    MQTT = "mqtt"
    FIELD = "field"
    CONSOLE = "console"
    RECOVERY = "recovery"
    SCHEDULE = "schedule"
    COORDINATOR = "coordinator"


class RequestKind(StrEnum):
    """How the conductor treats the payload. Each kind's payload keys are listed in ``intake``."""

    ALARM = "alarm"
    FLOOD = "flood"
    UTTERANCE = "utterance"
    INTERJECTION = "interjection"  # about what is being done now ("stop that"): led beside the turn of its lane
    RESUME = "resume"


class Arrival(StrEnum):
    """How an input joins its lane (R1): wait, add to the running turn after its current step, or replace what is left of it.

    With no turn running in the lane all three are the same.
    """

    QUEUE = "queue"
    STEER = "steer"
    REDIRECT = "redirect"


class AdmissionStatus(StrEnum):
    """A lattice that never goes back: queued < started < unknown < terminal."""

    QUEUED = "queued"
    STARTED = "started"
    UNKNOWN = "unknown"
    TERMINAL = "terminal"


class Outcome(StrEnum):
    """How a terminal admission ended."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


# Admission priorities: larger runs first. The article's examples: a production alarm is 9, a search 3.
PRIORITY_INTERJECTION = 12
PRIORITY_FLOOD = 10
PRIORITY_ALARM = 9
PRIORITY_RESUME = 8
PRIORITY_UTTERANCE = 6
PRIORITY_CONSOLE = 5


@dataclass(frozen=True, slots=True)
class Request:
    """An outside event on its way to admission. ``payload`` is JSON-serialisable."""

    door: Door
    kind: RequestKind
    lane: str
    dedupe_key: str
    payload: Mapping[str, Any]
    priority: int
    arrival: Arrival = Arrival.QUEUE


@dataclass(frozen=True, slots=True)
class Admission:
    """A request made durable. ``seq`` orders everything on this appliance."""

    seq: int
    id: str
    door: Door
    kind: RequestKind
    lane: str
    dedupe_key: str
    payload: Mapping[str, Any]
    priority: int
    status: AdmissionStatus
    outcome: Outcome | None
    epoch: int | None
    resumes: str | None
    turn_id: str | None
    admitted_utc: datetime
    admitted_mono_ns: int
    boot_id: str
    clock_synced: bool
    arrival: Arrival = Arrival.QUEUE


@dataclass(frozen=True, slots=True)
class Admitted:
    """Answer of the gate: the admission, new or the one this is a duplicate of."""

    admission: Admission
    is_duplicate: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
