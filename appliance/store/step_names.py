"""Gives the steps of a plan other ids, and follows them wherever the plan names them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from appliance.contracts.plan import Step

_NAMED = re.compile(r"\{\{|\{steps\.([A-Za-z0-9_-]+)(?=[.}])")
_NOT = "not "


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """Return the step under its new id, with what it says about other steps (``when``, ``after``, templates) following
    ``names``."""
    if all(old == new for old, new in names.items()):
        return step
    after = tuple(names.get(name, name) for name in step.after)
    own, when = names.get(step.id, step.id), _when(step.when, names)
    return replace(step, id=own, when=when, arguments=_filled(step.arguments, names), after=after)


def named_in(arguments: Any) -> Iterator[str]:
    """Yield the ids of the steps whose results the arguments need."""
    match arguments:
        case str():
            yield from (found[1] for found in _NAMED.finditer(arguments) if found[1] is not None)
        case Mapping():
            for item in arguments.values():
                yield from named_in(item)
        case list() | tuple():
            for item in arguments:
                yield from named_in(item)


def _when(when: str, names: Mapping[str, str]) -> str:
    name = when.removeprefix(_NOT).strip()
    return (_NOT if when.startswith(_NOT) else "") + names.get(name, name)


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _NAMED.sub(lambda found: found[0] if found[1] is None else "{steps." + names.get(found[1], found[1]), value)
        case Mapping():
            return {key: _filled(item, names) for key, item in value.items()}
        case list() | tuple():
            return [_filled(item, names) for item in value]
        case _:
            return value
