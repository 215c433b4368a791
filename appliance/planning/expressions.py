"""What can be said, as small immutable expressions: counted, numbered, and written as JSGF.

``Word`` is one spoken word, ``Sequence`` follows its parts, ``Choice`` takes one option, ``Use`` refers to a rule or a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Word:
    """One terminal, lower case."""

    text: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """All parts, in order."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the options."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A rule of that name; in a template ``is_list`` marks a slot list that is still to be filled."""

    name: str
    is_list: bool = False


Expression: TypeAlias = Word | Sequence | Choice | Use

EMPTY = Sequence(())
"""Says nothing, which is always possible."""
NOTHING = Choice(())
"""Cannot be said at all: what contains it vanishes."""


def sequence(*parts: Expression) -> Expression:
    """Join parts: flat, without empty ones; impossible as soon as one part is."""
    flat: list[Expression] = []
    for part in parts:
        if part == NOTHING:
            return NOTHING
        flat += part.parts if isinstance(part, Sequence) else (part,)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def choice(*options: Expression) -> Expression:
    """Offer options: flat, each once, without impossible ones."""
    flat: dict[Expression, None] = {}
    for option in options:
        flat |= dict.fromkeys(option.options if isinstance(option, Choice) else (option,))
    flat.pop(NOTHING, None)
    return next(iter(flat)) if len(flat) == 1 else Choice(tuple(flat))


def optional(part: Expression) -> Expression:
    """``part`` or nothing."""
    return EMPTY if part == NOTHING else choice(part, EMPTY)


def words(text: str) -> Expression:
    """A sequence of the words of ``text``, lower case."""
    return sequence(*(Word(word) for word in text.lower().split()))


@dataclass(slots=True)
class Rules:
    """Named expressions. Counts sentences without making them and makes any one by its number."""

    bodies: dict[str, Expression] = field(default_factory=dict)
    _counts: dict[Expression, int] = field(default_factory=dict)

    def define(self, name: str, body: Expression) -> Expression:
        """Name ``body`` and return a use of it; what cannot be said gets no name."""
        if body == NOTHING:
            return NOTHING
        self.bodies[name] = body
        return Use(name)

    def count(self, expression: Expression) -> int:
        """Return how many ways there are to say it."""
        known = self._counts.get(expression)
        if known is None:
            match expression:
                case Word():
                    known = 1
                case Sequence(parts):
                    known = 1
                    for part in parts:
                        known *= self.count(part)
                case Choice(options):
                    known = sum(self.count(option) for option in options)
                case Use(name):
                    known = self.count(self.bodies[name])
            self._counts[expression] = known
        return known

    def nth(self, expression: Expression, number: int) -> list[str]:
        """Return the words of way ``number`` (from 0) to say it; numbers run over every way exactly once."""
        match expression:
            case Word(text):
                return [text]
            case Use(name):
                return self.nth(self.bodies[name], number)
            case Choice(options):
                for option in options:
                    if number < self.count(option):
                        return self.nth(option, number)
                    number -= self.count(option)
                raise IndexError(number)
            case Sequence(parts):
                said: list[str] = []
                for part in parts:
                    number, this = divmod(number, self.count(part))
                    said += self.nth(part, this)
                return said

    def with_word(self, expression: Expression, word: str) -> list[str] | None:
        """Return the words of one way to say it in which ``word`` occurs; None when there is none."""
        match expression:
            case Word(text):
                return [text] if text == word else None
            case Use(name):
                return self.with_word(self.bodies[name], word)
            case Choice(options):
                return next((said for option in options if (said := self.with_word(option, word)) is not None), None)
            case Sequence(parts):
                for n, part in enumerate(parts):
                    if (said := self.with_word(part, word)) is not None:
                        ahead = [w for other in parts[:n] for w in self.nth(other, 0)]
                        return [*ahead, *said, *(w for other in parts[n + 1 :] for w in self.nth(other, 0))]
                return None

    def terminals(self, expression: Expression) -> Iterator[str]:
        """Yield every word that can occur, some more than once."""
        match expression:
            case Word(text):
                yield text
            case Use(name):
                yield from self.terminals(self.bodies[name])
            case Sequence(inner) | Choice(inner):
                for part in inner:
                    yield from self.terminals(part)

    def used_by(self, expression: Expression) -> set[str]:
        """Return the names of all rules that ``expression`` needs."""
        match expression:
            case Word():
                return set()
            case Use(name):
                return {name} | self.used_by(self.bodies[name])
            case Sequence(inner) | Choice(inner):
                return {name for part in inner for name in self.used_by(part)}


def jsgf(name: str, command: Expression, rules: Mapping[str, Expression]) -> str:
    """Return a JSGF V1.0 grammar whose public rule is ``<command>`` (JSpeech Grammar Format, W3C note of 5 June 2000)."""
    lines = ["#JSGF V1.0;", f"grammar {name};", f"public <command> = {_written(command)};"]
    return "\n".join([*lines, *(f"<{rule}> = {_written(body)};" for rule, body in rules.items())]) + "\n"


def _written(expression: Expression, *, inside: bool = False) -> str:
    match expression:
        case Word(text):
            return text
        case Use(name):
            return f"<{name}>"
        case Sequence(parts):
            return " ".join(_written(part, inside=True) for part in parts) or "<NULL>"
        case Choice(options):
            said = [option for option in options if option != EMPTY]
            text = " | ".join(_written(option) for option in said)
            if len(said) < len(options):
                return f"[{text}]"
            return f"({text})" if inside else text
