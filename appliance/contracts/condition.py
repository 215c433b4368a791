"""The condition of a step (``when``), as a small language of its own: read here, judged in execution.

    confirm                        the step was done; of a question: it was answered yes
    not confirm                    it was not done, whatever kept it from that; of a question: it was answered no
    read.value > 80                a field of its result, compared with a number, a "text", true or false
    log.count > 0 and not confirm  all of these; there is no "or": write two steps

Compared is with ``==  !=  <  <=  >  >=``. Text and true or false know only the first two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from appliance.contracts.errors import Malformed

LONGEST = 400
"""Characters of a condition; what is longer is not understood by whoever reads the playbook."""
MOST_TERMS = 8
"""Terms joined by ``and``."""

_STEP = r"[A-Za-z0-9_-]{1,64}"
_DONE = re.compile(rf"(?P<no>not\s+)?(?P<step>{_STEP})")
_COMPARED = re.compile(
    rf"(?P<step>{_STEP})\.(?P<field>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\s*(?P<sign>==|!=|<=|>=|<|>)\s*(?P<operand>\S(?:.*\S)?)",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
_TEXT = re.compile(r"\"([^\"{}]*)\"|'([^'{}]*)'")
_WORDS = {"true": True, "false": False}
_EQUALITY = ("==", "!=")
_AND = re.compile(r"""\s+and\s+(?=(?:[^"']|"[^"]*"|'[^']*')*$)""")

_CURE = "write x, not x, or x.field > 80, joined by `and`"


@dataclass(frozen=True, slots=True)
class Done:
    """``step``, or ``not step`` (``wanted`` False)."""

    step: str
    wanted: bool = True

    def __str__(self) -> str:
        return self.step if self.wanted else f"not {self.step}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A field of a step's result against a constant. ``field`` walks through keys and indexes by dots."""

    step: str
    field: str
    sign: str
    operand: float | int | str | bool

    def __str__(self) -> str:
        return f"{self.step}.{self.field} {self.sign} {_written(self.operand)}"


Term = Done | Compared


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds if every term does. Without terms it always holds."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.terms))

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps it asks about, each once."""
        return tuple(dict.fromkeys(term.step for term in self.terms))

    def renamed(self, names: Mapping[str, str]) -> Condition:
        """Return it with steps called by their new names."""
        return Condition(tuple(replace(term, step=names.get(term.step, term.step)) for term in self.terms))


@lru_cache(maxsize=512)
def condition_of(when: str) -> Condition:
    """Return what ``when`` says; the empty one always holds.

    Raises:
        Malformed: it is no condition; the message says which part and how one is written.
    """
    if not when.strip():
        return Condition(())
    if len(when) > LONGEST:
        raise Malformed(f"a condition of {len(when)} characters; at most {LONGEST} are allowed", condition=when[:80])
    terms = _AND.split(when.strip())
    if len(terms) > MOST_TERMS:
        raise Malformed(f"a condition of {len(terms)} parts; at most {MOST_TERMS} are allowed", condition=when[:80])
    return Condition(tuple(_term(term.strip(), when) for term in terms))


def all_of(conditions: Iterable[str]) -> str:
    """Return the condition that holds if all of these do."""
    return " and ".join(dict.fromkeys(when for when in conditions if when))


def _term(text: str, when: str) -> Term:
    if (found := _DONE.fullmatch(text)) is not None:
        return Done(found["step"], not found["no"])
    if (found := _COMPARED.fullmatch(text)) is None:
        raise Malformed(f"{text!r} is no condition; {_CURE}", condition=when)
    operand, sign = _operand(found["operand"], when), found["sign"]
    if sign not in _EQUALITY and isinstance(operand, bool | str):
        raise Malformed(f"{text!r}: only numbers can be compared with {sign}; use == or !=", condition=when)
    return Compared(found["step"], found["field"], sign, operand)


def _operand(text: str, when: str) -> float | int | str | bool:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if (found := _TEXT.fullmatch(text)) is not None:
        return found[1] if found[1] is not None else found[2]
    raise Malformed(f'{text!r} is no number, no "text" and neither true nor false', condition=when)


def _written(operand: float | int | str | bool) -> str:
    if isinstance(operand, bool):
        return "true" if operand else "false"
    if isinstance(operand, str):
        return f"'{operand}'" if '"' in operand else f'"{operand}"'
    return str(operand) if isinstance(operand, int) else _decimal(operand)


def _decimal(number: float) -> str:
    written = f"{number:.15f}".rstrip("0")
    return f"{written}0" if written.endswith(".") else written
