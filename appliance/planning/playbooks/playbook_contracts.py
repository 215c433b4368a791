"""What of a playbook's steps their tools would refuse: arguments that are known when it is loaded, against the tools' own models.

A text with names in braces is filled when its step runs, so of it only what cannot get better is a fault: that it is too long
without them, and a pattern that no part of it may break. In: steps and parameters, and the contracts of the tools that are known.
Out: faults (key, what is wrong, cure). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from appliance.contracts.tool import ToolContract
from appliance.foundation.invalid_input import words_of
from appliance.foundation.yaml_file import Fault
from appliance.planning.playbooks.playbook_steps import (
    Call,
    NumberParameter,
    Parameter,
    PlaybookStep,
    RunPlaybook,
    names_in,
    spellings,
    texts_of,
)

NO_CONTRACTS: Mapping[str, ToolContract] = MappingProxyType({})
"""Contracts of no tools: nothing is said of their arguments."""

_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_STILL_WRONG_WHEN_FILLED = frozenset({"string_too_long"})


def argument_faults(
    steps: Sequence[PlaybookStep], parameters: Mapping[str, Parameter], contracts: Mapping[str, ToolContract]
) -> Iterator[Fault]:
    """Yield each argument that its tool would not take. Nothing is said of tools of other packages, nor of
    ``run_playbook``, whose arguments are looked at beside the playbook it runs."""
    for n, step in enumerate(steps):
        contract = contracts.get(step.tool)
        if contract is None or isinstance(step, Call | RunPlaybook):
            continue
        found = dict[tuple[str, str], None]()  # a text in two languages may be wrong in the same way
        for given in _spelled(step, parameters):
            found |= dict.fromkeys(_faults_of(given, contract))
        yield from ((f"steps.{n} ({step.id}).arguments.{name}", what, "Correct it.") for name, what in found)


def _spelled(step: PlaybookStep, parameters: Mapping[str, Parameter]) -> Iterator[dict[str, Any]]:
    """Yield the arguments as they may come to the tool, as far as they are known: each text in each language, and a number that
    somebody says at both of its bounds."""
    texts = [name.partition(".")[2] for name, _ in texts_of(step)]
    values = {name: value for name, value in step.arguments if value is not None}
    plain = {name: value for name, value in values.items() if name not in texts and value != ""}
    for name, value in values.items():
        if name in texts:
            yield from ({name: each} for each in _in_each_language(value))
        elif value == "" and type(step.arguments).model_fields[name].is_required():
            yield {name: ""}
    for name, value in plain.items():
        said = parameters.get(value[1:-1]) if isinstance(value, str) and value.startswith("{") else None
        yield from ({name: each} for each in (said.low, said.high)) if isinstance(said, NumberParameter) else ({name: value},)


def _in_each_language(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from ([each] for text in value for each in spellings(text))
    else:
        yield from spellings(value)


def _faults_of(given: Mapping[str, Any], contract: ToolContract) -> Iterator[tuple[str, str]]:
    """Yield (argument, what is wrong) of what is given; that others are missing is no fault here."""
    (name, value), *_ = given.items()
    if name not in contract.schema.arguments.model_fields:
        return
    text = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_open = isinstance(text, str) and bool(names_in(text))
    known = _PLACEHOLDER.sub("", text).strip() if isinstance(text, str) else text
    try:
        contract.schema.arguments.model_validate({name: [known] if isinstance(value, list) else known})
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False, include_context=False):
            if fault["loc"][:1] != (name,) or (is_open and fault["type"] not in _STILL_WRONG_WHEN_FILLED):
                continue
            yield name, words_of(fault)
