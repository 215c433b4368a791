"""Interrupts: a person, or the appliance itself, wants a turn or one of its steps to end (R7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

STOP_WITHIN_S = 1.0  # requirements R7: a stopped turn has ended by then, even if its tool ignores it
GRACE_S = 3.0  # requirements R7: what a stopped tool gets to clean up before it is killed or given up


class Cause(StrEnum):
    """Who wants it: a person, or a watchdog of ours."""

    USER = "user"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One wish to stop, as stored. ``action_id`` names the one step to cancel; None: the whole turn.

    ``handled_utc`` is None until the turn obeyed, or was found to have ended before it could.
    """

    seq: int
    id: str
    turn_id: str
    action_id: str | None
    cause: Cause
    by: str
    reason: str
    asked_utc: datetime
    handled_utc: datetime | None
