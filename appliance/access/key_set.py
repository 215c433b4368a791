"""The coordinator's public keys as they were heard last, in a file: with them its tokens verify while it is away."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.contracts.errors import Malformed
from appliance.contracts.session_token import is_name
from appliance.foundation import private_file

if TYPE_CHECKING:
    from appliance.foundation.signed_tokens import PublicKey

log = logging.getLogger(__name__)

_MOST_KEYS = 16  # a replaced key and its successor are two; more than this is no coordinator of ours
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by their ``kid``, and the name of the fleet they speak for."""

    fleet: str
    keys: Mapping[str, PublicKey]


class KeyCache:
    """The file. It belongs to one coordinator: with another address in the settings it counts as empty."""

    def __init__(self, path: Path, coordinator: str) -> None:
        self._path = path
        self._coordinator = coordinator
        self._kept: KeySet | None = None
        self._is_loaded = False
        self._lock = threading.Lock()  # tokens are verified, and keys are heard of, on threads beside the event loop

    def keys(self) -> KeySet | None:
        """Return what was heard last, None when nothing ever was. A file that cannot be used is named in the log, once."""
        with self._lock:
            return self._last()

    def replace(self, told: Mapping[str, Any]) -> bool:
        """Keep a set that the coordinator told, on disk before it is used; return whether it is another one than before.

        Raises:
            Malformed: it is no set of keys; the last one stays.
            OSError: it cannot be written; the last one stays.
        """
        heard = _read(told)
        keys = [key.to_jwk() for key in heard.keys.values()]
        document = {"coordinator": self._coordinator, "fleet": heard.fleet, "keys": keys}
        with self._lock:
            if heard == self._last():
                return False
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_file.replace(self._path, json.dumps(document, indent=2).encode())
            self._kept = heard
        return True

    def _last(self) -> KeySet | None:
        if not self._is_loaded:
            self._is_loaded = True
            self._kept = self._load()
        return self._kept

    def _load(self) -> KeySet | None:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("key_set.unreadable", extra={"file": str(self._path), "why": error.strerror})
            return None
        try:
            told = json.loads(content[:_MOST_BYTES])
            if not isinstance(told, dict):
                raise Malformed("it is no JSON object")
            return _read(told) if told.get("coordinator") == self._coordinator else None
        except (ValueError, RecursionError, Malformed) as error:
            log.warning("key_set.unreadable", extra={"file": str(self._path), "why": str(error)})
            return None


def _read(told: Mapping[str, Any]) -> KeySet:
    """Read what ``GET /v1/keys`` answers: a JWK set (RFC 7517, section 5) with the fleet's name beside it."""
    from appliance.foundation.signed_tokens import PublicKey

    fleet, listed = told.get("fleet"), told.get("keys")
    if not isinstance(fleet, str) or not is_name(fleet):
        raise Malformed("the key set does not name its fleet")
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_KEYS:
        raise Malformed(f"the key set does not have one to {_MOST_KEYS} keys")
    if not all(isinstance(each, dict) for each in listed):
        raise Malformed("the key set holds something that is no key")
    return KeySet(fleet, {key.kid: key for key in map(PublicKey.from_jwk, listed)})
