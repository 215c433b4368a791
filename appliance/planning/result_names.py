"""The results that a step's arguments name, ``{steps.log.count}``, and whether the tool gives such a field. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from appliance.contracts.tool import ToolContract

_BRACE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_PIECE = re.compile(r"\{\{|\}\}|\{steps\.([A-Za-z0-9_-]+)\.([^{}]+)\}")


def lone_brace(text: str) -> str:
    """Return the first brace of a text that is neither doubled nor part of a name's pair; empty when there is none."""
    return next((found[0] for found in _BRACE.finditer(text) if len(found[0]) == 1), "")


def names_of_results(value: Any) -> Iterator[tuple[str, str]]:
    """Yield (step, field) of each result that is named, however deep; the field may have dots. Doubled braces name nothing."""
    match value:
        case str():
            yield from ((found[1], found[2]) for found in _PIECE.finditer(value) if found[1])
        case Mapping():
            for item in value.values():
                yield from names_of_results(item)
        case list() | tuple():
            for item in value:
                yield from names_of_results(item)


def gives(contract: ToolContract, field: str, keys: Iterable[str] = ()) -> bool:
    """Whether a result of this tool can have a field, ``value`` or ``values.motor_3.temperature``. What its schema leaves open
    may be there. ``keys``: the tags that are read, in whose names there are dots, so that what is behind one can be looked at."""
    schema, (first, _, rest) = _schema(contract.schema.result), field.partition(".")
    key = next((each for each in keys if rest == each or rest.startswith(f"{each}.")), None)
    behind = rest.removeprefix(key or "").strip(".")
    names = field.split(".") if key is None else [first, key, *(behind.split(".") if behind else ())]
    return _has(schema, names, schema.get("$defs", {}))


@lru_cache(maxsize=256)
def _schema(result: type[BaseModel]) -> Mapping[str, Any]:
    return result.model_json_schema(mode="serialization")


def _has(part: Any, names: Sequence[str], definitions: Mapping[str, Any]) -> bool:
    if not names or not isinstance(part, Mapping):
        return True
    if "$ref" in part:
        return _has(definitions.get(str(part["$ref"]).rpartition("/")[2], {}), names, definitions)
    options = [*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ())]
    if options:
        return any(_has(option, names, definitions) for option in options)
    match part.get("type"):
        case "object" if names[0] in part.get("properties", {}):
            return _has(part["properties"][names[0]], names[1:], definitions)
        case "object":
            others = part.get("additionalProperties", "properties" not in part)
            is_key = "." in names[0] and isinstance(others, Mapping)
            return _has(others, names[1:], definitions) if is_key else bool(others)
        case "array":
            return names[0].isdigit() and _has(part.get("items", {}), names[1:], definitions)
        case None:
            return True  # anything at all
        case _:
            return False  # a plain value has nothing in it
