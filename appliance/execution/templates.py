"""Fills a step's arguments from what the turn knows: ``{alarm.value}``, ``{slots.tag}``, ``{steps.log.entries.0.code}``.

Pure. A name walks through mapping keys and list indexes, never through attributes, so an argument can reach data only.
A string that is exactly one placeholder becomes the value itself, but where a text is wanted; inside text the value is worded.
What was put in is not looked at again: braces in a value stay braces. ``{{`` and ``}}`` are literal braces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from appliance.contracts.errors import Malformed

LONGEST_TEXT = 20_000  # characters of one rendered string; spoken texts are a few hundred, reports a few thousand
DEEPEST = 12  # nesting of arguments; a plan that nests deeper is a mistake

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_WHOLE = re.compile(r"\{([^{}]+)\}")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def render(
    arguments: Mapping[str, Any], known: Mapping[str, Any], worded: Callable[[Any], str], texts: Container[str] = ()
) -> dict[str, Any]:
    """Return the arguments with every placeholder filled from ``known``; ``worded`` says a value inside a text. ``texts`` are the
    arguments that have to be texts, or lists of them.

    Raises:
        Malformed: a name that is not known, a brace that is no placeholder, or a text that grows too long; facts name it.
    """
    filled = {key: _rendered(value, known, worded, 1) for key, value in arguments.items()}
    return {key: _text(arguments[key], value, worded) if key in texts else value for key, value in filled.items()}


def texts_of(model: type[BaseModel]) -> frozenset[str]:
    """Return the arguments that have to be texts, or lists of them."""
    return frozenset(name for name, field in model.model_fields.items() if field.annotation in (str, list[str]))


def look_up(name: str, known: Mapping[str, Any]) -> Any:
    """Return what ``name`` stands for. A key that itself holds dots (``motor_3.temperature``) is found as well.

    Raises:
        Malformed: nothing has that name.
    """
    if not _NAME.fullmatch(name):
        raise Malformed(f"{{{name}}} is not a name", name=name)
    found: Any = known
    parts = name.split(".")
    while parts:
        found, parts = _step(found, parts, name)
    return found


def _step(inside: Any, parts: list[str], name: str) -> tuple[Any, list[str]]:
    if isinstance(inside, Mapping):
        for count in range(1, len(parts) + 1):
            key = ".".join(parts[:count])
            if key in inside:
                return inside[key], parts[count:]
    elif isinstance(inside, Sequence) and not isinstance(inside, str | bytes):
        index = parts[0]
        if index.isascii() and index.isdigit() and len(index) <= 6 and int(index) < len(inside):
            return inside[int(index)], parts[1:]
    raise Malformed(f"{{{name}}} is not known: there is no {parts[0]}", name=name)


def _rendered(value: Any, known: Mapping[str, Any], worded: Callable[[Any], str], depth: int) -> Any:
    if depth > DEEPEST:
        raise Malformed(f"arguments are nested deeper than {DEEPEST}")
    match value:
        case str():
            return _filled(value, known, worded)
        case Mapping():
            return {key: _rendered(item, known, worded, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [_rendered(item, known, worded, depth + 1) for item in value]
        case _:
            return value


def _text(told: Any, filled: Any, worded: Callable[[Any], str]) -> Any:
    """Word what was put in as a whole where a text is wanted."""
    if isinstance(told, list | tuple) and isinstance(filled, list):
        return [_text(each, value, worded) for each, value in zip(told, filled, strict=True)]
    return worded(filled) if isinstance(told, str) and not isinstance(filled, str) else filled


def _filled(text: str, known: Mapping[str, Any], worded: Callable[[Any], str]) -> Any:
    has_braces = "{" in text or "}" in text  # most texts have none
    whole = _WHOLE.fullmatch(text) if has_braces else None
    if whole:
        return look_up(whole[1], known)

    def piece(found: re.Match[str]) -> str:
        match found[0]:
            case "{{" | "}}":
                return found[0][0]
            case "{" | "}":
                raise Malformed(f"a single {found[0]} in “{text[:80]}”; write it twice for a brace", text=text[:80])
            case _:
                return worded(look_up(found[1], known))

    filled = _PIECE.sub(piece, text) if has_braces else text
    if len(filled) > LONGEST_TEXT:
        raise Malformed(f"a text grew to {len(filled)} characters; at most {LONGEST_TEXT} are allowed", text=text[:80])
    return filled
