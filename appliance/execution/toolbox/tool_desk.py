"""Tools as people look at them: contracts at a glance, and measurements. Implements ``ToolActs``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from appliance.contracts.tool import Isolation, ToolContract
from appliance.execution.toolbox.stress import Stress
from appliance.execution.toolbox.third_party import ThirdParty
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox, is_ledger_tool

_SHIPPED = "floorhand"


class ToolDesk:
    """Shows the toolbox."""

    def __init__(self, toolbox: Toolbox, found: ThirdParty, stress: Stress) -> None:
        self._toolbox = toolbox
        self._found = found
        self._stress = stress

    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the tools by name, those that were left out or are disabled behind them."""
        loaded = [self._glance(self._toolbox.find(name)) for name in sorted(self._toolbox.names)]
        left_out = {
            name: why
            for name, why in {**self._found.left_out, **self._toolbox.left_out}.items()
            if name not in self._toolbox.contracts  # what bears the name of a tool that ships: its own row is that tool's
        }
        away = [{"name": name, "why": f"left out: {why}"} for name, why in sorted(left_out.items())]
        disabled = [name for name in self._found.disabled if name not in self._toolbox.contracts]
        away += [{"name": name, "why": "disabled in appliance.yaml"} for name in disabled]
        return [*loaded, *({**each, "source": self._source(each["name"])} for each in away)]

    def tool(self, name: str) -> Mapping[str, Any]:
        """Return one tool with everything it declares."""
        tool = self._toolbox.find(name)
        contract = tool.contract
        return {
            **self._glance(tool),
            "dependencies": list(contract.dependencies),
            "resource": contract.resource,
            "fallback_tool": contract.fallback_tool,
            "overwrites": contract.overwrites,
            "refused_on_hold": contract.has_effect or contract.is_held,
            "can_verify": hasattr(tool, "verify"),
            "can_restore": hasattr(tool, "restore"),
            "telemetry": asdict(contract.telemetry),
            "input_schema": contract.schema.input_schema,
            "output_schema": contract.schema.output_schema,
        }

    def stress(self, name: str, arguments: Mapping[str, Any], runs: int) -> AsyncGenerator[Mapping[str, Any]]:
        """Measure a tool."""
        return self._stress.measure(name, arguments, runs)

    def _glance(self, tool: AnyTool) -> dict[str, Any]:
        contract = tool.contract
        return {
            "name": contract.name,
            "description": contract.description,
            "level": contract.security.access_level.word,
            "bound_ms": contract.sla.max_execution_time_ms,
            "retries": contract.sla.retries,
            "scope": contract.security.data_scope,
            "effect": contract.has_effect,
            "kind": _kind(tool),
            "source": self._source(contract.name),
            "arguments": arguments_of(contract),
            "why": self._toolbox.not_ready([contract.name]).get(contract.name, ""),
        }

    def _source(self, name: str) -> str:
        is_taken = name in self._found.kinds and name not in self._toolbox.left_out  # left out may be one that has a shipped name
        is_theirs = is_taken or name not in self._toolbox.contracts
        return self._found.packages.get(name, _SHIPPED) if is_theirs else _SHIPPED


def arguments_of(contract: ToolContract) -> str:
    """Return the arguments on one line: ``key text, value number or text, what text [note text]``, optional ones in brackets."""
    schema = contract.schema.input_schema
    required = schema.get("required", ())
    told = {name: f"{name} {_type(part, schema.get('$defs', {}))}" for name, part in schema.get("properties", {}).items()}
    needed = ", ".join(words for name, words in told.items() if name in required)
    return " ".join([needed, *(f"[{words}]" for name, words in told.items() if name not in required)]).strip()


def _kind(tool: AnyTool) -> str:
    if is_ledger_tool(tool):
        return "ledger"
    return "process" if tool.contract.isolation is Isolation.PROCESS else "core"


_WORDS = {"string": "text", "boolean": "yes or no", "object": "fields", "null": "nothing"}


def _type(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return a type in words."""
    if "$ref" in part:
        return _type(definitions[part["$ref"].rpartition("/")[2]], definitions)
    if "enum" in part:
        return "|".join(str(choice) for choice in part["enum"])
    if "const" in part:
        return str(part["const"])
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_type(option, definitions) for option in part["anyOf"]))
    if part.get("type") == "array":
        return f"list of {_type(part.get('items', {}), definitions)}"
    kind = str(part.get("type", "anything"))
    return _WORDS.get(kind, kind)
