"""Which keys are known here, and whose: this device's own, and those of its coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.access.key_set import KeyCache
from appliance.contracts.errors import ConfigError, Unavailable, Unidentified
from appliance.contracts.session_token import COORDINATOR, audience_of_fleet, issuer_of_device

if TYPE_CHECKING:
    from appliance.foundation.signed_tokens import PublicKey, SigningKey

KEYS_FOLDER = "keys"
"""Below the data folder; only the service's own user may look into it."""

_OWN_FILE, _COORDINATOR_FILE = "session-tokens.pem", "coordinator.json"
_NAME = "keys"
_ANEW = "If somebody may have read it, delete it: a new key is made with the next token, and those of the old one are refused."


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A public key, who signs with it, and for whom such a token may be."""

    key: PublicKey
    issuer: str
    audiences: frozenset[str]


def own_key_file(data_dir: Path) -> Path:
    """Return the file of the key with which this device signs tokens, made at first need."""
    return data_dir / KEYS_FOLDER / _OWN_FILE


class KeyRing:
    """The keys of one device."""

    def __init__(self, data_dir: Path, device: str, coordinator: str = "") -> None:
        """``coordinator`` is its address, empty without one: then no key but the device's own is known."""
        self.device = device
        self._own = own_key_file(data_dir)
        self.of_coordinator = KeyCache(data_dir / KEYS_FOLDER / _COORDINATOR_FILE, coordinator) if coordinator else None

    def find(self, kid: str) -> KnownKey | None:
        """Return the key of this name, None when it is not known here.

        The file of the own key is looked at each time: once others can read it, anybody may sign with what is in it.

        Raises:
            Unidentified: it would be the device's own, and that cannot be trusted any more.
        """
        heard = self.of_coordinator.keys() if self.of_coordinator is not None else None
        if heard is not None and kid in heard.keys:
            return KnownKey(heard.keys[kid], COORDINATOR, frozenset({self.device, audience_of_fleet(heard.fleet)}))
        own = self._load_own()
        if own is None or own.public.kid != kid:
            return None
        return KnownKey(own.public, issuer_of_device(self.device), frozenset({self.device}))

    def signing_key(self) -> SigningKey:
        """Return the device's own key, made at the first need.

        Raises:
            ConfigError: its file can be read by others, or holds no key.
            Unavailable: it cannot be read or made.
        """
        from appliance.foundation.signed_tokens import SigningKey

        try:
            return SigningKey.load_or_make(self._own, key=_NAME)
        except OSError as error:
            raise Unavailable(f"the key {self._own} cannot be had: {error.strerror}", retry_after_s=30.0) from error

    def _load_own(self) -> SigningKey | None:
        from appliance.foundation.signed_tokens import SigningKey

        try:
            return SigningKey.load(self._own, key=_NAME)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"the key {self._own} cannot be read: {error.strerror}", retry_after_s=30.0) from error
        except ConfigError as error:
            message = f"no token that {self.device} signed is taken: the file of its key cannot be trusted"
            raise Unidentified(message, reason="key_file", cure=f"{error.message}. {_ANEW}") from error
