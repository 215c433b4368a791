"""Looks whether the rules about calls and writes, whose form is sound, mean something here: tools, tags and roles that exist, and
interlocks that can be judged by them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from inspect import getmembers, isclass

from appliance.contracts.interlock import faults_of
from appliance.contracts.plant import Plant
from appliance.contracts.third_party import ENTRY_POINTS
from appliance.contracts.tool import ToolContract
from appliance.execution import tools as shipped
from appliance.execution.rulebook import SUBJECT_FIELDS
from appliance.execution.settings import CallRule, WriteRule, matches_any
from appliance.settings import Settings
from appliance.settings_faults import nearest_cure
from appliance.settings_yaml import Key

RuleFault = tuple[Key, str, str]
"""Key of ``policies.yaml``, what is wrong there, and its cure."""

_LISTS = ("deny", "unattended", "ask", "allow")
_TOPIC = "topic"  # an argument whose values the plant model does not know


def rule_faults(settings: Settings) -> Iterator[RuleFault]:
    """Yield rules that are about nothing, texts in languages that are not spoken, and interlocks that cannot be judged."""
    for name in _LISTS:
        for index, rule in enumerate(getattr(settings.approvals, name)):
            yield from _call_faults(("approvals", name, index), rule, settings)
    for index, write in enumerate(settings.writes):
        yield from _write_faults(("writes", index), write, settings)


def _call_faults(key: Key, rule: CallRule, settings: Settings) -> Iterator[RuleFault]:
    known = tool_names()
    for at, pattern in enumerate(rule.tools):
        if not matches_any([pattern], known):
            yield (*key, "tools", at), f"there is no tool {pattern}", nearest_cure(pattern, sorted(known))
    about = [name for name in known if matches_any(rule.tools, [name])] if rule.tools else list(known)
    if not any(_TOPIC in _fields(name) for name in about) or not rule.tools:
        subjects = list(_subjects(settings.plant))
        for at, pattern in enumerate(rule.subjects):
            if not matches_any([pattern], subjects):
                what = f"{pattern} is no tag, asset or alarm of this plant"
                yield (*key, "subjects", at), what, nearest_cure(pattern, sorted(subjects))
    if rule.tools and rule.subjects and not any(_fields(name) & set(SUBJECT_FIELDS) for name in about):
        what = f"calls of {', '.join(rule.tools)} are about nothing that has a name"
        yield (*key, "subjects"), what, "Leave subjects out, or name another tool."
    for at, role in enumerate(rule.roles):
        if role not in settings.access.roles:
            yield (*key, "roles", at), f"there is no role {role}", nearest_cure(role, sorted(settings.access.roles))
    yield from _language_faults((*key, "why"), rule.why, settings)


def _write_faults(key: Key, rule: WriteRule, settings: Settings) -> Iterator[RuleFault]:
    tags = settings.plant.tag_by_key
    writable = sorted(name for name, tag in tags.items() if tag.writable)
    for at, pattern in enumerate(rule.tags):
        if matches_any([pattern], writable):
            continue
        if matches_any([pattern], tags):
            what, cure = f"{pattern} is not writable", f"Declare it so in plant.yaml, or name one that is: {', '.join(writable)}."
        else:
            what, cure = f"{pattern} is not a tag of this plant", nearest_cure(pattern, writable)
        yield (*key, "tags", at), what, cure
    for at, interlock in enumerate(rule.interlocks):
        place = (*key, "interlocks", at)
        for what, word in faults_of(interlock.expression, tags):
            yield (*place, "require"), what, _cure_of(word, settings.plant)
        yield from _language_faults((*place, "why"), interlock.why, settings)


def _cure_of(word: str, plant: Plant) -> str:
    """Say what was probably meant by a word of an interlock: a tag's key, or the name of a state."""
    if "." in word:
        return nearest_cure(word, sorted(plant.tag_by_key))
    names = {name for tag in plant.tags for name in tag.names.values()}
    if word:
        return nearest_cure(word, sorted(names))
    return "Compare numbers with numbers, names in quotes with states, and join what is true or false by and, or, not."


def _language_faults(key: Key, texts: Iterable[str], settings: Settings) -> Iterator[RuleFault]:
    for language in texts:
        if language not in settings.languages:
            yield (*key, language), f"{language} is not spoken here", nearest_cure(language, list(settings.languages))


def _subjects(plant: Plant) -> Iterator[str]:
    yield from plant.tag_by_key
    yield from plant.asset_by_id
    yield from plant.alarm_by_id


def tool_names() -> frozenset[str]:
    """Return the names of the tools that ship and of those that installed packages declare."""
    return frozenset(_contracts()) | {entry.name for entry in entry_points(group=ENTRY_POINTS)}


def _fields(tool: str) -> frozenset[str]:
    """Return the names of a tool's arguments. Those of another package's are not known before it is loaded: it may have any."""
    contract = _contracts().get(tool)
    return frozenset(SUBJECT_FIELDS) if contract is None else frozenset(contract.schema.arguments.model_fields)


@cache
def _contracts() -> dict[str, ToolContract]:
    found: dict[str, ToolContract] = {}
    for module in pkgutil.iter_modules(shipped.__path__):
        kinds = getmembers(importlib.import_module(f"{shipped.__name__}.{module.name}"), isclass)
        found |= {c.name: c for _, kind in kinds if isinstance(c := getattr(kind, "contract", None), ToolContract)}
    return found
