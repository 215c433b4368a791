"""A check somebody asked for that is made later, once (FC-R07, FC-R08)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from appliance.contracts.principal import Principal


class CheckStatus(StrEnum):
    """WAITING, then one of the others for good. STARTED has an admission, whose outcome says how it ended."""

    WAITING = "waiting"
    STARTED = "started"
    MISSED = "missed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ScheduledCheck:
    """``what`` is the sentence that is understood when it is due; it was found to mean ``intent`` with ``slots``: only reading.

    It is due ``after_s`` after it was asked for: at ``due_mono_ns`` within the boot ``boot_id``, at ``due_utc`` in another one if
    ``clock_synced`` (wall time was disciplined when it was asked for).
    """

    id: str
    seq: int
    asked_turn_id: str
    lane: str
    language: str
    principal: Principal
    intent: str
    slots: Mapping[str, Any]
    what: str
    after_s: float
    due_utc: datetime
    due_mono_ns: int
    boot_id: str
    clock_synced: bool
    status: CheckStatus
    why: str
    admission_id: str | None
    created_utc: datetime
    ended_utc: datetime | None
