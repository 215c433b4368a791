"""Who asks for something, and how that is known: what every access check and every record of a write names (T3, X5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any


class AccessLevel(IntEnum):
    """What may be called; each level includes those below it."""

    PUBLIC = 0
    INTERNAL = 1
    OPERATOR = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        """Its name as configuration and tokens spell it."""
        return self.name.lower()

    @staticmethod
    def of_word(word: str) -> AccessLevel:
        """Return the level of a name. Raises KeyError: there is none."""
        return AccessLevel[word.upper()]


class Identification(StrEnum):
    """How it is known who asks. A voice is heard by whoever stands there: it identifies nobody (X5)."""

    VOICE = "voice"
    SOCKET = "socket"  # may open the local API on this machine; the name is as given
    TOKEN = "token"  # a session token that verified
    NOBODY = "nobody"  # an alarm, a schedule, the coordinator


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``by`` is a name for records and people, empty for nobody; ``role`` is one of the site's policies."""

    by: str
    identified: Identification
    role: str
    level: AccessLevel
    token_id: str = ""

    @property
    def is_person(self) -> bool:
        """Whether a person asked, known or not."""
        return self.identified is not Identification.NOBODY

    def to_json(self) -> dict[str, Any]:
        """Return the form in admissions, turns and records."""
        return {
            "by": self.by,
            "identified": str(self.identified),
            "role": self.role,
            "level": self.level.word,
            "token_id": self.token_id,
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Principal:
        """Rebuild one from :meth:`to_json`."""
        level = AccessLevel.of_word(str(told["level"]))
        return Principal(told["by"], Identification(told["identified"]), told["role"], level, told.get("token_id", ""))


NOBODY = Principal("", Identification.NOBODY, "", AccessLevel.OPERATOR)
"""No person: the work of alarms. It may do what an operator may, but what wants a person's yes waits for one."""

PRINCIPAL = "principal"
"""Member of an admission's payload and of a turn's context."""
UNATTENDED = "unattended"
"""Member of both: true when nobody is there to be asked (a schedule, the coordinator)."""


def without_principal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was asked, without who did: a request sent again is the same one, with a token renewed meanwhile as well."""
    return {name: value for name, value in content.items() if name != PRINCIPAL}


def principal_of(context: Mapping[str, Any]) -> Principal:
    """Return who a payload or a turn's context says asked; :data:`NOBODY` when it names no one."""
    told = context.get(PRINCIPAL)
    return NOBODY if told is None else Principal.from_json(told)


def asker_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a turn's context takes over from an admission's payload of who asks, and whether anybody is there."""
    return {name: payload[name] for name in (PRINCIPAL, UNATTENDED) if name in payload}
