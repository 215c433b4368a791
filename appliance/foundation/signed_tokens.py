"""Session tokens as they travel: JWTs signed with Ed25519 (RFC 7519, RFC 8037). The one place that knows PyJWT and cryptography.

What is checked here is the form and the signature; what a token says is checked by whoever takes it.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.contracts.errors import ConfigError, Malformed
from appliance.foundation import private_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MOST_BYTES = 4096
"""Longest text that is looked at: ours are about 400 bytes."""

_ALGORITHM = "EdDSA"  # RFC 8037, section 3.1; the only one, whatever a token's header says


class BadToken(Malformed):
    """A text that is no token of a known key. ``reason``: ``form``, ``algorithm``, ``key`` or ``signature``."""

    code = "bad_token"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, reason=reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures are verified with. ``kid`` is the thumbprint of its JWK (RFC 7638): who has the key has its name."""

    kid: str
    key: Ed25519PublicKey

    def to_jwk(self) -> dict[str, str]:
        """Return its JWK."""
        return _jwk_of(self.key) | {"kid": self.kid, "use": "sig", "alg": _ALGORITHM}

    @staticmethod
    def from_jwk(told: Mapping[str, Any]) -> PublicKey:
        """Read a JWK.

        Raises:
            Malformed: it is no public Ed25519 key, or not the one its ``kid`` names.
        """
        from jwt.algorithms import OKPAlgorithm
        from jwt.exceptions import InvalidKeyError

        kept = {name: told.get(name) for name in ("kty", "crv", "x")}
        if "d" in told or kept["kty"] != "OKP" or kept["crv"] != "Ed25519" or not isinstance(kept["x"], str):
            raise Malformed("this is no public Ed25519 key")
        try:
            key = OKPAlgorithm.from_jwk(kept)
        except (InvalidKeyError, ValueError) as error:
            raise Malformed(f"this is no public Ed25519 key: {error}") from error
        found = _public(key)
        if told.get("kid") != found.kid:
            raise Malformed(f"the key {found.kid} comes under another name")
        return found


class SigningKey:
    """A private key. It is in its file and in memory, and nowhere else: it has no text form."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = _public(key.public_key())

    @classmethod
    def load_or_make(cls, path: Path, *, key: str) -> SigningKey:
        """Return the key in ``path``; make it at first need, with nobody else able to read it. ``key`` names it in faults.

        Raises:
            ConfigError: others may read the file, or it holds no Ed25519 key.
            OSError: it cannot be made or read.
        """
        return cls(_parsed(private_file.read_or_make(path, _new_pem, key=key), path, key))

    @classmethod
    def load(cls, path: Path, *, key: str) -> SigningKey:
        """Return the key in ``path``. Raises as :meth:`load_or_make`."""
        return cls(_parsed(private_file.read(path, key=key), path, key))

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a token that says ``claims``."""
        import jwt

        return jwt.encode(dict(claims), self._key, algorithm=_ALGORITHM, headers={"kid": self.public.kid})


def kid_of(token: str) -> str:
    """Return the name of the key a token says it is signed with. Nothing of it is verified.

    Raises:
        BadToken: it is no token, or not signed with Ed25519.
    """
    import jwt

    if len(token.encode("utf-8", "surrogateescape")) > MOST_BYTES:
        raise BadToken(f"this is too long to be a session token: {MOST_BYTES:,} bytes are the most", "form")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        raise BadToken("this is not a session token", "form") from error
    if header.get("alg") != _ALGORITHM:
        raise BadToken(f"this token is not signed with {_ALGORITHM}, which alone is taken", "algorithm")
    kid = header.get("kid")
    if not isinstance(kid, str) or not kid:
        raise BadToken("this token does not say which key it is signed with", "key")
    return kid


def verified_claims(token: str, key: PublicKey) -> dict[str, Any]:
    """Return what a token says, once its signature was verified with ``key``. Times, audience and issuer are the caller's.

    Raises:
        BadToken: it is no token, or was not signed with this key.
    """
    import jwt

    kid_of(token)
    try:
        said: dict[str, Any] = jwt.decode(token, key.key, algorithms=[_ALGORITHM], options=_SIGNATURE_ONLY)
    except jwt.InvalidSignatureError as error:
        raise BadToken("this token was altered, or signed by somebody else", "signature") from error
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        raise BadToken("this is not a session token", "form") from error
    return said


def unverified_claims(token: str) -> dict[str, Any]:
    """Return what a text says that may be a token, to be shown: nothing of it may be believed.

    Raises:
        BadToken: it is no token.
    """
    import jwt

    if len(token.encode("utf-8", "surrogateescape")) > MOST_BYTES:
        raise BadToken(f"this is too long to be a session token: {MOST_BYTES:,} bytes are the most", "form")
    try:
        said: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        raise BadToken("this is not a session token", "form") from error
    return said


# PyJWT compares times with the system's clock, which here may be wrong; and it takes claims that are missing.
_SIGNATURE_ONLY: Any = {
    f"verify_{what}": what == "signature" for what in ("signature", "exp", "nbf", "iat", "aud", "iss", "sub", "jti")
}


def _new_pem() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _parsed(pem: bytes, path: Path, key: str) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        parsed = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        parsed = None
    if not isinstance(parsed, Ed25519PrivateKey):
        cure = "Delete the file: a new key is made at the next need, and tokens signed with the old one are refused from then on."
        raise ConfigError("holds no Ed25519 private key", file=str(path), key=key, cure=cure)
    return parsed


def _public(key: Any) -> PublicKey:
    # RFC 7638, section 3: the required members in the order of their names, no spaces, SHA-256.
    needed = json.dumps(_jwk_of(key), sort_keys=True, separators=(",", ":")).encode()
    return PublicKey(urlsafe_b64encode(hashlib.sha256(needed).digest()).rstrip(b"=").decode("ascii"), key)


def _jwk_of(key: Ed25519PublicKey) -> dict[str, str]:
    from jwt.algorithms import OKPAlgorithm

    told = OKPAlgorithm.to_jwk(key, as_dict=True)
    return {name: str(told[name]) for name in ("crv", "kty", "x")}
