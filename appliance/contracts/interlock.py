"""Interlock expressions: what has to hold of the machine before something is written to it (X5, F4). Strict, small and pure.

    motor_3.temperature < 90 and pump_3.flow > 5
    not conveyor_3.running or 0 < conveyor_3.speed <= 1.5
    valve_2.position == "closed" and motor_3.status != "fault"

Names of tags are ``asset.tag``; numbers; ``true`` and ``false``; names of states in quotes; ``and or not``; comparisons, also
chained; ``+ - * /``. Of a bitfield each bit is judged by itself, whatever else is set: ``== "fault"`` is that this bit is set,
``!= "fault"`` that it is not. A number that an enumeration has no name for is no state, and fulfils neither.

Python's own parser reads the text; what it found is taken over into the tree below, part by part, and whatever is not named here
is refused. Nothing is ever evaluated by Python.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from appliance.contracts.errors import Malformed
from appliance.contracts.named_value import states_of
from appliance.contracts.reading import Value
from appliance.contracts.tag import Tag

LONGEST = 500
"""Characters of an expression: one that is longer is not understood by the person who has to answer for it."""
DEEPEST = 20
"""Nesting of an expression."""


class Kind(StrEnum):
    """What a part of an expression is."""

    NUMBER = "a number"
    TRUTH = "true or false"
    TEXT = "a name"


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, ``true`` or ``false``, or a name in quotes."""

    value: float | bool | str


@dataclass(frozen=True, slots=True)
class TagValue:
    """The value of a tag, by its key."""

    key: str


@dataclass(frozen=True, slots=True)
class Not:
    """True when its part is not."""

    part: Expression


@dataclass(frozen=True, slots=True)
class Logic:
    """``and`` or ``or`` of its parts."""

    word: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``first`` compared with each following part in turn, as ``0 < a <= 5`` reads."""

    first: Expression
    following: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers joined by ``+ - * /``."""

    sign: str
    left: Expression
    right: Expression


Expression: TypeAlias = Constant | TagValue | Not | Logic | Comparison | Arithmetic

_LARGEST = 1e15  # whole numbers are exact up to here, and no tag shows more
_KNOWN = "there are tags, numbers, true, false, names in quotes, and, or, not, < <= > >= == != + - * /"
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="
}  # fmt: skip
_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_TRUTHS: Mapping[str, bool] = {"true": True, "false": False}
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne
}  # fmt: skip
_CALCULATE: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv
}  # fmt: skip


