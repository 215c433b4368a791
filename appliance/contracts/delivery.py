"""Everything said or sent: a ledger row first, then attempts, then a receipt (R5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

# Delivery priorities: larger is said first. Those from PRIORITY_ALARM on may be said while somebody speaks. Besides these, words
# have the priority of the admission they belong to (an answer to who typed: PRIORITY_UTTERANCE).
PRIORITY_HOLD = 15
"""That the appliance is on hold, or not any more. No answer: it is said however late, unless it is no longer so."""
PRIORITY_ANSWER = 14
"""What answers a person who has just spoken: one sentence, and they stand there waiting for it."""
PRIORITY_FLOOD_TOLD = 13
"""What is told of a flood."""
PRIORITY_ANNOUNCEMENT: Mapping[str, int] = {"critical": 12, "high": 11, "medium": 10, "low": 9}
"""The first words of an alarm's turn, by alarm priority. That one is over is as urgent as a low one."""
PRIORITY_ADVICE = 8
"""What an alarm's turn has to say after them: advice, questions. After every announcement, before the answers to what was typed:
those are on the screen already."""


class Channel(StrEnum):
    """Where a delivery goes."""

    SPEECH = "speech"
    MQTT = "mqtt"
    WEBHOOK = "webhook"


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

    ``priority``: larger is said first. ``may_be_repeat`` marks a recovered attempt.
    A message of the channel MQTT has no words but a ``topic`` and a JSON object as ``payload``; ``retain``: the broker keeps it
    as the topic's last. One of the channel WEBHOOK has a ``payload``, and its ``topic`` is the webhook's name in the settings.

    ``unsaid``: of how many answers that could not be said in time these words tell; 0 for all others.

    ``tried_after_seq``: the newest admission when it was first begun to be said; None while nothing of it can have been heard.

    ``queued_mono_ns`` is of the boot ``boot_id``, ``ended_mono_ns`` of ``ended_boot_id``.
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
    topic: str = ""
    payload: Mapping[str, Any] | None = None
    retain: bool = False
    unsaid: int = 0
    boot_id: str = ""
    ended_mono_ns: int | None = None
    ended_boot_id: str | None = None
    tried_after_seq: int | None = None
