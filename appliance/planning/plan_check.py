"""Whether a plan is one (S8): its form, the tools it names, and the arguments it gives them. Pure.

What is filled in only when a step runs (``{steps.read.value}``) is not known yet: an argument that holds such a name is checked
then, by whoever runs the step; that the named tool gives such a field is checked here. Optional steps are checked when they run,
also whether there is such a tool: they may fail without failing the turn.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.contracts.condition import LONGEST, condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import PLAYBOOK_SOURCE, Plan
from appliance.contracts.tool import ToolContract
from appliance.planning.result_names import gives, lone_brace, names_of_results

MOST_STEPS = 64  # the longest shipped playbook has a dozen

_NAME = re.compile(r"(?<!\{)\{[^{}]+\}")


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StepForm(_Closed):
    """One step as JSON."""

    id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    tool: str = Field(min_length=1, max_length=64)
    arguments: dict[str, Any]
    when: str = Field(max_length=LONGEST)
    optional: bool
    after: list[str] = Field(max_length=MOST_STEPS)
    expects: str = Field(max_length=400)


class PlanForm(_Closed):
    """A plan as JSON: what a planner of any kind has to hand in."""

    intent: str = Field(min_length=1, max_length=128)
    source: str = Field(min_length=1, max_length=256)
    steps: list[StepForm] = Field(min_length=1, max_length=MOST_STEPS)
    estimate_s: float = Field(ge=0)
    goes_on: bool = False


def check(plan: Plan, tools: Mapping[str, ToolContract]) -> None:
    """Check a plan against its schema and against the contracts of its tools.

    Raises:
        Malformed: it is no plan; the message names every fault, facts hold them one by one.
    """
    faults = list(_faults(plan, tools))
    if faults:
        raise Malformed(f"the plan is not one: {'; '.join(faults)}", faults=faults)


def _faults(plan: Plan, tools: Mapping[str, ToolContract]) -> Iterator[str]:
    stored = plan.to_json()
    try:
        PlanForm.model_validate({**stored, "steps": [{**step, "after": list(step["after"])} for step in stored["steps"]]})
    except ValidationError as error:
        yield from (f"{_place(fault['loc'])}: {fault['msg']}" for fault in error.errors(include_url=False, include_input=False))
        return
    seen: dict[str, ToolContract | None] = {}
    for step in plan.steps:
        if step.id in seen:
            yield f"{step.id}: there are two steps of this id"
        yield from (f"{step.id}: {fault}" for fault in _condition_faults(step.when, seen))
        yield from (f"{step.id}: after {name!r}: there is no earlier step of this id" for name in step.after if name not in seen)
        contract = seen[step.id] = tools.get(step.tool)
        if step.optional:  # an alarm is told all the same when its machine has no tags to read beside it
            continue
        if contract is None:
            yield f"{step.id}: there is no tool {step.tool}"
        else:
            yield from (f"{step.id}.{fault}" for fault in _argument_faults(step.arguments, contract))
            if not plan.source.startswith(PLAYBOOK_SOURCE):  # looked at when it was loaded, and an alarm's is told in any case
                yield from (f"{step.id}: {fault}" for fault in _result_faults(step.arguments, seen))


def _condition_faults(when: str, seen: Container[str]) -> Iterator[str]:
    try:
        condition = condition_of(when)
    except Malformed as error:
        yield error.message
        return
    if any(name not in seen for name in condition.steps):
        yield f"{when!r} names no earlier step"


def _argument_faults(arguments: Mapping[str, Any], contract: ToolContract) -> Iterator[str]:
    for name, value in arguments.items():
        if brace := _lone_brace(value):
            yield f"{name}: a single {brace}; write it twice for a brace"
    try:
        contract.schema.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False, include_context=False):
            name = str(fault["loc"][0]) if fault["loc"] else ""
            if not _is_open(arguments.get(name)):
                yield f"{_place(fault['loc'])}: {fault['msg']}"


def _result_faults(arguments: Mapping[str, Any], seen: Mapping[str, ToolContract | None]) -> Iterator[str]:
    for name, field in names_of_results(arguments):
        contract = seen.get(name)
        if contract is not None and not gives(contract, field):
            yield f"{{steps.{name}.{field}}}: {contract.name} gives no such field"


def _lone_brace(value: Any) -> str:
    match value:
        case str():
            return lone_brace(value)
        case Mapping():
            return next(filter(None, map(_lone_brace, value.values())), "")
        case list() | tuple():
            return next(filter(None, map(_lone_brace, value)), "")
        case _:
            return ""


def _is_open(value: Any) -> bool:
    """Whether a value holds a name that is filled in later."""
    match value:
        case str():
            return _NAME.search(value) is not None
        case Mapping():
            return any(_is_open(item) for item in value.values())
        case list() | tuple():
            return any(_is_open(item) for item in value)
        case _:
            return False


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "plan"
