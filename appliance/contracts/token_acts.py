"""Session tokens: what a token that verified stands for, and what may be asked about tokens. Answers of acts are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from appliance.contracts.principal import Principal

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verified:
    """A token that verified. ``limit`` says why it gives less than its role does, in words for people; else it is empty."""

    principal: Principal
    issuer: str
    ends_utc: datetime
    limit: str = ""


class TokenActs(Protocol):
    """``by`` is who asks, as recorded."""

    async def verify(self, token: str) -> Verified:
        """Return who a token says asks.

        Raises:
            Unidentified: it does not verify, has ended or was revoked.
            NotPermitted: it is for another device, or for a role this site does not have.
        """
        ...

    async def make(self, person: str, role: str, hours: float, *, by: str, user: str, owns_key: bool) -> Facts:
        """Sign a token. Answers ``{token, id, person, role, level, for, ends_utc, limit}``.

        ``user`` is who asks as the kernel knows them. ``owns_key``: they could read the key's file anyhow. Anybody else is given
        tokens in their own name alone, of no more than the console's role.

        Raises:
            NotPermitted: there is no such role, or the asker may not make such a token.
            Malformed: the person's name is none, or the time is.
        """
        ...

    async def look(self, token: str) -> Facts:
        """Tell what a token says and whether it verifies here: ``{verifies, why, cure, says, level, limit}``.

        Raises:
            Malformed: it is no token at all.
        """
        ...

    async def revoke(self, token_id: str, *, by: str, note: str) -> Facts:
        """End a token. Answers ``{id, revoked_by, note, revoked_utc, made_here}``; others than this device make tokens, too."""
        ...
