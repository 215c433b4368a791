"""Gives the steps of a plan other ids, or takes some away, and follows them wherever the plan names them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from appliance.contracts.condition import condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Step
from appliance.foundation.canonical import digest as digest_of

_NAMED = re.compile(r"\{\{|\{steps\.([A-Za-z0-9_-]+)(?=[.}])")


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """Return the step under its new id, with what it says about other steps (``when``, ``after``, templates) following
    ``names``."""
    if all(old == new for old, new in names.items()):
        return step
    after = tuple(names.get(name, name) for name in step.after)
    own, when = names.get(step.id, step.id), _when(step.when, names)
    return replace(step, id=own, when=when, arguments=_filled(step.arguments, names), after=after)


def bound_again(steps: Sequence[Step], names: Mapping[str, str]) -> list[Step]:
    """Return renamed steps in which questions that approve one of them are bound to it under its new name."""
    if all(old == new for old, new in names.items()):
        return list(steps)
    by_id = {step.id: step for step in steps}
    bound: list[Step] = []
    for step in steps:
        target = by_id.get(names.get(str(step.arguments.get("approves") or ""), ""))
        if target is not None:
            digest = step_digest(target.tool, target.arguments)
            step = replace(step, arguments={**step.arguments, "approves": target.id, "digest": digest})
        bound.append(step)
    return bound


def without(steps: Sequence[Step], gone: Set[str]) -> tuple[Step, ...]:
    """Return the steps of a plan without those that are ``gone``, and without what hangs on these: what runs only if one was
    done, or was not, and what needs the result of one."""
    lost, kept = set(gone), list[Step]()
    for step in steps:
        if step.id in lost or not lost.isdisjoint((*condition_of(step.when).steps, *named_in(step.arguments))):
            lost.add(step.id)
        else:
            kept.append(replace(step, after=tuple(name for name in step.after if name not in lost)))
    return tuple(kept)


def step_digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return what a person's yes is bound to: a step's tool and its arguments as stored."""
    return digest_of({"tool": tool, "arguments": dict(arguments)})


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
    """What is no condition stays as it is: whoever runs the step says so."""
    try:
        return str(condition_of(when).renamed(names))
    except Malformed:
        return when


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
