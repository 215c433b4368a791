"""The types of everything a tool's contract is made of, looked at before any of it is used. A dataclass checks none by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from appliance.contracts.tool import (
    AccessLevel,
    Isolation,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolContract,
)

_Is = tuple[Callable[[Any], bool], str]
"""Whether something is of a type, and what that type is called."""


def _exactly(kind: type, called: str) -> _Is:
    return (lambda found: type(found) is kind), called


def _is_texts(found: Any) -> bool:
    return type(found) is tuple and all(type(each) is str for each in found)


def _is_choices(found: Any) -> bool:
    return isinstance(found, Mapping) and all(type(name) is str and _is_texts(values) for name, values in found.items())


_TEXT, _WHOLE, _YES_OR_NO = _exactly(str, "text"), _exactly(int, "a whole number"), _exactly(bool, "True or False")
_TEXTS: _Is = (_is_texts, "a tuple of texts")
_MODEL: _Is = (lambda found: isinstance(found, type), "a pydantic model")

_CONTRACT: Mapping[str, _Is] = {
    "name": _TEXT,
    "description": _TEXT,
    "schema": _exactly(SchemaContract, "a SchemaContract"),
    "sla": _exactly(SlaContract, "a SlaContract"),
    "security": _exactly(SecurityContract, "a SecurityContract"),
    "telemetry": _exactly(TelemetryContract, "a TelemetryContract"),
    "has_effect": _YES_OR_NO,
    "dependencies": _TEXTS,
    "is_held": _YES_OR_NO,
    "isolation": _exactly(Isolation, "an Isolation"),
    "overwrites": _TEXT,
    "resource": _TEXT,
    "fallback_tool": _TEXT,
    "extends_plan": _YES_OR_NO,
    "keeps_something": _YES_OR_NO,
}
_PARTS: Mapping[str, Mapping[str, _Is]] = {
    "schema": {
        "arguments": _MODEL,
        "result": _MODEL,
        "required_fields": _TEXTS,
        "nullable_fields": _TEXTS,
        "enum_constraints": (_is_choices, "a mapping of names to tuples of texts"),
    },
    "sla": {"max_execution_time_ms": _WHOLE, "retries": _WHOLE},
    "security": {"access_level": _exactly(AccessLevel, "an AccessLevel"), "data_scope": _TEXT},
    "telemetry": {"on_start": _TEXT, "on_success": _TEXT, "on_failure": _TEXT, "redact": _TEXTS},
}


def wrong_types(contract: ToolContract) -> Iterator[tuple[str, str]]:
    """Yield each field of a contract that is not of its type, and what it is."""
    wrong = list(_wrong(contract, _CONTRACT))
    yield from wrong
    for part, wanted in _PARTS.items():
        if part not in dict(wrong):
            yield from _wrong(getattr(contract, part), wanted)


def _wrong(holder: object, wanted: Mapping[str, _Is]) -> Iterator[tuple[str, str]]:
    for field, (is_right, called) in wanted.items():
        found = getattr(holder, field)
        if not is_right(found):
            yield field, f"must be {called}, is {_named(found)}"


def _named(found: Any) -> str:
    return "None" if found is None else f"of type {type(found).__name__}"
