"""What people ask about approvals: what was decided, which rules are in force, and to let a session go on. Answers are JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Facts = Mapping[str, Any]


class ApprovalActs(Protocol):
    """Asked through the local API."""

    async def decisions(self, session_id: str, limit: int) -> Sequence[Facts]:
        """Return the newest decisions, newest first, of a session or (empty) of all.

        Each is ``{seq, decided_utc, session_id, turn_id, action_id, tool, subject, decision, rule, why, by, identified, who,
        facts, is_automatic}``.
        """
        ...

    async def rules(self, about: str, role: str) -> Facts:
        """Return what would happen with a tool, or with a write to a tag, if somebody of ``role`` asked (empty: who types here
        without a token): the rules in the order they are asked, and which of them is about it. Without ``about``: all rules.

        Raises:
            Refused: neither a tool nor a tag, or no such role.
        """
        ...

    async def reset(self, session_id: str, by: str) -> Facts:
        """Let a session go on in which three calls in a row were denied. Answers ``{session, denials}``: how many there were; 0
        when nothing was stopped.

        Raises:
            Refused: no such session.
        """
        ...
