"""Looks whether the rules about calls and writes, whose form is sound, mean something here: tools, tags and roles that exist, and
interlocks that can be judged by them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from inspect import getmembers, isclass

from appliance.contracts.interlock_faults import InterlockFault, faults_of
from appliance.contracts.principal import AccessLevel
from appliance.contracts.third_party import ENTRY_POINTS
from appliance.contracts.tool import ToolContract
from appliance.execution import tools as shipped
from appliance.execution.approval.settings import CallRule, WriteRule, matches_any
from appliance.execution.approval.subjects import ALARMS, ASSETS, TAGS, TOPIC, WEBHOOK
from appliance.settings import POLICIES_FILE, Settings
from appliance.settings_faults import nearest_cure
from appliance.settings_yaml import Key

RuleFault = tuple[Key, str, str]
"""Key of ``policies.yaml``, what is wrong there, and its cure."""

_LISTS = ("deny", "unattended", "ask", "allow")
_ANY = "*"


def rule_faults(settings: Settings) -> Iterator[RuleFault]:
    """Yield rules that are about nothing, texts in languages that are not spoken, and interlocks that cannot be judged."""
    for name in _LISTS:
        for index, rule in enumerate(getattr(settings.approvals, name)):
            yield from _call_faults(("approvals", name, index), rule, settings)
    for index, write in enumerate(settings.writes):
        yield from _write_faults(("writes", index), write, settings)


def disabled_faults(settings: Settings) -> Iterator[RuleFault]:
    """Yield the tools that ship among those that are not to be loaded (``tools.disabled``, a key of ``appliance.yaml``)."""
    for at, name in enumerate(settings.tools.disabled):
        if name in shipped_tool_names():
            what = f"{name} ships, and only tools of other packages can be left out"
            yield ("tools", "disabled", at), what, "Refuse its calls in policies.yaml, below `approvals: deny:`."


def warnings_of(settings: Settings) -> list[str]:
    """Return what is no fault and may be a mistake: tools to be left out that no package brings, and reasons that are missing in
    a language that is spoken here."""
    known = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    unwanted = [
        f"appliance.yaml: tools.disabled: no installed package brings a tool {name}. {nearest_cure(name, sorted(known))}"
        for name in settings.tools.disabled
        if name not in known | shipped_tool_names()
    ]
    return [*unwanted, *_reasons_lacking(settings)]


def _reasons_lacking(settings: Settings) -> Iterator[str]:
    """Say which ``why`` is there in one language and not in another: people who speak that one hear the first."""
    told = {f"approvals.{name}[{n}]": rule.why for name in _LISTS for n, rule in enumerate(getattr(settings.approvals, name))}
    for n, write in enumerate(settings.writes):
        told |= {f"writes[{n}].interlocks[{at}]": each.why for at, each in enumerate(write.interlocks)}
    for key, why in told.items():
        if why and (lacking := sorted(set(settings.languages) - set(why))):
            spoken = ", ".join(lacking)
            yield f"{POLICIES_FILE}: {key}.why: is missing in {spoken}; another language is said there. Write it in {spoken}."


def _call_faults(key: Key, rule: CallRule, settings: Settings) -> Iterator[RuleFault]:
    known = tool_names()
    for at, pattern in enumerate(rule.tools):
        if not matches_any([pattern], known):
            yield (*key, "tools", at), f"there is no tool {pattern}", nearest_cure(pattern, sorted(known))
    yield from _subject_faults(key, rule, settings)
    for at, role in enumerate(rule.roles):
        if role not in settings.access.roles:
            yield (*key, "roles", at), f"there is no role {role}", nearest_cure(role, sorted(settings.access.roles))
    yield from _language_faults((*key, "why"), rule.why, settings)


def _subject_faults(key: Key, rule: CallRule, settings: Settings) -> Iterator[RuleFault]:
    """Yield subjects that no call the rule is about can have: it would look like a rule, and match nothing."""
    if not rule.subjects:
        return
    about = [name for name in tool_names() if matches_any(rule.tools or ["*"], [name])]
    names = {tool: _names_in(tool, settings) for tool in about}
    nameless = [each for each in rule.tools if about and not any(names[tool] for tool in about if matches_any([each], [tool]))]
    if nameless:
        what = f"calls of {', '.join(nameless)} are about nothing that has a name"
        yield (*key, "subjects"), what, "Leave subjects out, or name another tool."
        return
    if rule.tools and any(_ANY in known for known in names.values()):
        return
    subjects = sorted({name for known in names.values() for name in known} - {_ANY})
    for at, pattern in enumerate(rule.subjects):
        if not matches_any([pattern], subjects):
            anything = "no tag, asset or alarm of this plant, and no webhook"
            what = f"nothing that calls of {', '.join(rule.tools)} are about" if rule.tools else anything
            yield (*key, "subjects", at), f"{pattern} is {what}", nearest_cure(pattern, subjects)


def _names_in(tool: str, settings: Settings) -> frozenset[str]:
    """Return the names of all that calls of a tool can be about; :data:`_ANY` is among them when nobody knows them all."""
    fields, plant, found = _fields(tool), settings.plant, set[str]()
    if fields & TAGS:
        found |= {*plant.tag_by_key, *(tag.asset for tag in plant.tags)}
    if fields & ALARMS:
        found |= {*plant.alarm_by_id, *(alarm.asset for alarm in plant.alarms)}
    if fields & ASSETS:
        found |= {*plant.asset_by_id}
    if WEBHOOK in fields:
        found |= {*settings.webhooks}
    return frozenset(found | ({_ANY} if TOPIC in fields else set()))


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
        for fault in faults_of(interlock.expression, tags):
            yield (*place, "require"), fault.what, _cure_of(fault)
        yield from _language_faults((*place, "why"), interlock.why, settings)


def _cure_of(fault: InterlockFault) -> str:
    """Say what was probably meant by a word of an interlock (a tag's key, the name of a state), or what can be written there."""
    if fault.word:
        return nearest_cure(fault.word, sorted(fault.known))
    anything = "Compare numbers with numbers, names in quotes with states, and join what is true or false by and, or, not."
    return fault.cure or anything


def _language_faults(key: Key, texts: Iterable[str], settings: Settings) -> Iterator[RuleFault]:
    for language in texts:
        if language not in settings.languages:
            yield (*key, language), f"{language} is not spoken here", nearest_cure(language, list(settings.languages))


def shipped_tool_names() -> frozenset[str]:
    """Return the names of the tools that ship."""
    return frozenset(shipped_contracts())


def shipped_tool_levels() -> dict[str, AccessLevel]:
    """Return what the tools that ship need, by name."""
    return {name: contract.security.access_level for name, contract in shipped_contracts().items()}


def tool_names() -> frozenset[str]:
    """Return the names of the tools that ship and of those that installed packages declare."""
    return shipped_tool_names() | {entry.name for entry in entry_points(group=ENTRY_POINTS)}


def _fields(tool: str) -> frozenset[str]:
    """Return the names of a tool's arguments. Those of another package's are not known before it is loaded: it may have any."""
    contract = shipped_contracts().get(tool)
    any_field = TAGS | ASSETS | ALARMS | {TOPIC, WEBHOOK}
    return any_field if contract is None else frozenset(contract.schema.arguments.model_fields)


@cache
def shipped_contracts() -> Mapping[str, ToolContract]:
    """Return the contracts of the tools that ship, by name."""
    found: dict[str, ToolContract] = {}
    for module in pkgutil.iter_modules(shipped.__path__):
        kinds = getmembers(importlib.import_module(f"{shipped.__name__}.{module.name}"), isclass)
        found |= {c.name: c for _, kind in kinds if isinstance(c := getattr(kind, "contract", None), ToolContract)}
    return found
