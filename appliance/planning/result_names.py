"""The results that a step's arguments name, ``{steps.log.count}``, and whether the tool gives such a field. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from appliance.contracts.tool import ToolContract

_PIECE = re.compile(r"\{\{|\}\}|\{steps\.([A-Za-z0-9_-]+)\.([^{}]+)\}")


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


def gives(contract: ToolContract, field: str) -> bool:
    """Whether a result of this tool can have a field, ``value`` or ``values.motor_3.temperature``. What its schema leaves open
    may be there."""
    schema = _schema(contract.schema.result)
    return _has(schema, field.split("."), schema.get("$defs", {}))


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
            return bool(part.get("additionalProperties", "properties" not in part))
        case "array":
            return names[0].isdigit() and _has(part.get("items", {}), names[1:], definitions)
        case None:
            return True  # anything at all
        case _:
            return False  # a plain value has nothing in it
