"""What the numbers of an enumeration and the bits of a bitfield are called: number to text and back."""

from __future__ import annotations

from appliance.contracts.errors import Refused
from appliance.contracts.reading import Value
from appliance.contracts.tag import NO_FLAG, Tag

_JOINT = ", "
_MOST_DIGITS = 24  # more than the largest register value has


def text_of(tag: Tag, number: int) -> str:
    """Return what ``number`` means for a tag with ``names`` or ``flags``.

    A number without a name is itself ("7"), a set bit without a name its place ("bit 5"): nothing the device says is hidden.
    Flags stand in the order of their bits; ``number`` must not be negative for them.
    """
    if not tag.flags:
        return tag.names.get(number, str(number))
    bits = (bit for bit in range(number.bit_length()) if number >> bit & 1)
    return _JOINT.join(tag.flags.get(bit, f"bit {bit}") for bit in bits) or NO_FLAG


def number_of(tag: Tag, value: Value) -> int:
    """Return the number that ``value`` (a name, names joined by commas, or the number itself) stands for.

    Raises:
        Refused: a name or number the plant model does not declare; the cure lists those there are.
    """
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise _unknown(tag, value)
    told = value.strip().casefold() if isinstance(value, str) else ""
    number = _of_name(tag, told) if isinstance(value, str) else int(value)
    if number is None:
        number = int(told) if len(told) <= _MOST_DIGITS and told.removeprefix("-").isdecimal() else None
    if number is None or not _is_declared(tag, number):
        raise _unknown(tag, value)
    return number


def states_of(tag: Tag, value: Value) -> tuple[str, ...] | None:
    """Return what ``value``, as it is shown, says by name: the state of an enumeration, every set bit of a bitfield.

    Empty when it is no state that the tag declares; such a value says nothing. A set bit without a name is "bit 5" here, too, and
    no set bit at all is ``NO_FLAG``. None for a tag with neither ``names`` nor ``flags``.
    """
    if tag.flags:
        return tuple(value.split(_JOINT)) if isinstance(value, str) else ()
    if not tag.names:
        return None
    return (value,) if isinstance(value, str) and value in tag.names.values() and not _is_any_number(tag, value) else ()


def names_of(tag: Tag) -> frozenset[str]:
    """Return the names that a tag's ``names`` or ``flags`` may show; empty for a tag that has neither."""
    return frozenset({*tag.flags.values(), NO_FLAG}) if tag.flags else frozenset(tag.names.values())


def _is_any_number(tag: Tag, name: str) -> bool:
    """Whether a name is shown for a number that has none, too: names {3: "7"}, and the device says 7."""
    if len(name) > _MOST_DIGITS or not name.removeprefix("-").isdecimal():
        return False
    return str(int(name)) == name and int(name) not in tag.names


def _of_name(tag: Tag, told: str) -> int | None:
    """A name is a name first, even if it looks like a number: what is shown can always be written back."""
    if not tag.flags:
        return next((number for number, name in tag.names.items() if name.casefold() == told), None)
    if told in ("", NO_FLAG):
        return 0
    bit_of = {name.casefold(): bit for bit, name in tag.flags.items()}
    names = {name.strip() for name in told.split(_JOINT.strip())}
    return sum(1 << bit_of[name] for name in names) if names <= bit_of.keys() else None


def _is_declared(tag: Tag, number: int) -> bool:
    if not tag.flags:
        return number in tag.names
    return number >= 0 and not number & ~sum(1 << bit for bit in tag.flags)


def _unknown(tag: Tag, told: Value) -> Refused:
    known = ", ".join(name for _, name in sorted((tag.names or tag.flags).items()))
    return Refused(f"{tag.key} does not know {told!r}", tag=tag.key, cure=f"It knows: {known}.")
