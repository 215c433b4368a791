"""The addresses about session tokens, and whose token came with a request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from pydantic import Field

from appliance.console.bodies import Body, Said
from appliance.console.peer import peer_of
from appliance.contracts.errors import Unidentified
from appliance.contracts.session_token import Person, Role
from appliance.contracts.token_acts import TokenActs, Verified

_LONGEST = 8192  # characters; what is longer than a token is refused with its own sentence up to here


class Wanted(Said):
    """A token to be made."""

    person: Person
    role: Role
    hours: float = Field(gt=0, allow_inf_nan=False)


class Shown(Body):
    """A token to be looked at."""

    token: str = Field(min_length=1, max_length=_LONGEST)


class Revoked(Said):
    """A token to be ended, by its id."""

    id: str = Field(min_length=1, max_length=100)
    note: str = Field(default="", max_length=2000)


def add_tokens(api: FastAPI, acts: TokenActs) -> None:
    """Add the addresses to ``api``."""

    @api.post("/v1/tokens")
    async def make(wanted: Wanted, request: Request) -> Mapping[str, Any]:
        peer = await asyncio.to_thread(peer_of, request)
        return await acts.make(wanted.person, wanted.role, wanted.hours, by=wanted.by, user=peer.user, owns_key=peer.owns_secrets)

    @api.post("/v1/tokens/look")
    async def look(shown: Shown) -> Mapping[str, Any]:
        return await acts.look(shown.token)

    @api.post("/v1/tokens/revoke")
    async def revoke(revoked: Revoked) -> Mapping[str, Any]:
        return await acts.revoke(revoked.id, by=revoked.by, note=revoked.note)


async def holder_of(request: Request, acts: TokenActs | None) -> Verified | None:
    """Return whose token a request brings, None when it brings none: then it is the socket's.

    A token that is not taken ends the request. It never counts as none, for whoever shows one means to be known by it.

    Raises:
        Unidentified: it brings something else, or a token that is not taken.
        NotPermitted: the token is for another device or for a role that is not here.
    """
    shown = request.headers.getlist("authorization")
    if not shown:
        return None
    scheme, _, token = shown[0].strip().partition(" ")
    if len(shown) > 1 or scheme.lower() != "bearer" or not token.strip():
        message = "what the request brings to say who asks is no session token"
        raise Unidentified(message, reason="form", cure="Send one header `Authorization: Bearer TOKEN`, or none.")
    if acts is None:
        raise Unidentified("no tokens are taken here", reason="none", cure="Ask without one.")
    return await acts.verify(token.strip())
