"""Session tokens for people: made by the administrator, verified by appliances without asking anybody."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Self

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from appliance.contracts.session_token import LONGEST_S, Person, Role, audience_of_fleet, why_no_name
from appliance.coordinator.desk import Admin, OnDesk
from appliance.coordinator.errors import NotFound
from appliance.coordinator.store import devices

log = logging.getLogger(__name__)

router = APIRouter(prefix="/v1")

_CACHED_S = 3600  # an appliance asks twice a day; what stands in between may answer for an hour
_LONGEST_H = LONGEST_S / 3600
_USUAL_H = 8.0  # a shift


class NewSessionToken(BaseModel):
    """A token to be made: for one device, or with ``fleet`` for all of them."""

    model_config = ConfigDict(extra="forbid")

    person: Person
    role: Role
    device: Annotated[str, Field(max_length=63)] | None = None
    fleet: bool = False
    hours: Annotated[float, Field(gt=0, le=_LONGEST_H, allow_inf_nan=False)] = _USUAL_H

    @model_validator(mode="after")
    def _is_for_somebody(self) -> Self:
        if why := why_no_name(self.person):
            raise ValueError(f"the person's name {why}")
        if (self.device is None) != self.fleet:
            raise ValueError('name the one device it is for, or say "fleet": true for all of them')
        return self


@router.get("/keys")
def keys(desk: OnDesk, response: Response) -> dict[str, Any]:
    """Return the public keys that session tokens verify with. Needs no token: there is nothing secret in them."""
    response.headers["Cache-Control"] = f"public, max-age={_CACHED_S}"
    return desk.signer.key_set()


@router.post("/session-tokens", status_code=201)
def make(desk: OnDesk, _: Admin, wanted: NewSessionToken) -> dict[str, Any]:
    """Make a token and show it, this once. It cannot be taken back here: `floorhand token revoke` at each appliance can."""
    if wanted.device is None:
        audience = audience_of_fleet(desk.signer.fleet)
    else:
        audience = wanted.device
        with desk.store.read() as tx:
            is_known = devices.is_enrolled(tx, wanted.device)
        if not is_known:
            raise NotFound(f"there is no device {wanted.device}")
    token, claims = desk.signer.sign(
        wanted.person, wanted.role, audience, wanted.hours, now=desk.clock.utc(), token_id=desk.ids.mint("tok")
    )
    told = {"id": claims.jti, "person": claims.sub, "role": claims.role, "for": audience, "ends_utc": claims.ends_utc.isoformat()}
    log.info(
        "session_token.made", extra={"token": claims.jti, "role": claims.role, "audience": audience, "ends": told["ends_utc"]}
    )
    return told | {"token": token}
