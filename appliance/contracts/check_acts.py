"""What the local API may ask about checks that were asked for earlier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class CheckActs(Protocol):
    """Every answer is JSON-serialisable; ``by`` is recorded."""

    async def checks(self, *, waiting_only: bool, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return checks, newest first: ``{id, status, what, language, by, due_utc, left_s, why, turn, outcome, asked_in_turn,
        created_utc}``. ``left_s`` is None when it does not wait, or nobody can tell; then ``why`` says why."""
        ...

    async def cancel(self, check_id: str, by: str) -> Mapping[str, Any]:
        """Cancel a check that waits; return ``{id, status, what}``.

        Raises:
            Refused: there is no such check, or it does not wait any more.
        """
        ...
