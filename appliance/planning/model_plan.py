"""A model's plan: the schema it is asked to follow, and what becomes of its answer. Pure.

The schema is only a help to the model. Whatever comes back is read as a stranger's: parsed, bounded, checked against the tools
that were offered and their arguments, and turned into our own steps. It cannot name a tool that was not offered, give an
argument that is ours, reach anything but results of its own reading steps, or hand in a person's consent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Step
from appliance.contracts.tool import ToolContract
from appliance.foundation.untrusted import clean
from appliance.planning.tool_choice import own_arguments

MOST_STEPS = 8
"""Steps of one round; what needs more is a playbook."""

_LONGEST_REPLY = 20_000  # characters; a plan of MOST_STEPS steps has a tenth of that
_LONGEST_TEXT = 600
_LONGEST_SAID = 400  # characters; half a minute of speech
_NAME = re.compile(r"\{steps\.([a-z0-9_]{1,16})((?:\.[A-Za-z0-9_-]{1,64}){1,6})\}")
_NOT_IN_SCHEMA = frozenset({"title", "default", "description", "examples", "format", "pattern"})


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ModelStep(_Closed):
    """One step as a model writes it."""

    id: str = Field(pattern=r"^[a-z0-9_]{1,16}$")
    tool: str = Field(min_length=1, max_length=64)
    arguments: dict[str, Any] = Field(default_factory=dict)
    after: list[str] = Field(default_factory=list, max_length=MOST_STEPS)


class ModelPlan(_Closed):
    """A plan as a model writes it. ``goes_on``: it wants to see the results before it answers."""

    steps: list[ModelStep] = Field(min_length=1, max_length=MOST_STEPS)
    goes_on: bool = False


def schema_of(tools: Mapping[str, ToolContract], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the JSON Schema of a plan over these tools. ``names``: argument -> what it may be (``keys`` -> the tags shown)."""
    return {
        "type": "object",
        "properties": {
            "steps": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_STEPS,
                "items": {"anyOf": [_step_schema(contract, names) for contract in tools.values()]},
            },
            "goes_on": {"type": "boolean"},
        },
        "required": ["steps", "goes_on"],
        "additionalProperties": False,
    }


def read(text: str) -> ModelPlan:
    """Return the plan a model wrote; what stands round the object, such as a code fence, is passed over.

    Raises:
        Malformed: it is none; the message says what is wrong, without repeating what was written.
    """
    if len(text) > _LONGEST_REPLY:
        raise Malformed(f"the answer has {len(text)} characters; at most {_LONGEST_REPLY} are read")
    begins, ends = text.find("{"), text.rfind("}")
    if begins < 0 or ends < begins:
        raise Malformed("there is no JSON object in the answer")
    try:
        told = json.loads(text[begins : ends + 1], parse_constant=_refuse_constant)
        return ModelPlan.model_validate(told)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ValidationError):
            raise Malformed("; ".join(_told(error))) from error
        raise Malformed(
            "the answer is not JSON" + (" (it is nested too deeply)" if isinstance(error, RecursionError) else "")
        ) from error


def steps_of(plan: ModelPlan, tools: Mapping[str, ToolContract], prefix: str) -> tuple[Step, ...]:
    """Return a model's steps as ours, with ``prefix`` before each id. What is read twice in the same way is read once.

    Raises:
        Malformed: naming every fault, in words for the model.
    """
    faults: list[str] = []
    steps: list[Step] = []
    readers: dict[str, str] = {}
    ours: dict[str, str] = {}
    taken: set[str] = set()
    for told in plan.steps:
        contract = tools.get(told.tool)
        if told.id in taken:
            faults.append(f"step {told.id}: there are two steps of this id")
        faults += [
            f"step {told.id}: after {name!r}: there is no earlier step of this id" for name in told.after if name not in taken
        ]
        if contract is None:
            faults.append(f"step {told.id}: there is no tool {clean(told.tool, 64)}")
            continue
        faults += [f"step {told.id}: {name} is not yours to give" for name in told.arguments if name in own_arguments(contract)]
        if contract.changes_something and _has_braces(told.arguments):
            faults.append(f"step {told.id}: what changes something takes no results of other steps; write the value itself")
        taken.add(told.id)
        arguments = {name: _ours(value, readers) for name, value in told.arguments.items()}
        is_reading = not contract.changes_something and not contract.extends_plan and told.tool != "say"
        same = next((s for s in steps if is_reading and (s.tool, s.arguments) == (told.tool, arguments)), None)
        ours[told.id] = f"{prefix}{told.id}" if same is None else same.id
        if same is None:
            after = tuple(dict.fromkeys(ours[name] for name in told.after if name in ours))
            steps.append(Step(ours[told.id], told.tool, arguments, after=after))
        if not contract.changes_something:
            readers[told.id] = ours[told.id]
    if faults:
        raise Malformed("; ".join(faults), faults=faults)
    return tuple(steps)


