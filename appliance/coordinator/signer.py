"""Signs session tokens for people, with a key that every replica has in a file of its own beside the admin token."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from appliance.contracts.errors import ConfigError
from appliance.contracts.session_token import COORDINATOR, TokenClaims
from appliance.foundation.signed_tokens import SigningKey


class Signer:
    """The coordinator's key, and the name of the fleet it speaks for."""

    def __init__(self, key: SigningKey, fleet: str) -> None:
        self._key = key
        self.fleet = fleet

    @classmethod
    def load_or_make(cls, path: Path, fleet: str) -> Signer:
        """Return the signer with the key in ``path``; make the file at the first start.

        The file appears whole or not at all, so replicas that start together and share it agree on one key.

        Raises:
            ConfigError: others may read the file, it holds no key, or it cannot be made.
        """
        try:
            return cls(SigningKey.load_or_make(path, key="signing_key_file"), fleet)
        except OSError as error:
            cure = "Choose a place this user can write: --signing-key-file."
            raise ConfigError(f"cannot be had: {error.strerror}", file=str(path), key="signing_key_file", cure=cure) from error

    def key_set(self) -> dict[str, Any]:
        """Return the public keys as a JWK set (RFC 7517, section 5), with the fleet's name beside them."""
        return {"fleet": self.fleet, "keys": [self._key.public.to_jwk()]}

    def sign(
        self, person: str, role: str, audience: str, hours: float, *, now: datetime, token_id: str
    ) -> tuple[str, TokenClaims]:
        """Return a token, and what it says.

        Raises:
            Malformed: a name is none, or the time is not within a week.
        """
        claims = TokenClaims.lasting(hours, now, sub=person, role=role, aud=audience, iss=COORDINATOR, jti=token_id)
        return self._key.sign(claims.model_dump()), claims
