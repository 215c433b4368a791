"""What may be done about tokens on this machine: make, look at, revoke."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

from appliance.access.keys import KeyRing
from appliance.access.settings import AccessSettings
from appliance.access.token_clock import TokenClock
from appliance.access.verifier import TokenVerifier
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Malformed, NotPermitted, Unidentified
from appliance.contracts.principal import AccessLevel
from appliance.contracts.session_token import FEWEST_HOURS, LIFE_HERE, MOST_HOURS, TokenClaims, issuer_of_device
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.token_acts import Facts, Verified
from appliance.foundation.untrusted import clean
from appliance.store import audit, revoked_tokens

log = logging.getLogger(__name__)

_FORM_OF_ID = re.compile(r"tok_[0-9a-f]{4,60}")
_LONGEST_SHOWN = 100  # characters of a claim nobody has verified
_MADE_IN_DOUBT = "nothing sets the clock: where it is right, this token may count as ended, or not begun"


class Tokens:
    """The device's desk for tokens. Implements :class:`appliance.contracts.token_acts.TokenActs`."""

    def __init__(self, settings: AccessSettings, keys: KeyRing, ledger: Ledger, clock: Clock, ids: IdSource) -> None:
        self._settings = settings
        self._keys = keys
        self._time = TokenClock(ledger, clock)
        self._verifier = TokenVerifier(settings, keys, self._time, ledger)
        self._ledger = ledger
        self._clock = clock
        self._ids = ids

    async def verify(self, token: str) -> Verified:
        """See :meth:`appliance.contracts.token_acts.TokenActs.verify`."""
        return await self._verifier.verify(token)

    async def make(self, person: str, role: str, hours: float, *, by: str, user: str, owns_key: bool) -> Facts:
        """See :meth:`appliance.contracts.token_acts.TokenActs.make`. Appends ``audit.token_made`` before the token is given out.

        Raises:
            NotPermitted: there is no such role, or the asker may not make such a token.
            Malformed: the person's name is none, or the time is.
            ConfigError: the file of the key cannot be trusted.
            Unavailable: the key cannot be had.
        """
        level = self._settings.level_of(role)
        if level is None:
            raise NotPermitted(f"this site has no role {role!r}", reason="role", cure=self._settings.nearest_role(role))
        if not owns_key:
            self._require_own(person, role, level, user)
        if not FEWEST_HOURS <= hours <= MOST_HOURS:
            raise Malformed(LIFE_HERE, hours=hours)
        time = await self._time.read()  # of those that will be asked whether it has ended
        claims = TokenClaims.lasting(
            hours,
            time.now_utc,
            sub=person,
            role=role,
            aud=self._keys.device,
            iss=issuer_of_device(self._keys.device),
            jti=self._ids.mint("tok"),
        )
        key = await asyncio.to_thread(self._keys.signing_key)
        token = key.sign(claims.model_dump())
        facts = {"by": by, "user": user, "person": person, "role": role, "ends": claims.ends_utc.isoformat()}
        await self._ledger.transaction(lambda tx: audit.note(tx, self._clock, "token_made", claims.jti, facts))
        return {
            "token": token,
            "id": claims.jti,
            "person": person,
            "role": role,
            "level": level.word,
            "for": claims.aud,
            "ends_utc": claims.ends_utc.isoformat(),
            "limit": "" if time.is_sure else _MADE_IN_DOUBT,
        }

    def _require_own(self, person: str, role: str, level: AccessLevel, user: str) -> None:
        """Raises NotPermitted: it would say somebody else, or more, than the machine knows of who asks."""
        cure = "Ask as root (sudo) or as the service's own user, or have the coordinator's administrator make it."
        if person != user:
            message = f"who types here makes tokens in their own name, and this machine knows you as {user or 'nobody'}"
            raise NotPermitted(message, reason="person", cure=cure)
        if level > (own := self._settings.who_types().level):
            message = f"a token of {role} may do what is {level.word}, and who types here may do no more than what is {own.word}"
            raise NotPermitted(message, reason="level", cure=cure)

    async def look(self, token: str) -> Facts:
        """See :meth:`appliance.contracts.token_acts.TokenActs.look`.

        Raises:
            Malformed: it is no token at all.
        """
        from appliance.foundation.signed_tokens import unverified_claims

        said = _shown(unverified_claims(token))
        try:
            found = await self.verify(token)
        except (Unidentified, NotPermitted) as refusal:
            no = {"verifies": False, "why": refusal.message, "cure": refusal.cure}
            return no | {"reason": refusal.facts.get("reason", ""), "level": None, "limit": "", "says": said}
        yes = {"verifies": True, "why": "", "cure": "", "reason": ""}
        return yes | {"level": found.principal.level.word, "limit": found.limit, "says": said}

    async def revoke(self, token_id: str, *, by: str, note: str) -> Facts:
        """See :meth:`appliance.contracts.token_acts.TokenActs.revoke`.

        Raises:
            Malformed: that is no token's id.
        """
        if not _FORM_OF_ID.fullmatch(token_id):
            cure = "`floorhand token show FILE` tells a token's id, and `floorhand audit list` those that were made here."
            raise Malformed("that is no token's id: one is tok_ and hexadecimal digits", cure=cure)

        def work(tx: Transaction) -> Mapping[str, Any]:
            return revoked_tokens.revoke(tx, self._clock, token_id, by=by, note=note)

        revoked = await self._ledger.transaction(work)
        log.warning("token.revoked", extra={"token": token_id})
        return {**revoked, "made_here": await revoked_tokens.was_made_here(self._ledger, token_id)}


def _shown(said: Mapping[str, Any]) -> dict[str, str]:
    """Return claims nobody has verified so that they can be put on a screen: they may hold anything."""
    return {name: clean(str(said[name]), _LONGEST_SHOWN) for name in TokenClaims.model_fields if name in said}
