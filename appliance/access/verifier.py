"""Reads a session token, with no network: is it genuine, is it for here, has it ended, and what may who shows it call.

In: the text of a token. Out: a principal. Each way a token can fail has a sentence of its own, with what to do about it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from appliance.access.keys import KeyRing, KnownKey
from appliance.access.settings import AccessSettings
from appliance.access.token_clock import TokenClock, TokenTime
from appliance.contracts.errors import Malformed, NotPermitted, Unidentified
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.contracts.session_token import TokenClaims, moment_of, shown_audience
from appliance.contracts.store import Ledger
from appliance.contracts.token_acts import Verified
from appliance.store import revoked_tokens

log = logging.getLogger(__name__)

_AHEAD = timedelta(seconds=60)  # two clocks that are both right differ by less
_MOST_IN_DOUBT = AccessLevel.OPERATOR

_GIVE_A_TOKEN = "Give the text that `floorhand token make` or the coordinator's administrator gave out, whole and unchanged."
_LEARN_KEYS = (
    "A token made here before its key was deleted has to be made anew. One of the coordinator is taken once this appliance has"
    " reached it and heard its keys: `floorhand status` says whether it does."
)
_SET_THE_CLOCK = "Nothing sets this appliance's clock, so the time may be wrong: `floorhand doctor` says why."
IN_DOUBT = (
    "nothing sets the clock, so nobody can tell whether the token has ended:"
    f" until something does, it gives no more than {_MOST_IN_DOUBT.word}"
)
"""Why a token gives less than its role does."""


class TokenVerifier:
    """Verifies tokens."""

    def __init__(self, settings: AccessSettings, keys: KeyRing, clock: TokenClock, ledger: Ledger) -> None:
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._ledger = ledger

    async def verify(self, token: str) -> Verified:
        """Return who asks.

        While nothing disciplines the clock a token gives at most OPERATOR: what is CRITICAL needs a time known to be right.

        Raises:
            Unidentified: no token, not genuine, ended, not begun or revoked.
            NotPermitted: for another device, or of a role that this site does not have.
        """
        try:
            return await self._verify(token)
        except (Unidentified, NotPermitted) as refusal:
            log.warning("token.refused", extra={"reason": refusal.facts.get("reason", "")})
            raise

    async def _verify(self, token: str) -> Verified:
        known, claims = await asyncio.to_thread(self._genuine, token)  # its first call loads the library, which takes a while
        self._require_for_here(claims, known)
        time = await self._clock.read()
        try:
            _require_current(claims, time)
        except Unidentified:
            await self._clock.ended(claims.ends_utc, time)
            raise
        revoked = await revoked_tokens.revocation_of(self._ledger, claims.jti)
        if revoked is not None:
            by, when = revoked["revoked_by"], _said(datetime.fromisoformat(revoked["revoked_utc"]))
            raise Unidentified(f"this token was revoked by {by} at {when}", reason="revoked", token=claims.jti)
        role_level = self._level_of(claims)
        await self._clock.took(moment_of(claims.iat), time)
        level = role_level if time.is_sure else min(role_level, _MOST_IN_DOUBT)
        who = Principal(claims.sub, Identification.TOKEN, claims.role, level, claims.jti)
        return Verified(who, claims.iss, claims.ends_utc, IN_DOUBT if level < role_level else "")

    def _genuine(self, token: str) -> tuple[KnownKey, TokenClaims]:
        from appliance.foundation import signed_tokens

        try:
            known = self._keys.find(signed_tokens.kid_of(token))
            if known is None:
                raise Unidentified("this token is signed with a key that is not known here", reason="key", cure=_LEARN_KEYS)
            said = signed_tokens.verified_claims(token, known.key)
        except signed_tokens.BadToken as bad:
            raise Unidentified(bad.message, reason=bad.reason, cure=_GIVE_A_TOKEN) from bad
        try:
            claims = TokenClaims.read(said)
        except Malformed as malformed:
            message = f"this token does not say what a session token has to: {malformed.message}"
            raise Unidentified(message, reason="claims") from malformed
        if claims.iss != known.issuer:
            message = f"this token says it is from {claims.iss}, but the key is that of {known.issuer}"
            raise Unidentified(message, reason="issuer")
        return known, claims

    def _require_for_here(self, claims: TokenClaims, known: KnownKey) -> None:
        if claims.aud not in known.audiences:
            message = f"this token is for {shown_audience(claims.aud)}, and this is {self._keys.device}"
            raise NotPermitted(message, reason="audience", cure=f"Have one made for {self._keys.device}.")

    def _level_of(self, claims: TokenClaims) -> AccessLevel:
        level = self._settings.level_of(claims.role)
        if level is None:
            roles = ", ".join(sorted(self._settings.roles))
            cure = f"Have one made for a role of this site ({roles}), or name the role under access.roles in policies.yaml."
            message = f"this token is for the role {claims.role}, which this site does not have"
            raise NotPermitted(message, reason="role", cure=cure)
        return level


def _require_current(claims: TokenClaims, time: TokenTime) -> None:
    """Raises Unidentified: it has ended, or has not begun. The signer's clock is believed where ours is not known to be right."""
    made_utc, begins_utc = moment_of(claims.iat), moment_of(claims.nbf)
    doubt = {} if time.is_sure else {"cure": f"Have a new token made. {_SET_THE_CLOCK}"}
    now_utc = time.now_utc if time.is_sure else max(time.now_utc, made_utc)
    if now_utc >= claims.ends_utc:
        message = f"this token ended at {_said(claims.ends_utc)}; here it is {_said(now_utc)}"
        raise Unidentified(message, reason="expired", token=claims.jti, **doubt)
    if made_utc > now_utc + _AHEAD:
        message = f"this token was made at {_said(made_utc)}, which is yet to come: here it is {_said(now_utc)}"
        raise Unidentified(message, reason="made_ahead", cure="Set the clock of whoever made it, and have a new one made.")
    if begins_utc > now_utc + _AHEAD:
        raise Unidentified(f"this token begins at {_said(begins_utc)}; here it is {_said(now_utc)}", reason="not_begun")


def _said(utc: datetime) -> str:
    return f"{utc:%Y-%m-%d %H:%M} UTC"
