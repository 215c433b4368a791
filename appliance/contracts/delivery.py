"""Everything said or sent: a ledger row first, then attempts, then a receipt (R5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Channel(StrEnum):
    """Where a delivery goes."""

    SPEECH = "speech"
    MQTT = "mqtt"


class DeliveryStatus(StrEnum):
    """PENDING -> ATTEMPTING -> DELIVERED, FAILED or ABANDONED. Never back, except ATTEMPTING -> PENDING with a
    repeat mark after a restart."""

    PENDING = "pending"
    ATTEMPTING = "attempting"
    DELIVERED = "delivered"
    FAILED = "failed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message. ``lead`` is the part that must sound at once (pre-rendered), spoken before ``text``.

    ``priority`` is the admission's: larger is said first. ``may_be_repeat`` marks a recovered attempt.
    """

    id: str
    seq: int
    channel: Channel
    turn_id: str | None
    language: str
    lead: str
    text: str
    priority: int
    status: DeliveryStatus
    attempts: int
    may_be_repeat: bool
    queued_utc: datetime
    queued_mono_ns: int
    first_audio_mono_ns: int | None
    ended_utc: datetime | None
