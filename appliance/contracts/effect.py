"""Effects and questions as stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class EffectStatus(StrEnum):
    """INTENDED before the call; then APPLIED, NONE or UNKNOWN. UNKNOWN is settled to APPLIED or NONE, once."""

    INTENDED = "intended"
    APPLIED = "applied"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Effect:
    """One action's effect on the world: at most one row an action."""

    seq: int
    action_id: str
    turn_id: str
    tool: str
    arguments: Mapping[str, Any]
    status: EffectStatus
    was_unknown: bool
    settled_by: str | None
    note: str
    result: Mapping[str, Any] | None
    epoch: int
    intended_utc: datetime
    ended_utc: datetime | None


class ConfirmationStatus(StrEnum):
    """A question's life. Silence is never consent: only a person's yes is YES."""

    PENDING = "pending"
    YES = "yes"
    NO = "no"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """An open or answered question. ``asked_seq`` orders questions; ``delivery_id`` is the delivery that asks it.

    ``asked_after_seq`` is the newest admission when it was asked: no answer up to that one can be to it. ``code`` are the digits
    that have to be read back with a yes (empty: none), ``code_read_by`` the admission of the answer in which they were;
    ``answered_who`` is the principal of whoever answered, whose answer came at ``answered_mono_ns`` of ``answered_boot_id``.
    """

    id: str
    turn_id: str
    action_id: str
    question: str
    status: ConfirmationStatus
    delivery_id: str | None
    asked_seq: int
    asked_after_seq: int
    asked_utc: datetime
    answered_by: str | None
    answered_utc: datetime | None
    code: str = ""
    wrong_codes: int = 0
    code_read_by: str | None = None
    answered_who: Mapping[str, Any] | None = None
    answered_mono_ns: int | None = None
    answered_boot_id: str | None = None
