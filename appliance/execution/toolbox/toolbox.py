"""The tools that were loaded: contracts checked, dependencies sorted, found by name.

In: tool objects, built by ``app`` with their ports. Out: the tool of a name, its contract, and validated arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from appliance.contracts.errors import BrokenResult, Fault, ToolValidationError
from appliance.contracts.principal import AccessLevel
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
from appliance.execution.toolbox.contract_check import ContractFault, faults_of
from appliance.execution.toolbox.dependency_order import in_dependency_order
from appliance.execution.toolbox.tool_graph import cycle_among, faults_among
from appliance.foundation.canonical import canonical_json
from appliance.foundation.supervisor import contained_call, why_of

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
        _refuse(faults_among(tools))
        self._take(tools)

    def _take(self, tools: Sequence[AnyTool]) -> None:
        """Take tools that were checked."""
        by_name = {tool.contract.name: tool for tool in tools}
        order = in_dependency_order({name: tool.contract.dependencies for name, tool in by_name.items()})
        self._tools = {name: by_name[name] for name in order}
        self.contracts: Mapping[str, ToolContract] = MappingProxyType({n: t.contract for n, t in self._tools.items()})
        self.left_out: Mapping[str, str] = {}
        """Third-party tools that were not taken, each with why."""

    @classmethod
    def load(cls, shipped: Sequence[AnyTool], third_party: Mapping[str, AnyTool]) -> Toolbox:
        """Load the shipped tools, and of the others, by the names they were declared by, those that are in order.

        What is wrong with one of the others leaves out that one, and those that need it: :attr:`left_out` says which and why.

        Raises:
            ToolValidationError, CycleDetected: something is wrong with a shipped tool, as for :class:`Toolbox`.
        """
        box = cls(shipped)
        taken, left_out = dict(third_party), {name: why for name, tool in third_party.items() if (why := _own_fault(name, tool))}
        names = {tool.contract.name for tool in shipped}
        left_out |= {name: f"{name}: name: is taken by a tool that ships" for name in taken if name in names}
        while True:
            taken = {name: tool for name, tool in taken.items() if name not in left_out}
            fresh = _faults_of_more(shipped, taken)
            if not fresh:
                break
            left_out |= fresh
        box._take([*shipped, *taken.values()])  # each was checked: what it is made of is not asked twice
        box.left_out = MappingProxyType(left_out)
        return box

    @property
    def names(self) -> tuple[str, ...]:
        """All names, dependencies before those that need them."""
        return tuple(self._tools)

    def visible_to(self, level: AccessLevel) -> Mapping[str, ToolContract]:
        """Return the contracts of the tools this level may call. For whoever plans with it there are no others (T3)."""
        return {name: told for name, told in self.contracts.items() if told.security.access_level <= level}

    def find(self, name: str) -> AnyTool:
        """Return the tool of this name.

        Raises:
            ToolValidationError: there is none.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise unknown_tool(name)
        return tool

    def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> BaseModel:
        """Return the validated arguments of a call.

        Raises:
            ToolValidationError: no such tool, or an argument is missing, unknown or of the wrong type; names each.
        """
        checked, _ = _validated(name, self.find(name).contract.schema.arguments, arguments, "arguments")
        return checked

    def check_result(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result as JSON-ready fields.

        Raises:
            BrokenResult: the tool did not keep its result contract.
        """
        model = self.find(name).contract.schema.result
        _, fields = _validated(name, model, value, "result", BrokenResult)
        return fields

    def not_ready(self, names: Iterable[str]) -> dict[str, str]:
        """Return which of these tools cannot be called now, each with why, in words fit to be spoken (S8). Unknown ones have
        nothing to say about that."""
        whys = {name: _why_not_ready(self._tools[name]) for name in names if name in self._tools}
        return {name: why for name, why in whys.items() if why}


def unknown_tool(name: str) -> ToolValidationError:
    """Return what is said of a tool that is not there, or that whoever asks must not learn of (T3)."""
    cure = "`floorhand tools list` shows those there are."
    return ToolValidationError(f"there is no tool {name}", tool=name, field="tool", cure=cure).worded("plan_no_tool")


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


def _own_fault(name: str, tool: AnyTool) -> str:
    faults = faults_of(tool)
    if faults:
        return "; ".join(map(str, faults))
    if tool.contract.name != name:
        return f"{name}: name: the entry point says {name}, the contract {tool.contract.name}"
    if is_ledger_tool(tool):
        return f"{name}: apply: the rows of the ledger are written by tools that ship alone"
    if _is_recorded(tool):
        return f"{name}: record_of: the operation log is written by tools that ship alone"
    return ""


def _faults_of_more(shipped: Sequence[AnyTool], more: Mapping[str, AnyTool]) -> dict[str, str]:
    """Return what is wrong between ``more`` tools and the others, by the names of those that have to go."""
    found: dict[str, str] = {}
    for fault in faults_among([*shipped, *more.values()]):
        found[fault.tool] = f"{found[fault.tool]}; {fault}" if fault.tool in found else str(fault)
    cycle = cycle_among({name: tool.contract for name, tool in more.items()})
    if not found and cycle is not None:
        return dict.fromkeys(cycle.facts["tools"], f"CycleDetected: {cycle.message}")  # type: ignore[call-overload,no-any-return]
    return found


def _refuse(faults: Sequence[ContractFault]) -> None:
    if faults:
        told = [str(fault) for fault in faults]
        raise ToolValidationError("; ".join(told), tool=faults[0].tool, field=faults[0].field, faults=told)


def _validated(
    tool: str,
    model: type[BaseModel],
    content: Mapping[str, Any],
    part: str,
    kind: type[ToolValidationError] = ToolValidationError,
) -> tuple[BaseModel, dict[str, Any]]:
    """Return content as its model, and as JSON has it. The program of a model is its tool's, and may break.

    A result has to be such that it can be stored: no NaN, no circle, no half of a surrogate.
    """

    def validate() -> tuple[BaseModel, dict[str, Any]]:
        checked = model.model_validate(dict(content))
        return checked, checked.model_dump(mode="json")

    try:
        checked, fields = contained_call(validate, passing=(ValidationError, PydanticSerializationError), is_foreign=True)
        if kind is BrokenResult:
            canonical_json(fields).encode()
        return checked, fields
    except ValidationError as error:
        # Values are left out: they may be what a person said.
        faults = [
            ContractFault(tool, ".".join(str(key) for key in fault["loc"]) or part, fault["msg"])
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        told = [str(fault) for fault in faults]
        raise kind("; ".join(told), tool=tool, field=faults[0].field, faults=told) from error
    except (Fault, ValueError, TypeError, RecursionError) as error:
        why = error.why if isinstance(error, Fault) else why_of(error)
        told = [str(ContractFault(tool, part, f"is no JSON, or its model is broken: {why}"))]
        raise kind(told[0], tool=tool, field=part, faults=told) from error
