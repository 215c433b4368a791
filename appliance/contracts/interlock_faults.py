"""What makes no sense in an interlock for the tags there are: names that are none, kinds that do not go together, and what says
nothing of the machine, since it is always true or always false. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from appliance.contracts.interlock import (
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Kind,
    Logic,
    Not,
    TagValue,
    spelled,
    tags_in,
)
from appliance.contracts.named_value import names_of
from appliance.contracts.tag import DataType, RegisterKind, Tag

_EACH_BIT = 'Ask for each bit by itself, as in a.status == "ready" and a.status != "fault".'
_OF_THE_MACHINE = "Compare a tag with it, or leave it out."


class InterlockFault(NamedTuple):
    """What is wrong. ``word`` is what was written there of which ``known`` are meant, else ``cure`` may say what to do."""

    what: str
    word: str = ""
    known: tuple[str, ...] = ()
    cure: str = ""


def faults_of(expression: Expression, tags: Mapping[str, Tag]) -> Iterator[InterlockFault]:
    """Yield what makes no sense for these tags."""
    faults = _Faults(tags)
    kind = faults.kind(expression)
    if kind not in (None, Kind.TRUTH):
        faults.found.append(InterlockFault(f"is {kind}, and has to be something that is true or false"))
    elif isinstance(expression, Constant):
        faults.is_constant(expression)
    yield from faults.found


def kind_of(tag: Tag) -> Kind:
    """Return what the value of a tag is."""
    if tag.type is DataType.BOOL:
        return Kind.TRUTH
    return Kind.TEXT if names_of(tag) or tag.type is DataType.STRING else Kind.NUMBER


class _Faults:
    """Collects ``found`` while it looks what each part is."""

    def __init__(self, tags: Mapping[str, Tag]) -> None:
        self.found: list[InterlockFault] = []
        self._tags = tags

    def kind(self, expression: Expression) -> Kind | None:
        """Return what a part is, and note what is wrong in it; None when that keeps it from being anything."""
        match expression:
            case Constant(value):
                return Kind.TRUTH if isinstance(value, bool) else Kind.TEXT if isinstance(value, str) else Kind.NUMBER
            case TagValue(key):
                if key not in self._tags:
                    self.found.append(InterlockFault(f"{key} is not a tag of this plant", key, tuple(self._tags)))
                    return None
                return kind_of(self._tags[key])
            case Not(part):
                return self._all_are(Kind.TRUTH, (part,), "not")
            case Logic(word, parts):
                return self._all_are(Kind.TRUTH, parts, word)
            case Arithmetic(sign, left, right):
                return self._all_are(Kind.NUMBER, (left, right), sign)
            case Comparison(first, following):
                before = first
                for sign, part in following:
                    self._compared(before, sign, part)
                    before = part
                return Kind.TRUTH

    def is_constant(self, part: Expression) -> None:
        """Note that a part is about no tag: it would hold, or not, whatever the machine does."""
        what = f"{spelled(part)} is about no tag, so it says nothing of the machine"
        self.found.append(InterlockFault(what, cure=_OF_THE_MACHINE))

    def _all_are(self, wanted: Kind, parts: tuple[Expression, ...], word: str) -> Kind:
        for part in parts:
            found = self.kind(part)
            if found not in (None, wanted):
                self.found.append(InterlockFault(f"{spelled(part)} is {found}, and {word!r} needs {wanted}"))
            elif wanted is Kind.TRUTH and isinstance(part, Constant):
                self.is_constant(part)
        return wanted

    def _compared(self, left: Expression, sign: str, right: Expression) -> None:
        kinds = self.kind(left), self.kind(right)
        if None in kinds:
            return
        if kinds[0] is not kinds[1]:
            what = f"{spelled(left)} is {kinds[0]} and {spelled(right)} is {kinds[1]}: they cannot be compared"
            self.found.append(InterlockFault(what))
        elif kinds[0] is not Kind.NUMBER and sign not in ("==", "!="):
            self.found.append(InterlockFault(f"{spelled(left)} is {kinds[0]}: it can only be compared by == and !="))
        elif not tags_in(left) | tags_in(right):
            self.is_constant(Comparison(left, ((sign, right),)))
        elif left == right:
            what = f"{spelled(left)} is compared with itself, so it says nothing of the machine"
            self.found.append(InterlockFault(what, cure=_OF_THE_MACHINE))
        else:
            self._compared_tag(left, right)
            self._compared_tag(right, left)

    def _compared_tag(self, one: Expression, other: Expression) -> None:
        """Note what a tag can never be: a name that it does not know, a number that its registers cannot hold."""
        if not isinstance(one, TagValue):
            return
        tag, names = self._tags[one.key], names_of(self._tags[one.key])
        match other:
            case Constant(str(name)) if names and name not in names:
                is_several = bool(tag.flags) and "," in name
                what = f"{one.key} is never {name!r}"
                fault = InterlockFault(what, cure=_EACH_BIT) if is_several else InterlockFault(what, name, tuple(names))
                self.found.append(fault)
            case Constant(float(number)) if not _can_show(tag, number):
                low, high = tag.clamp or tag.range
                what = f"{one.key} is never {number:g}, so comparing it with that says nothing of the machine"
                self.found.append(InterlockFault(what, cure=f"It shows {low:g} to {high:g} {tag.unit}.".replace(" .", ".")))
            case Constant():
                return
            case _ if tag.flags:
                self.found.append(
                    InterlockFault(f"{one.key} is several bits, which can only be compared with a name", cure=_EACH_BIT)
                )


def _can_show(tag: Tag, number: float) -> bool:
    """Whether a tag may ever show a number. What a gateway publishes has no registers that would bound it."""
    low, high = tag.clamp or tag.range
    return tag.kind is RegisterKind.PUBLISHED or low <= number <= high
