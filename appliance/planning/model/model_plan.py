"""A model's plan: the schema it is asked to follow, and what becomes of its answer. Pure.

The schema is only a help to the model. Whatever comes back is read as a stranger's: parsed, bounded, checked against the tools
that were offered and their arguments, and turned into our own steps. It cannot name a tool that was not offered, give an
argument that is ours, reach anything but results of its own reading steps, or hand in a person's consent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action, ActionState, Step
from appliance.contracts.tool import ToolContract
from appliance.foundation.untrusted import clean
from appliance.planning.model.tool_choice import own_arguments
from appliance.planning.result_names import gives

MOST_STEPS = 8
"""Steps of one round; what needs more is a playbook."""

_LONGEST_REPLY = 20_000  # characters; a plan of MOST_STEPS steps has a tenth of that
_LONGEST_TEXT = 600
_FIELDS_TOLD = 8
_LONGEST_SAID = 400  # characters; half a minute of speech
_NAME = re.compile(r"\{steps\.([a-z0-9_]{1,32})((?:\.[A-Za-z0-9_-]{1,64}){0,6})\}")
_ROUND = re.compile(r"m[1-9]_(.+)")
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


@dataclass(frozen=True, slots=True)
class _Reader:
    """A reading step whose result can be named: its id in the turn, what its tool gives, and what it was asked."""

    id: str
    contract: ToolContract
    arguments: Mapping[str, Any]

    @property
    def keys(self) -> Sequence[str]:
        """The tags it reads."""
        keys = self.arguments.get("keys")
        return list(dict.fromkeys(map(str, keys))) if isinstance(keys, list) else ()

    @property
    def reads_several(self) -> bool:
        """Whether it read several tags, so that there is no single ``value``: said, that would be "unknown"."""
        return len(self.keys) > 1

    def lacks(self, field: str) -> bool:
        """Whether ``field`` is the value of a tag that was not among those that were read."""
        first, _, key = field.partition(".")
        is_read = not key or any(key == read or key.startswith(f"{read}.") for read in self.keys)
        return first == "values" and bool(self.keys) and not is_read


def steps_of(
    plan: ModelPlan,
    tools: Mapping[str, ToolContract],
    prefix: str,
    earlier: Sequence[Action] = (),
    known: Mapping[str, ToolContract] | None = None,
) -> tuple[Step, ...]:
    """Return a model's steps as ours, with ``prefix`` before each id. What is read twice in the same way is read once.

    ``earlier`` are the steps of the rounds before, whose results can be named by the ids the model gave them; ``known`` are the
    tools they were made with.

    Raises:
        Malformed: naming every fault, in words for the model.
    """
    faults: list[str] = []
    steps: list[Step] = []
    readers = dict(_read_before(earlier, known or tools))
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
        faults += [f"step {told.id}: {fault}" for fault in _name_faults(told.arguments, readers)]
        arguments = {name: _ours(value, readers) for name, value in told.arguments.items()}
        is_reading = not contract.changes_something and not contract.extends_plan and told.tool != "say"
        same = next((s for s in steps if is_reading and (s.tool, s.arguments) == (told.tool, arguments)), None)
        ours[told.id] = f"{prefix}{told.id}" if same is None else same.id
        if same is None:
            after = tuple(dict.fromkeys(ours[name] for name in told.after if name in ours))
            steps.append(Step(ours[told.id], told.tool, arguments, after=after))
        if not contract.changes_something:
            readers[told.id] = _Reader(ours[told.id], contract, told.arguments)
    if faults:
        raise Malformed("; ".join(faults), faults=faults)
    return tuple(steps)


def _read_before(earlier: Sequence[Action], known: Mapping[str, ToolContract]) -> Iterator[tuple[str, _Reader]]:
    """Yield the reading steps of earlier rounds by the id the model gave them, and by their own; the newest last."""
    for step in earlier:
        contract = known.get(step.tool)
        if contract is None or contract.changes_something or step.state is not ActionState.DONE or step.result is None:
            continue
        reader = _Reader(step.step_id, contract, step.arguments)
        yield step.step_id, reader
        if found := _ROUND.fullmatch(step.step_id):
            yield found[1], reader


def _name_faults(value: Any, readers: Mapping[str, _Reader]) -> Iterator[str]:
    """Yield what is wrong with the results that are named: spoken as they stand they would be braces."""
    match value:
        case str():
            for found in _NAME.finditer(value):
                reader, field = readers.get(found[1]), found[2].removeprefix(".")
                if reader is None:
                    yield f"{clean(found[0], 64)}: there is no earlier reading step {found[1]}"
                elif not field or not gives(reader.contract, field, reader.keys):
                    fields = ", ".join([clean(name, 32) for name in reader.contract.schema.result.model_fields][:_FIELDS_TOLD])
                    yield f"{clean(found[0], 64)}: {reader.contract.name} gives {fields}"
                elif reader.lacks(field):
                    one = f"{{steps.{found[1]}.values.KEY}}"
                    read = ", ".join(clean(key, 64) for key in reader.keys[:_FIELDS_TOLD])
                    yield f"{clean(found[0], 100)}: {found[1]} reads {read}; write {one} for one of them"
                elif reader.reads_several and field.partition(".")[0] == "value":
                    yield f"{clean(found[0], 64)}: several tags were read; write {{steps.{found[1]}.values.KEY}} for one of them"
        case Mapping():
            for item in value.values():
                yield from _name_faults(item, readers)
        case list():
            for item in value:
                yield from _name_faults(item, readers)


def _ours(value: Any, readers: Mapping[str, _Reader], depth: int = 1) -> Any:
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


def _text(text: str, readers: Mapping[str, _Reader]) -> str:
    pieces, end = [], 0
    for found in _NAME.finditer(text):
        if found[1] in readers:
            pieces += [_literal(text[end : found.start()]), f"{{steps.{readers[found[1]].id}{found[2]}}}"]
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
