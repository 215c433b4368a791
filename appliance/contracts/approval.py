"""Whether a call may be made (X2, X5): the words in which that is decided, recorded and asked.

The order is fixed: hard floor, deny, unattended, ask, allow. Whatever path a call comes by, it is decided by the same one
object, in the transaction that would begin it (``execution/approval/approvals.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Decision(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Rule(StrEnum):
    """What decided it, in the order they are asked."""

    HARD_FLOOR = "hard_floor"  # nothing overrides it: access, limits of the tag, a CRITICAL call without its code
    DENY = "deny"
    BREAKER = "breaker"  # three automatic denials in a row in this session
    RATE = "rate"
    INTERLOCK = "interlock"
    UNATTENDED = "unattended"  # nobody is there to be asked
    ASK = "ask"
    CONSENT = "consent"  # a person said yes to exactly this call
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``why`` is fit to be spoken; empty when the call may be made. ``needs_code``: the yes has to come with the code that was
    read out.

    ``is_hidden``: the caller must not learn that the tool exists: it is refused with the words for an unknown one (T3).
    """

    decision: Decision
    rule: Rule
    why: str = ""
    needs_code: bool = False
    is_hidden: bool = False
