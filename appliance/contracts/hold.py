"""The global hold: alarms are admitted and told, nothing is executed (R10)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class HoldSource(StrEnum):
    """What holds: a person's command, or the key switch at the machine. Each lets go of its own only, and so does each person."""

    PERSON = "person"
    KEY_SWITCH = "key_switch"


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold as stored; in force until whoever holds lets go, or is let go of. ``reason`` is all that ``by`` gave so far."""

    source: HoldSource
    by: str
    reason: str
    began_utc: datetime
