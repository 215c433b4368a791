"""What a person asks of the ledger itself: whose it is, what was lost of it, and that this is known. Answers are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Facts = Mapping[str, Any]


class LedgerActs(Protocol):
    """``by`` is who asks, as recorded."""

    async def look(self) -> Facts:
        """Return ``{trouble, machine, identity: [{what, detail, found_utc}], salvages: [{salvage, why, account, …}]}``."""
        ...

    async def adopt(self, by: str, note: str) -> Facts:
        """Say that this machine goes on with this ledger, though it may be a copy. Answers ``{adopted: [what]}``.

        Raises:
            Refused: nothing speaks against it.
        """
        ...

    async def settle_salvage(self, number: int, by: str, note: str) -> Facts:
        """Say that somebody knows of a loss and has dealt with it. Answers the salvage.

        Raises:
            Refused: there is no such salvage, or it is settled.
        """
        ...
