"""Who may do what on this site: names of roles, the level each has, and which role is whose when nobody shows a token."""

from __future__ import annotations

import difflib
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from appliance.contracts.principal import AccessLevel, Identification, Principal

RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
LevelWord = Literal["public", "internal", "operator", "critical"]

_MOST_ROLES = 32
_ROLES: dict[str, LevelWord] = {"visitor": "public", "staff": "internal", "operator": "operator", "engineer": "critical"}


class AccessSettings(BaseModel):
    """What ``policies.yaml`` may say under ``access``. A token names a role; what that may do is said here, and nowhere else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    roles: dict[RoleName, LevelWord] = Field(
        default_factory=lambda: dict(_ROLES),
        min_length=1,
        max_length=_MOST_ROLES,
        description="role -> what it may call: public, internal, operator or critical, each with all before it",
    )
    voice: str = Field(default="operator", description="role of whoever speaks: a voice identifies nobody; one of roles")
    console: str = Field(default="operator", description="role of whoever types on this machine without a token; one of roles")

    @model_validator(mode="after")
    def _names_its_roles(self) -> Self:
        faults = [
            f"{key}: there is no role {role!r}. {self.nearest_role(role)}"
            for key, role in (("voice", self.voice), ("console", self.console))
            if role not in self.roles
        ]
        if faults:
            raise ValueError(" ".join(faults))
        return self

    def level_of(self, role: str) -> AccessLevel | None:
        """Return the level of a role, None when this site has none of that name."""
        word = self.roles.get(role)
        return None if word is None else AccessLevel.of_word(word)

    def nearest_role(self, written: str) -> str:
        """Say which role was probably meant, or which there are."""
        if close := difflib.get_close_matches(written, self.roles, n=1):
            return f"Did you mean {close[0]!r}?"
        return f"Roles here: {', '.join(sorted(self.roles))}."

    def who_speaks(self) -> Principal:
        """Return whoever speaks."""
        return Principal("voice", Identification.VOICE, self.voice, AccessLevel.of_word(self.roles[self.voice]))

    def who_types(self) -> Principal:
        """Return whoever types on this machine without a token; the door puts the name in that was given."""
        return Principal("console", Identification.SOCKET, self.console, AccessLevel.of_word(self.roles[self.console]))