def parse(text: str) -> Expression:
    """Return the expression a text spells.

    Raises:
        Malformed: it is none; the message says what is not understood, and where.
    """
    if len(text) > LONGEST:
        raise Malformed(f"is longer than {LONGEST} characters")
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise Malformed(f"is no expression: {error.msg} at character {error.offset or 1}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Malformed(f"is no expression: {error}") from error
    return _taken_over(found, 1)


def tags_in(expression: Expression) -> frozenset[str]:
    """Return the keys of the tags an expression is about."""
    return frozenset(_tags(expression))


def holds(expression: Expression, values: Mapping[str, Value], tags: Mapping[str, Tag]) -> bool:
    """Whether an expression is true of these values, by tag. ``tags`` are those it is about, as they are declared.

    Raises:
        Malformed: it cannot be judged: a tag is missing, of another kind than it was declared, or in a state that it does not
            declare, or a number is divided by zero.
    """
    found = _value(expression, _Shown(values, tags))
    if not isinstance(found, bool):
        raise Malformed("it is neither true nor false")
    return found


# reading the text -------------------------------------------------------------------------------------------------------
def _taken_over(node: ast.expr, depth: int) -> Expression:
    if depth > DEEPEST:
        raise Malformed(f"is nested deeper than {DEEPEST}")
    deeper = depth + 1
    match node:
        case ast.Constant(value=bool() | None):
            raise Malformed(f"{ast.unparse(node)} is not known; write true or false")
        case ast.Constant(value=int() | float() as number) if _is_small(number):
            return Constant(float(number))
        case ast.Constant(value=str(name)):
            return Constant(name)
        case ast.Name(id=name) if name in _TRUTHS:
            return Constant(_TRUTHS[name])
        case ast.Attribute() if key := _key(node):
            return TagValue(key)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return Not(_taken_over(part, deeper))
        case ast.UnaryOp(op=ast.USub(), operand=part):
            match _taken_over(part, deeper):
                case Constant(float(number)):
                    return Constant(-number)
                case negated:
                    return Arithmetic("-", Constant(0.0), negated)
        case ast.BoolOp(op=joint, values=parts):
            word = "and" if isinstance(joint, ast.And) else "or"
            return Logic(word, tuple(_taken_over(part, deeper) for part in parts))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return Arithmetic(_SIGNS[type(sign)], _taken_over(left, deeper), _taken_over(right, deeper))
        case ast.Compare(left=first, ops=signs, comparators=following) if all(type(sign) in _COMPARISONS for sign in signs):
            pairs = zip(signs, following, strict=True)
            return Comparison(
                _taken_over(first, deeper), tuple((_COMPARISONS[type(sign)], _taken_over(part, deeper)) for sign, part in pairs)
            )
        case ast.Name(id=name):
            raise Malformed(f"{name} is not known: a tag is written asset.tag, and the name of a state in quotes")
    raise Malformed(f"{ast.unparse(node)} is not understood: {_KNOWN}")


def _is_small(number: int | float) -> bool:
    return abs(number) <= _LARGEST  # also not infinite, and no number of hundreds of digits


def _key(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name) if ahead := _key(inner):
            return f"{ahead}.{name}"
    return ""


def _tags(expression: Expression) -> Iterator[str]:
    match expression:
        case TagValue(key):
            yield key
        case Not(part):
            yield from _tags(part)
        case Logic(_, parts):
            for part in parts:
                yield from _tags(part)
        case Comparison(first, following):
            yield from _tags(first)
            for _, part in following:
                yield from _tags(part)
        case Arithmetic(_, left, right):
            yield from _tags(left)
            yield from _tags(right)
        case Constant():
            return


# writing it -----------------------------------------------------------------------------------------------------------
def spelled(expression: Expression) -> str:
    """Return an expression as it is written."""
    match expression:
        case Constant(value):
            return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else f"{value:g}"
        case TagValue(key):
            return key
        case Not(part):
            return f"not {_inner(part)}"
        case Logic(word, parts):
            return f" {word} ".join(map(_inner, parts))
        case Comparison(first, following):
            return _inner(first) + "".join(f" {sign} {_inner(part)}" for sign, part in following)
        case Arithmetic(sign, left, right):
            return f"{_inner(left)} {sign} {_inner(right)}"


def _inner(expression: Expression) -> str:
    is_whole = isinstance(expression, Constant | TagValue)
    return spelled(expression) if is_whole else f"({spelled(expression)})"


# is it true -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Shown:
    """What tags show now, and how they are declared, by key."""

    values: Mapping[str, Value]
    tags: Mapping[str, Tag]

    def value(self, key: str) -> Value:
        if key not in self.values or key not in self.tags:
            raise Malformed(f"{key} is not known", tag=key)
        value = self.values[key]
        if states_of(self.tags[key], value) == ():
            raise Malformed(f"{key} shows {value}, which is no state that it declares", tag=key)
        return value

    def bits(self, part: Expression) -> tuple[str, ...] | None:
        """The names of the set bits, if a part is a bitfield."""
        if not isinstance(part, TagValue) or part.key not in self.tags or not self.tags[part.key].flags:
            return None
        return states_of(self.tags[part.key], self.value(part.key))


def _value(expression: Expression, shown: _Shown) -> float | bool | str:
    match expression:
        case Constant(value):
            return value
        case TagValue(key):
            return shown.value(key)
        case Not(part):
            return not _truth(part, shown)
        case Logic(word, parts):
            judged = [_truth(part, shown) for part in parts]
            return all(judged) if word == "and" else any(judged)
        case Comparison(first, following):
            before, judged = first, []
            for sign, part in following:
                judged.append(_compare(before, sign, part, shown))
                before = part
            return all(judged)
        case Arithmetic(sign, left, right):
            try:
                found = _CALCULATE[sign](_number(left, shown), _number(right, shown))
            except (ZeroDivisionError, OverflowError) as error:
                raise Malformed(f"{spelled(expression)} cannot be calculated") from error
            if not math.isfinite(found):
                raise Malformed(f"{spelled(expression)} cannot be calculated")
            return found


def _compare(left: Expression, sign: str, right: Expression, shown: _Shown) -> bool:
    for one, other in ((left, right), (right, left)):
        bits = shown.bits(one)
        if bits is not None:
            if not (isinstance(other, Constant) and isinstance(other.value, str) and sign in ("==", "!=")):
                raise Malformed(f"{spelled(one)} is several bits, and each has to be asked for by its name")
            return (other.value in bits) is (sign == "==")
    first, second = _value(left, shown), _value(right, shown)
    is_same_kind = _kind_of_value(first) is _kind_of_value(second)
    if not is_same_kind or (sign not in ("==", "!=") and _kind_of_value(first) is not Kind.NUMBER):
        raise Malformed(f"{first} and {second} cannot be compared")
    return _COMPARE[sign](first, second)


def _kind_of_value(value: float | bool | str) -> Kind:
    return Kind.TRUTH if isinstance(value, bool) else Kind.TEXT if isinstance(value, str) else Kind.NUMBER


def _truth(expression: Expression, shown: _Shown) -> bool:
    found = _value(expression, shown)
    if not isinstance(found, bool):
        raise Malformed(f"{spelled(expression)} is neither true nor false")
    return found


def _number(expression: Expression, shown: _Shown) -> float:
    found = _value(expression, shown)
    if isinstance(found, bool | str) or not math.isfinite(found):
        raise Malformed(f"{spelled(expression)} is not a number")
    return float(found)