def _ours(value: Any, readers: Mapping[str, str], depth: int = 1) -> Any:
    """Return a value bounded, visible, and with every brace literal but those that name a result of an earlier reading step."""
    if depth > 6:
        raise Malformed("arguments are nested deeper than 6")
    match value:
        case str():
            return _text(clean(value, _LONGEST_TEXT), readers)
        case Mapping():
            return {clean(str(key), 64): _ours(item, readers, depth + 1) for key, item in value.items()}
        case list():
            return [_ours(item, readers, depth + 1) for item in value[:100]]
        case float() if not isfinite(value):
            raise Malformed("a number is too large")
        case _:
            return value


def _text(text: str, readers: Mapping[str, str]) -> str:
    pieces, end = [], 0
    for found in _NAME.finditer(text):
        if found[1] in readers:
            pieces += [_literal(text[end : found.start()]), f"{{steps.{readers[found[1]]}{found[2]}}}"]
            end = found.end()
    return "".join([*pieces, _literal(text[end:])])


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _has_braces(value: Any) -> bool:
    match value:
        case str():
            return "{" in value or "}" in value
        case Mapping():
            return any(_has_braces(each) for pair in value.items() for each in pair)
        case list():
            return any(_has_braces(each) for each in value)
        case _:
            return False


def _step_schema(contract: ToolContract, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    given = contract.schema.arguments.model_json_schema()
    own, definitions = own_arguments(contract), given.get("$defs", {})
    properties = {
        name: _argument_schema(name, told, definitions, names)
        for name, told in given.get("properties", {}).items()
        if name not in own
    }
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string", "maxLength": 16},
            "tool": {"const": contract.name},
            "arguments": {
                "type": "object",
                "properties": properties,
                "required": [name for name in given.get("required", ()) if name in properties],
                "additionalProperties": False,
            },
        },
        "required": ["id", "tool", "arguments"],
        "additionalProperties": False,
    }


def _argument_schema(name: str, told: Any, definitions: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> Any:
    known = names.get(name)
    if known and told.get("type") == "string":
        return {"enum": list(known)}
    if known and told.get("type") == "array":
        return {"type": "array", "items": {"enum": list(known)}, "minItems": 1, "maxItems": 4}
    plain = _plain(told, definitions, 1)
    if plain.get("type") == "string" and "enum" not in plain:
        plain["maxLength"] = min(int(plain.get("maxLength", _LONGEST_SAID)), _LONGEST_SAID)  # short: so is a reply
    return plain


def _plain(told: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    """Return a schema without references and without what grammars of model servers do not take."""
    if depth > 6 or not isinstance(told, Mapping):
        return {} if isinstance(told, Mapping) else told
    if "$ref" in told:
        return _plain(definitions.get(str(told["$ref"]).rpartition("/")[2], {}), definitions, depth + 1)
    kept: dict[str, Any] = {}
    for key, value in told.items():
        if key == "properties":
            kept[key] = {name: _plain(each, definitions, depth + 1) for name, each in value.items()}
        elif key in ("anyOf", "oneOf", "allOf"):
            kept[key] = [_plain(each, definitions, depth + 1) for each in value]
        elif isinstance(value, Mapping):
            kept[key] = _plain(value, definitions, depth + 1)
        elif key not in _NOT_IN_SCHEMA:
            kept[key] = value
    return kept


def _told(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_input=False, include_context=False)[:MOST_STEPS]:
        yield f"{'.'.join(clean(str(part), 32) for part in fault['loc']) or 'plan'}: {fault['msg']}"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
