"""Checks a tool's four contracts when it is loaded (T1). Pure: in goes a tool, out come all of its faults at once.

Nothing of a contract is used before its type is known to be the declared one: who wrote it may have written anything.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from appliance.contracts.errors import FloorhandError
from appliance.contracts.tool import Isolation, ToolContract
from appliance.execution.toolbox.contract_types import wrong_types
from appliance.execution.workers.process_tool import ProcessTool
from appliance.foundation.supervisor import contained_call

LONGEST_CALL_MS = 45_000  # ceiling of every tool; requirements S6
DATA_SCOPES = ("field", "memory", "ledger", "speech")

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ASYNC = ("run", "verify", "snapshot", "restore")
_AT_ONCE = ("apply", "not_ready", "level_of", "resources_of", "record_of", "uses")


@dataclass(frozen=True, slots=True)
class ContractFault:
    """One thing wrong: which tool, which field of its contract or arguments, and why."""

    tool: str
    field: str
    why: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.field}: {self.why}"


def faults_of(tool: object) -> list[ContractFault]:
    """Return everything that is wrong with a tool's contracts; nothing when it may be loaded. Raises nothing, whatever they are.

    While a part is of the wrong type, only such faults are named: the others cannot be told.
    """
    name = type(tool).__name__
    try:
        contract = contained_call(lambda: getattr(tool, "contract", None), is_foreign=True)
        if type(contract) is not ToolContract:  # no kind of it either: what that would answer is not known
            return [ContractFault(name, "contract", "is missing" if contract is None else "must be a ToolContract")]
        name = contract.name if type(contract.name) is str else name
        found = list(wrong_types(contract)) or contained_call(lambda: _wrong(tool, contract), is_foreign=True)
    except FloorhandError as fault:
        found = [("contract", f"cannot be checked: {fault.message}")]
    return [ContractFault(name, field, why) for field, why in found]


def _wrong(tool: object, contract: ToolContract) -> list[tuple[str, str]]:
    return [*_shape(tool, contract), *_schema(contract), *_bounds(tool, contract)]


def _shape(tool: object, contract: ToolContract) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(contract.name):
        yield "name", "must be lower case letters, digits and underscores"
    if not contract.description.strip():
        yield "description", "is empty"
    if contract.resource and not _NAME.fullmatch(contract.resource):
        yield "resource", "must be a plain word: lower case letters, digits and underscores"
    if _has(tool, "run") == _has(tool, "apply"):
        yield "run", "a tool has either run or apply"
    for name in (*_ASYNC, *_AT_ONCE):
        method = getattr(tool, name, None)
        if method is not None and (not callable(method) or inspect.iscoroutinefunction(method) is not (name in _ASYNC)):
            yield name, "must be an async def" if name in _ASYNC else "must be a plain def"
    if (contract.isolation is Isolation.PROCESS) is not isinstance(tool, ProcessTool):
        yield "isolation", "a tool in a process of its own is built by in_own_process, and no other is"
    yield from _parts(tool, contract)


def _parts(tool: object, contract: ToolContract) -> Iterator[tuple[str, str]]:
    """What a tool may have besides, and what has to be true for it."""
    applies = _has(tool, "apply")
    if contract.has_effect and applies:
        yield "has_effect", "what a ledger tool does stays in the ledger"
    if contract.extends_plan and not applies:
        yield "extends_plan", "only a ledger tool appends steps, in the commit that ends its own"
    for name in ("verify", "snapshot", "restore"):
        if _has(tool, name) and not contract.has_effect:
            yield name, f"only a tool with an effect has something to {name}"
    if _has(tool, "snapshot") is not _has(tool, "restore"):
        yield "restore", "snapshot and restore are of use only together"
    if _has(tool, "uses") and applies:
        yield "uses", "a ledger tool is done within one commit and can call no other"
    if _has(tool, "uses") and not contract.dependencies:
        yield "dependencies", "a tool that calls others names them"


def _schema(contract: ToolContract) -> Iterator[tuple[str, str]]:
    for part in ("arguments", "result"):
        model = getattr(contract.schema, part)
        if not issubclass(model, BaseModel):
            yield part, "must be a pydantic model"
            return
        if model.model_json_schema().get("additionalProperties") is not False:
            yield part, 'must refuse unknown fields: give its model `model_config = ConfigDict(extra="forbid")`'
    schema = contract.schema.arguments.model_json_schema()
    properties: Mapping[str, Any] = schema.get("properties", {})
    yield from _compared("required_fields", contract.schema.required_fields, schema.get("required", ()), properties)
    nullable = [name for name, property_ in properties.items() if _is_nullable(property_)]
    yield from _compared("nullable_fields", contract.schema.nullable_fields, nullable, properties)
    choices = {name: found for name, p in properties.items() if (found := _choices(p, schema.get("$defs", {})))}
    declared = contract.schema.enum_constraints
    yield from _compared("enum_constraints", tuple(declared), choices, properties)
    for name in declared.keys() & choices.keys():
        if set(declared[name]) != set(choices[name]):
            yield name, f"enum_constraints says {_list(declared[name])}, the schema {_list(choices[name])}"
    for name in contract.telemetry.redact:
        if name not in properties:
            yield name, "is redacted but is no argument"


def _compared(kind: str, declared: tuple[str, ...], actual: Any, properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in declared:
        if name not in properties:
            yield name, f"{kind} names it but it is no argument"
        elif name not in actual:
            yield name, f"{kind} names it but the schema does not"
    for name in actual:
        if name not in declared:
            yield name, f"the schema says so but {kind} does not name it"


def _bounds(tool: object, contract: ToolContract) -> Iterator[tuple[str, str]]:
    sla, security, telemetry = contract.sla, contract.security, contract.telemetry
    if not 0 < sla.max_execution_time_ms <= LONGEST_CALL_MS:
        yield "max_execution_time_ms", f"must be 1 to {LONGEST_CALL_MS} ms, is {sla.max_execution_time_ms}"
    if sla.retries < 0:
        yield "retries", "must not be negative"
    if contract.has_effect and sla.retries and not (_has(tool, "snapshot") and _has(tool, "restore")):
        yield "retries", "a call with an effect is sent again only if snapshot and restore bring back what was before"
    if security.data_scope not in DATA_SCOPES:
        yield "data_scope", f"must be one of {_list(DATA_SCOPES)}"
    for name in ("on_start", "on_success", "on_failure"):
        if not getattr(telemetry, name):
            yield name, "is empty"


def _has(tool: object, name: str) -> bool:
    return callable(getattr(tool, name, None))


def _is_nullable(property_: Mapping[str, Any]) -> bool:
    return property_.get("type") == "null" or any(option.get("type") == "null" for option in property_.get("anyOf", ()))


def _choices(property_: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values an argument is limited to, looking through references and alternatives to null."""
    if "$ref" in property_:
        return _choices(definitions[property_["$ref"].rpartition("/")[2]], definitions)
    if "enum" in property_:
        return tuple(str(choice) for choice in property_["enum"])
    if "const" in property_:
        return (str(property_["const"]),)
    options = [o for o in property_.get("anyOf", ()) if o.get("type") != "null"]
    found = [_choices(option, definitions) for option in options]
    return tuple(choice for choices in found for choice in choices) if found and all(found) else ()


def _list(names: Any) -> str:
    return ", ".join(names)
