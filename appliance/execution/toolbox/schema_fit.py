"""Whether everything one JSON Schema accepts is accepted by another, for the schemas that pydantic makes. Pure.

What cannot be told is taken for a misfit: a fallback that may refuse the arguments is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_SAME = ("pattern", "format", "multipleOf", "uniqueItems")
_NOTES = frozenset({"title", "description", "default", "examples"})


def misfits(narrow: Schema, wide: Schema) -> Iterator[tuple[str, str]]:
    """Yield each field because of which arguments that fit ``narrow`` may not fit ``wide``, and why."""
    theirs, ours = narrow.get("properties", {}), wide.get("properties", {})
    for name in theirs:
        if name not in ours:
            yield name, "it does not know this argument"
        elif not _Fit(narrow, wide).covers(ours[name], theirs[name]):
            yield name, "it does not take every value of this argument"
    for name in wide.get("required", ()):
        if name not in narrow.get("required", ()):
            yield name, "it needs this argument, which may be left out"


class _Fit:
    """Compares parts of two schemas, each with definitions of its own."""

    def __init__(self, narrow: Schema, wide: Schema) -> None:
        self._narrow_definitions = narrow.get("$defs", {})
        self._wide_definitions = wide.get("$defs", {})

    def covers(self, wide: Schema, narrow: Schema) -> bool:
        """Whether ``wide`` accepts whatever ``narrow`` does."""
        wide, narrow = _resolved(wide, self._wide_definitions), _resolved(narrow, self._narrow_definitions)
        if not wide.keys() - _NOTES:
            return True
        if "anyOf" in narrow:
            return all(self.covers(wide, option) for option in narrow["anyOf"])
        if "anyOf" in wide:
            return any(self.covers(option, narrow) for option in wide["anyOf"])
        if "enum" in wide or "const" in wide:
            values = _values(narrow)
            return bool(values) and all(value in _values(wide) for value in values)
        return self._is_of_type(wide, narrow) and self._is_within(wide, narrow) and self._holds_no_more(wide, narrow)

    def _is_of_type(self, wide: Schema, narrow: Schema) -> bool:
        types = (wide.get("type"), narrow.get("type"))
        return types[0] == types[1] or types == ("number", "integer")

    def _is_within(self, wide: Schema, narrow: Schema) -> bool:
        within = [narrow.get(bound) is not None and narrow[bound] >= wide[bound] for bound in _AT_LEAST if bound in wide]
        within += [narrow.get(bound) is not None and narrow[bound] <= wide[bound] for bound in _AT_MOST if bound in wide]
        return all(within) and all(narrow.get(name) == wide[name] for name in _SAME if name in wide)

    def _holds_no_more(self, wide: Schema, narrow: Schema) -> bool:
        """What a list or an object holds."""
        match wide.get("type"):
            case "array":
                return self.covers(wide.get("items", {}), narrow.get("items", {}))
            case "object" if "properties" in wide or "properties" in narrow:
                return bool(wide == narrow)  # models within arguments: the same one, or it is not told
            case "object":
                theirs, ours = narrow.get("additionalProperties", True), wide.get("additionalProperties", True)
                return self.covers({} if ours is True else ours, {} if theirs is True else theirs)
        return True


def _resolved(part: Schema, definitions: Mapping[str, Any]) -> Schema:
    while "$ref" in part:
        part = definitions[part["$ref"].rpartition("/")[2]]
    return part


def _values(part: Schema) -> list[Any]:
    return [part["const"]] if "const" in part else list(part.get("enum", ()))
