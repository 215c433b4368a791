"""What the local API may ask about tickets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class TicketActs(Protocol):
    """Every answer is JSON-serialisable; ``by`` is recorded."""

    async def resolve(self, ticket_id: str, note: str, by: str) -> Mapping[str, Any]:
        """Close an open ticket in a person's name; return ``{id, status, closed_by, note}``.

        Raises:
            Refused: there is no such ticket, or it is closed already.
        """
        ...
