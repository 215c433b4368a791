"""What the appliance could not bring to an end and hands to people (T5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class TicketStatus(StrEnum):
    """OPEN, then one of the others for good: a person said it is done, the same call worked since, or nobody cared in time."""

    OPEN = "open"
    RESOLVED = "resolved"
    AUTO_RESOLVED = "auto_resolved"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Ticket:
    """One action that failed for good. ``input`` is what it was called with, without what must not be logged; ``told`` are the
    webhooks it was queued for. ``opened_mono_ns`` is of the boot ``boot_id``."""

    id: str
    seq: int
    turn_id: str
    action_id: str
    tool: str
    input: Mapping[str, Any]
    error_code: str
    error: str
    state_hash: str
    status: TicketStatus
    told: tuple[str, ...]
    opened_utc: datetime
    opened_mono_ns: int
    boot_id: str
    clock_synced: bool
    closed_utc: datetime | None
    closed_by: str
    note: str
