"""Bearer tokens: made here, shown once, kept as digests only."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from appliance.contracts.errors import ConfigError
from appliance.foundation import private_file

_TOKEN_BYTES = 32  # 256 bits: not guessable, so a plain SHA-256 is a sufficient digest


def new_token() -> str:
    """Return a fresh token."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def token_digest(token: str) -> str:
    """Return what is stored of a token: SHA-256, hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def same_digest(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one, other)


def admin_digest(path: Path) -> str:
    """Return the digest of the admin token in ``path``; make the file at the first start.

    The file appears whole or not at all, so replicas that start together agree on one token.

    Raises:
        ConfigError: others may read the file, or it is empty.
    """
    made = private_file.read_or_make(path, lambda: f"{new_token()}\n".encode(), key="admin_token_file")
    token = made.decode("utf-8", "surrogateescape").strip()
    if not token:
        raise ConfigError("is empty", file=str(path), key="admin_token_file", cure="Delete the file: a new one is made.")
    return token_digest(token)
