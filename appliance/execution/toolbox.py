"""The tools that were loaded: contracts checked, dependencies sorted, found by name.

In: tool objects, built by ``app`` with their ports. Out: the tool of a name, its contract, and validated arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard

from pydantic import BaseModel, ValidationError

from appliance.contracts.errors import ToolValidationError
from appliance.contracts.tool import (
    GuardedTool,
    Isolation,
    LedgerTool,
    Record,
    RecordedTool,
    Tool,
    ToolCall,
    ToolContract,
    VerifiableTool,
)
from appliance.execution.contract_check import ContractFault, faults_of
from appliance.execution.dependency_order import in_dependency_order

AnyTool = Tool | LedgerTool


class Toolbox:
    """Tools by name. Immutable once built."""

    def __init__(self, tools: Sequence[AnyTool]) -> None:
        """Load all tools, or none.

        Raises:
            ToolValidationError: with every fault of every contract in ``facts["faults"]``; ``tool`` and ``field`` name the
                first.
            CycleDetected: dependencies form a cycle.
        """
        faults = [fault for tool in tools for fault in faults_of(tool)]
        _refuse(faults)
        by_name = {tool.contract.name: tool for tool in tools}
        faults = _name_faults(tools, by_name)
        _refuse(faults)
        order = in_dependency_order({name: tool.contract.dependencies for name, tool in by_name.items()})
        self._tools = {name: by_name[name] for name in order}
        self.contracts: Mapping[str, ToolContract] = MappingProxyType({n: t.contract for n, t in self._tools.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """All names, dependencies before those that need them."""
        return tuple(self._tools)

    def find(self, name: str) -> AnyTool:
        """Return the tool of this name.

        Raises:
            ToolValidationError: there is none.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolValidationError(f"there is no tool {name}", tool=name, field="tool")
        return tool

    def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> BaseModel:
        """Return the validated arguments of a call.

        Raises:
            ToolValidationError: no such tool, or an argument is missing, unknown or of the wrong type; names each.
        """
        return _validated(name, self.find(name).contract.schema.arguments, arguments, "arguments")

    def check_result(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result as JSON-ready fields.

        Raises:
            ToolValidationError: the tool did not keep its result contract.
        """
        return _validated(name, self.find(name).contract.schema.result, value, "result").model_dump(mode="json")

    def not_ready(self, names: Iterable[str]) -> dict[str, str]:
        """Return which of these tools cannot be called now, each with why, in words fit to be spoken (S8). Unknown ones have
        nothing to say about that."""
        whys = {name: _why_not_ready(self._tools[name]) for name in names if name in self._tools}
        return {name: why for name, why in whys.items() if why}


def bound_s(tool: AnyTool) -> float:
    """Return how long a call may take, in s. A tool in a process of its own is killed at its bound by the process's warden, on
    the warden's clock, so its answer gets a second more to arrive."""
    contract = tool.contract
    return contract.sla.max_execution_time_ms / 1000 + (1.0 if contract.isolation is Isolation.PROCESS else 0.0)


def record_of(tool: AnyTool, call: ToolCall, value: Mapping[str, Any]) -> Record | None:
    """Return what the coordinator is to hear of an applied call, if the tool has such a record."""
    return tool.record_of(call, value) if _is_recorded(tool) else None


def _is_recorded(tool: AnyTool) -> TypeGuard[RecordedTool]:
    return hasattr(tool, "record_of")


def _why_not_ready(tool: AnyTool) -> str:
    return tool.not_ready() if _is_guarded(tool) else ""


def _is_guarded(tool: object) -> TypeGuard[GuardedTool]:
    return hasattr(tool, "not_ready")


def is_outside_tool(tool: AnyTool) -> TypeGuard[Tool]:
    """Whether the tool reads or changes the world outside the ledger."""
    return hasattr(tool, "run")


def is_ledger_tool(tool: AnyTool) -> TypeGuard[LedgerTool]:
    """Whether the tool's whole effect is rows in the ledger."""
    return hasattr(tool, "apply")


def is_verifiable(tool: AnyTool) -> TypeGuard[VerifiableTool]:
    """Whether the tool can find out later what happened."""
    return hasattr(tool, "verify")


def _name_faults(tools: Sequence[AnyTool], by_name: Mapping[str, AnyTool]) -> list[ContractFault]:
    names = [tool.contract.name for tool in tools]
    faults = [ContractFault(name, "name", "is used twice") for name in sorted({n for n in names if names.count(n) > 1})]
    for name, tool in by_name.items():
        missing = [d for d in tool.contract.dependencies if d not in by_name]
        faults += [ContractFault(name, "dependencies", f"there is no tool {dependency}") for dependency in missing]
    return faults


def _refuse(faults: Sequence[ContractFault]) -> None:
    if faults:
        told = [str(fault) for fault in faults]
        raise ToolValidationError("; ".join(told), tool=faults[0].tool, field=faults[0].field, faults=told)


def _validated(tool: str, model: type[BaseModel], content: Mapping[str, Any], part: str) -> BaseModel:
    try:
        return model.model_validate(dict(content))
    except ValidationError as error:
        # Values are left out: they may be what a person said.
        faults = [
            ContractFault(tool, ".".join(str(key) for key in fault["loc"]) or part, fault["msg"])
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        told = [str(fault) for fault in faults]
        raise ToolValidationError("; ".join(told), tool=tool, field=faults[0].field, faults=told) from error
