"""A device that makes and takes session tokens over a real ledger, and what somebody hostile would send it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt

from appliance.access.keys import KeyRing
from appliance.access.settings import AccessSettings
from appliance.access.tokens import Tokens
from appliance.contracts.session_token import TokenClaims, issuer_of_device
from appliance.foundation.signed_tokens import SigningKey
from tests.support.ledger import ORIGIN, Bench


@dataclass
class Desk:
    """``folder`` is the data folder."""

    bench: Bench
    folder: Path
    keys: KeyRing
    tokens: Tokens

    async def make(self, person: str = "ana", role: str = "engineer", hours: float = 8.0) -> str:
        """A token this device signed."""
        made = await self.tokens.make(person, role, hours, by="root", user="root", owns_key=True)
        return str(made["token"])

    def claims(self, **changes: Any) -> dict[str, Any]:
        """What a good token says, with changes; a claim that is None is left out."""
        said = TokenClaims.lasting(
            8, self.bench.clock.utc(), sub="ana", role="engineer", aud=ORIGIN, iss=issuer_of_device(ORIGIN), jti="tok_1"
        )
        return {name: value for name, value in (said.model_dump() | changes).items() if value is not None}

    def sign(self, **changes: Any) -> str:
        """A token of the device's own key that says anything."""
        key, content = self.keys.signing_key(), json.dumps(self.claims(**changes)).encode()
        return jwt.PyJWS().encode(content, key._key, algorithm="EdDSA", headers={"kid": key.public.kid})

    @property
    def key_file(self) -> Path:
        return self.folder / "keys" / "session-tokens.pem"


def desk_of(bench: Bench, folder: Path, *, coordinator: str = "", **settings: Any) -> Desk:
    """Build the device's desk; ``settings`` are of the site's access policies."""
    keys = KeyRing(folder, ORIGIN, coordinator)
    return Desk(bench, folder, keys, Tokens(AccessSettings(**settings), keys, bench.database, bench.clock, bench.ids))


def strange_key(folder: Path) -> SigningKey:
    """A key that nobody here knows."""
    return SigningKey.load_or_make(folder / "strange.pem", key="strange")


def part(content: Mapping[str, Any] | bytes) -> str:
    """A part of a JWT."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def header_of(token: str) -> dict[str, Any]:
    """The header of a token."""
    first = token.split(".")[0]
    header: dict[str, Any] = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    return header
