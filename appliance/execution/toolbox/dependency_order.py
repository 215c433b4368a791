"""Sorts tools so that each comes after those it depends on (T4). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from appliance.contracts.errors import CycleDetected


def in_dependency_order(dependencies: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return all names, dependencies first, otherwise in the order given. Every dependency must be a name of the mapping.

    Raises:
        CycleDetected: names depend on one another; the message spells the way round, ``A->B->A``.
    """
    ordered: dict[str, None] = {}
    for name in dependencies:
        _visit(name, dependencies, ordered, [])
    return tuple(ordered)


def _visit(name: str, dependencies: Mapping[str, Sequence[str]], ordered: dict[str, None], path: list[str]) -> None:
    if name in ordered:
        return
    if name in path:
        cycle = [*path[path.index(name) :], name]
        raise CycleDetected("->".join(cycle), tools=cycle[:-1])
    path.append(name)
    for dependency in dependencies[name]:
        _visit(dependency, dependencies, ordered, path)
    path.pop()
    ordered[name] = None
