"""What a session token says, on the side that makes one and the side that takes it (RFC 7519).

It names a person and a role. What a role may do is each site's own word: a token cannot name a level.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from appliance.contracts.errors import Malformed

LONGEST_S = 7 * 24 * 3600
"""Longest life of a token. An appliance whose clock is wrong may take one for longer than it was meant: not for much longer."""

MOST_HOURS = 24.0
"""Longest life of a token that a device signs: whoever needs one for longer has the coordinator's administrator."""

FEWEST_HOURS = 1 / 60
"""Shortest: one that has ended before it can be shown helps nobody."""

LIFE_HERE = f"a token that is made here lasts at least a minute and at most {MOST_HOURS:g} hours"
"""What is said of another."""

COORDINATOR = "coordinator"
"""Issuer of what a coordinator signs."""

_DEVICE, _FLEET = "device:", "fleet:"  # no device has a colon in its name

Role = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$", description="one of the roles in the site's policies")]
Person = Annotated[str, Field(min_length=1, max_length=100, description="who shows the token, as in records")]
_Moment = Annotated[int, Field(ge=0, le=32_503_680_000)]  # s since 1970, to the year 3000: a datetime can hold it


def issuer_of_device(device: str) -> str:
    """Return the issuer of what a device signs."""
    return f"{_DEVICE}{device}"


def audience_of_fleet(fleet: str) -> str:
    """Return the audience of a token that every device of a fleet takes."""
    return f"{_FLEET}{fleet}"


def shown_audience(audience: str) -> str:
    """Return an audience as people say it."""
    return f"the fleet {audience.removeprefix(_FLEET)}" if audience.startswith(_FLEET) else audience


def is_name(text: str) -> bool:
    """Whether a text can stand for a person or a thing in records and on a screen: it can be shown, and holds more than space."""
    return not why_no_name(text)


def why_no_name(text: str) -> str:
    """Return why a text is no such name, to go on with after its kind ("the name ..."); empty when it is one."""
    if not text.isprintable():
        return "has characters that cannot be shown"
    if not text.strip():
        return "is empty"
    return "" if text == text.strip() else "begins or ends with a space"


class TokenClaims(BaseModel):
    """The claims that are used, all of them needed; others are not looked at. Times are whole seconds since 1970, UTC."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    sub: Person
    role: Role
    aud: Annotated[str, Field(min_length=1, max_length=100)]
    iss: Annotated[str, Field(min_length=1, max_length=100)]
    iat: _Moment
    nbf: _Moment
    exp: _Moment
    jti: Annotated[str, Field(min_length=1, max_length=64)]

    @field_validator("sub", "aud", "iss", "jti")
    @classmethod
    def _can_be_shown(cls, text: str) -> str:
        if why := why_no_name(text):
            raise ValueError(why)
        return text

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if not self.iat < self.exp:
            raise ValueError("it ends before it has begun")
        if self.exp > self.iat + LONGEST_S:
            raise ValueError(f"its end is not within {LONGEST_S // 86_400} days of its making")
        return self

    @classmethod
    def lasting(cls, hours: float, now: datetime, *, sub: str, role: str, aud: str, iss: str, jti: str) -> Self:
        """Return the claims of a token made now.

        Raises:
            Malformed: a name is none, or the time is not above nothing and within a week.
        """
        iat = int(now.timestamp())
        times = {"iat": iat, "nbf": iat, "exp": iat + round(hours * 3600)}
        return cls.read({"sub": sub, "role": role, "aud": aud, "iss": iss, "jti": jti, **times})

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Self:
        """Read what a token says.

        Raises:
            Malformed: something is missing or not of its kind; the message names it.
        """
        try:
            return cls.model_validate(dict(said))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            told = first["msg"].removeprefix("Value error, ")
            where = ".".join(map(str, first["loc"]))
            raise Malformed(f"{where}: {told[:1].lower()}{told[1:]}" if where else told) from error

    @property
    def ends_utc(self) -> datetime:
        """When it ends."""
        return moment_of(self.exp)


def moment_of(seconds: int) -> datetime:
    """Return a claim's time."""
    return datetime.fromtimestamp(seconds, UTC)
