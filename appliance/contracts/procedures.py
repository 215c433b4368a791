"""Playbooks as whoever does not plan sees them: found, read, and turned into steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from appliance.contracts.plan import Step
from appliance.contracts.principal import AccessLevel


@dataclass(frozen=True, slots=True)
class Procedure:
    """One playbook in one language. ``title`` is what it is called; ``guidance`` is its page for people, ``steps`` are its steps
    in words, ``text`` is what of both is read aloud. ``parameters`` are what has to be known to run it; ``is_for_alarms``: it
    runs only for an alarm, and cannot be asked for. ``example`` is a sentence that asks for it, empty when there is none."""

    name: str
    title: str
    description: str
    level: AccessLevel
    guidance: str
    steps: tuple[str, ...]
    text: str
    parameters: tuple[str, ...]
    is_for_alarms: bool
    example: str


class Procedures(Protocol):
    """All playbooks. One above ``level`` is not there, for whoever asks: neither listed nor found."""

    def listed(self, language: str, level: AccessLevel) -> tuple[Procedure, ...]:
        """Return those that speak a language, by name."""
        ...

    def find(self, name: str, language: str, level: AccessLevel) -> Procedure:
        """Return one.

        Raises:
            Refused: there is none of this name; the message is the sentence to say.
        """
        ...

    def made_of(self, name: str) -> Any:
        """Return all that running one would do, whoever asks, as JSON: its parameters and steps, and those of the playbooks it
        goes on with. None when there is none of this name."""
        ...

    def steps_of(self, name: str, given: Mapping[str, Any], language: str, level: AccessLevel) -> tuple[Step, ...]:
        """Return the steps of one that is asked for with these parameters.

        Raises:
            Refused: there is none, it is only for alarms, it is not for this machine, or something is missing; the message is the
                sentence to say.
            Malformed: it has no such parameter.
        """
        ...
