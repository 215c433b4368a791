"""Checks what tools say of one another when they are loaded: names, dependencies, fallbacks (T4, T5). Pure.

A fallback is called in place of a call that failed and is known to have changed nothing. It may not change the world either:
an action has at most one effect, whose intent was made durable for the main tool, and whoever said yes said it to that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from appliance.contracts.errors import CycleDetected, Fault
from appliance.contracts.tool import ToolContract
from appliance.execution.toolbox.contract_check import ContractFault
from appliance.execution.toolbox.dependency_order import in_dependency_order
from appliance.execution.toolbox.schema_fit import misfits
from appliance.foundation.supervisor import contained_call


def faults_among(tools: Sequence[object]) -> list[ContractFault]:
    """Return everything that is wrong between tools whose own contracts are true, except cycles of dependencies."""
    contracts: list[ToolContract] = [tool.contract for tool in tools]  # type: ignore[attr-defined]  # checked before
    by_name = {contract.name: contract for contract in contracts}
    names = [contract.name for contract in contracts]
    faults = [ContractFault(name, "name", "is used twice") for name in sorted({n for n in names if names.count(n) > 1})]
    for tool in tools:
        contract: ToolContract = tool.contract  # type: ignore[attr-defined]
        try:
            found = contained_call(partial(_between, tool, contract, by_name), is_foreign=True)
        except Fault as fault:  # schemas that cannot even be read
            found = [("schema", f"cannot be compared: {fault.why}")]
        faults += [ContractFault(contract.name, field, why) for field, why in found]
    return faults


def _between(tool: object, contract: ToolContract, by_name: Mapping[str, ToolContract]) -> list[tuple[str, str]]:
    return [*_dependencies(tool, contract, by_name), *_fallback(contract, by_name)]


def _dependencies(tool: object, contract: ToolContract, by_name: Mapping[str, ToolContract]) -> Iterator[tuple[str, str]]:
    for name in contract.dependencies:
        needed = by_name.get(name)
        if needed is None:
            yield "dependencies", f"there is no tool {name}"
        elif hasattr(tool, "uses"):  # it is called from within, where neither an intent nor an approval is of its own
            if needed.has_effect:
                yield "dependencies", f"{name} has an effect and cannot be called by another tool"
            if needed.security.access_level > contract.security.access_level:
                yield "dependencies", f"{name} needs a higher access level than {contract.name} itself"


def _fallback(contract: ToolContract, by_name: Mapping[str, ToolContract]) -> Iterator[tuple[str, str]]:
    name = contract.fallback_tool
    if not name:
        return
    if name == contract.name:
        yield "fallback_tool", "is the tool itself"
        return
    fallback = by_name.get(name)
    if fallback is None:
        yield "fallback_tool", f"there is no tool {name}"
        return
    if way := _round(contract.name, by_name):
        yield "fallback_tool", f"the way round is {'->'.join(way)}"
    if fallback.security.access_level > contract.security.access_level:
        yield "fallback_tool", f"{name} needs a higher access level than {contract.name} itself"
    if fallback.changes_something:
        yield "fallback_tool", f"{name} changes something; what was decided and agreed to for {contract.name} does not cover it"
    narrow, wide = contract.schema.input_schema, fallback.schema.input_schema
    for field, why in misfits(narrow, wide):
        yield "fallback_tool", f"{name} cannot stand in: {field}: {why}"


def _round(start: str, by_name: Mapping[str, ToolContract]) -> list[str]:
    """Return the way from a tool over its fallbacks back to itself; empty when there is none."""
    path = [start]
    while (following := by_name.get(path[-1])) is not None and following.fallback_tool:
        if following.fallback_tool in path:
            return [*path, following.fallback_tool] if following.fallback_tool == start else []
        path.append(following.fallback_tool)
    return []


def cycle_among(contracts: Mapping[str, ToolContract]) -> CycleDetected | None:
    """Return the first cycle of dependencies, None when there is none; dependencies that are not there are left out."""
    known = {name: [d for d in contract.dependencies if d in contracts] for name, contract in contracts.items()}
    try:
        in_dependency_order(known)
    except CycleDetected as cycle:
        return cycle
    return None
