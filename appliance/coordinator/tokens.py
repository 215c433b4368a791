"""Bearer tokens: made here, shown once, kept as digests only."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from appliance.contracts.errors import ConfigError

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
    if not path.exists():
        _make(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError("can be read by others", file=str(path), key="admin_token_file", cure=f"Run: chmod 600 {path}")
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise ConfigError("is empty", file=str(path), key="admin_token_file", cure="Delete the file: a new one is made.")
    return token_digest(token)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(new_token() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another replica was first: its token is the token
            path.hardlink_to(draft)
    finally:
        draft.unlink()
