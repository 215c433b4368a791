"""What can be wrong with playbooks that their schema cannot see: order, conditions, names in texts, languages, circles. Pure.

Each fault is (key, what is wrong, cure).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import category

from appliance.contracts.condition import Compared, condition_of
from appliance.contracts.errors import Malformed
from appliance.foundation.yaml_file import Fault, nearest
from appliance.planning.phrase_file import references
from appliance.planning.playbooks.playbook_steps import (
    ALARM_FIELDS,
    ASSET,
    MOST_SENTENCES,
    RESULTS,
    AssetParameter,
    Call,
    CreateWorkOrder,
    NumberParameter,
    Parameter,
    PlaybookStep,
    ReadTags,
    RunPlaybook,
    Say,
    ScheduleCheck,
    TrendOfTag,
    UpdateWorkOrder,
    WriteReport,
    WriteTag,
    names_in,
    sentence_count,
    spellings,
    texts_of,
)
from appliance.planning.result_names import lone_brace

NOW = "now"
"""In a condition: the tags as the playbook's ``read_tags`` step read them."""

_NEVER_SAID = frozenset({"Cc", "Cs"})
"""Unicode categories: control characters, halves of characters."""

_RESERVED = (NOW, "alarm", "steps")

Graph = Mapping[str, tuple[Path, Mapping[str, Parameter], Sequence[PlaybookStep]]]
"""Playbook -> the file of its steps, its parameters, its steps."""


def head_faults(
    faults: Sequence[str],
    phrases: Mapping[str, Sequence[str]],
    names: Mapping[str, Sequence[str]],
    parameters: Mapping[str, Parameter],
    languages: frozenset[str] | None,
) -> Iterator[Fault]:
    """Yield what is wrong between a playbook's triggers and its steps."""
    if faults:
        for name in sorted(set(parameters) - {ASSET}):
            yield "triggers.faults", f"no alarm gives the parameter {name!r}", "Leave it out, or the faults."
    for key, told in (("phrases", phrases), ("names", names)):
        for language in told:
            if languages is not None and language not in languages:
                spoken = ", ".join(sorted(languages)) or "none"
                yield f"triggers.{key}.{language}", "is a language in which its steps say nothing", f"Valid: {spoken}."
    for language, sentences in phrases.items():
        for n, sentence in enumerate(sentences):
            named = references(sentence)[0]
            key = f"triggers.phrases.{language}.{n}"
            for missing in sorted(set(parameters) - named):
                yield key, f"names no {missing}", f"Put {{{missing}}} into it: the steps need it."
            for strange in sorted(named - set(parameters)):
                yield key, f"{{{strange}}} is no parameter", nearest(strange, parameters)


def step_faults(
    steps: Sequence[PlaybookStep], parameters: Mapping[str, Parameter], *, knows_alarm: bool, is_announced: bool | None
) -> list[Fault]:
    """Return what is wrong with the steps of one playbook. ``knows_alarm``: it is run for alarms only, so ``{alarm.…}`` is known.
    ``is_announced``: it is run for alarms, so that the alarm has to be told of first; None when that is not known, since its head
    cannot be read."""
    faults = [
        (f"parameters.{name}", f"is an asset, which can only be called {ASSET!r}", f"Call it {ASSET!r}.")
        for name, parameter in parameters.items()
        if isinstance(parameter, AssetParameter) and name != ASSET
    ]
    if isinstance(parameters.get(ASSET), NumberParameter):
        faults.append((f"parameters.{ASSET}", "is a number", "Write `kind: asset`, or give it another name."))
    if is_announced and (not isinstance(steps[0], Say) or steps[0].when):
        faults.append(("steps.0", "is not an unconditional say", "Announce the alarm before anything else."))
    has_asset = is_announced is not False or ASSET in parameters
    languages = {language for step in steps for _, text in texts_of(step) if isinstance(text, dict) for language in text}
    earlier: dict[str, str] = {}
    for n, step in enumerate(steps):
        key = f"steps.{n} ({step.id})"
        if step.id in earlier:
            faults.append((f"{key}.id", "is used twice", "Give it another id."))
        if step.id in _RESERVED:
            faults.append((f"{key}.id", f"{step.id!r} means something else in conditions", "Give it another id."))
        faults += [(f"{key}.when", *wrong) for wrong in _condition_faults(step.when, earlier)]
        faults += [(key, *wrong) for wrong in _subject_faults(step, parameters, has_asset=has_asset)]
        if isinstance(step, RunPlaybook) and n < len(steps) - 1:
            faults.append((key, "is not the last step", "Put it behind all others: its steps come after theirs."))
        known = Names(earlier, parameters, knows_alarm)
        if isinstance(step, Call):
            faults += [(key, *wrong) for wrong in _call_faults(step, known, must_go_on=bool(is_announced))]
        for where, text in texts_of(step):
            if isinstance(text, dict) and (lacking := languages - set(text)):
                faults.append((f"{key}.{where}", f"is missing in {', '.join(sorted(lacking))}", "Write it in that language."))
            for spelling in spellings(text):
                faults += [(f"{key}.{where}", *wrong) for wrong in (*known.faults_in(spelling), *_unfit(spelling))]
                if isinstance(step, Say) and sentence_count(spelling) > MOST_SENTENCES:
                    faults.append((f"{key}.{where}", f"is longer than {MOST_SENTENCES} sentences", "Say less."))
        earlier[step.id] = step.tool
    return faults


def graph_faults(playbooks: Graph, unread: Collection[str] = ()) -> Iterator[tuple[Path, Fault]]:
    """Yield what is wrong between playbooks: one that is run and not there, other parameters than it has, circles. ``unread``:
    those that are there and could not be read."""
    runs: dict[str, list[str]] = {name: [] for name in playbooks}
    for name, (path, _, steps) in playbooks.items():
        for n, step in enumerate(steps):
            if not isinstance(step, RunPlaybook):
                continue
            key, other = f"steps.{n} ({step.id}).arguments", step.arguments.playbook
            if other in unread:
                continue
            if other not in playbooks:
                yield path, (f"{key}.playbook", f"there is no playbook {other!r}", nearest(other, playbooks))
                continue
            runs[name].append(other)
            wanted, given = set(playbooks[other][1]), set(step.arguments.parameters)
            for lacking in sorted(wanted - given):
                yield path, (f"{key}.parameters", f"{other} needs {lacking}", f"Add `{lacking}:`.")
            for strange in sorted(given - wanted):
                yield path, (f"{key}.parameters.{strange}", f"{other} has no such parameter", nearest(strange, wanted))
            for handed in sorted(given & wanted):
                value, parameter = step.arguments.parameters[handed], playbooks[other][1][handed]
                if wrong := _handed_fault(value, parameter, playbooks[name][1]):
                    yield path, (f"{key}.parameters.{handed}", *wrong)
    for name, (path, _, _) in playbooks.items():
        if (circle := _path_back(name, runs)) is not None:
            spelled = "->".join(circle)
            yield path, ("steps", f"CycleDetected: {spelled}", f"Let {circle[-2]} not run {name}.")


def unsayable(parameters: Mapping[str, Parameter], names: Iterable[str], phrases: Iterable[str]) -> Iterator[Fault]:
    """Yield the languages in which a playbook that needs a number has a name and no sentence: nobody could say that number."""
    numbers = [name for name, parameter in parameters.items() if isinstance(parameter, NumberParameter)]
    for language in sorted(set(names) - set(phrases)) if numbers else ():
        what = f"is missing, and who says its name cannot say {', '.join(numbers)}"
        yield f"triggers.phrases.{language}", what, f"Write a sentence with {{{numbers[0]}}}."


def _handed_fault(value: float | str, parameter: Parameter, own: Mapping[str, Parameter]) -> tuple[str, str] | None:
    """Return what is wrong with a parameter that is handed on: a number for a machine, or the other way, or out of bounds."""
    named = own.get(names_in(value)[0]) if isinstance(value, str) and _is_one_name(value) else None
    if isinstance(parameter, AssetParameter):
        if isinstance(named, NumberParameter) or not isinstance(value, str):
            return f"is a machine there, and {value!r} is a number", f'Write a machine: "{{{ASSET}}}".'
        return None
    numbers = [name for name, each in own.items() if isinstance(each, NumberParameter)]
    or_own = f', or "{{{numbers[0]}}}"' if numbers else ""
    cure = f"Write a number from {parameter.low:g} to {parameter.high:g}{or_own}."
    if isinstance(value, str):
        is_number = isinstance(named, NumberParameter)
        return None if is_number else (f"is a number there, and {value!r} is none", cure)
    if not parameter.low <= value <= parameter.high:
        return f"{value:g} is out of its bounds there", cure
    return None


def _path_back(start: str, runs: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Return the shortest way from a playbook back to itself."""
    ways, seen = [[start]], set[str]()
    while ways:
        way = ways.pop(0)
        for following in runs[way[-1]]:
            if following == start:
                return [*way, start]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return None


def _condition_faults(when: str, earlier: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    try:
        condition = condition_of(when)
    except Malformed as error:
        yield error.message, "Correct it."
        return
    for term in condition.terms:
        compared = term if isinstance(term, Compared) else None
        if term.step == NOW and compared is not None:
            if "read_tags" not in earlier.values():
                yield f"{when!r} needs an earlier read_tags step", "Add one."
        elif term.step not in earlier:
            yield f"names no earlier step: {when!r}", nearest(term.step, earlier)
        elif compared is not None:
            results, first = RESULTS.get(earlier[term.step]), compared.field.split(".")[0]
            if results is not None and first not in results:
                yield f"{when!r}: {earlier[term.step]} gives no {first!r}", nearest(first, results)


def _subject_faults(step: PlaybookStep, parameters: Mapping[str, Parameter], *, has_asset: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with what a step is about: no machine, or a parameter that is none."""
    is_about_own = isinstance(step, WriteTag | CreateWorkOrder | UpdateWorkOrder | WriteReport | TrendOfTag) or (
        isinstance(step, ReadTags) and not step.arguments.asset
    )
    if is_about_own and not has_asset:
        yield "does not say at which machine", f"Add a parameter {ASSET!r}."
    values: dict[str, float | str] = {}
    match step:
        case WriteTag():
            values = {"value": step.arguments.value}
        case ScheduleCheck():
            values = {"minutes": step.arguments.minutes}
        case RunPlaybook():
            values = step.arguments.parameters
    for name, value in values.items():
        if not isinstance(value, str):
            continue
        for given in names_in(value):
            if given not in parameters:
                yield f"{name}: {{{given}}} is no parameter", nearest(given, parameters)
        if not isinstance(step, RunPlaybook) and not _is_one_name(value):
            yield f"{name}: {value!r} is no number", _number_cure(value)


def _number_cure(value: str) -> str:
    """YAML takes 1e5 for a text: its numbers with an exponent have a point and a sign."""
    try:
        number = float(value)
    except ValueError:
        number = math.inf
    if not math.isfinite(number):
        return 'Write a number, or a parameter: "{amount}".'
    plain = f"{number:.0f}" if number.is_integer() else repr(number)
    return f"Write {plain}, without quotes." if len(plain) <= 16 and "e" not in plain else f"Write {number:e}, without quotes."


def _call_faults(step: Call, known: Names, *, must_go_on: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a call of another package's tool. ``must_go_on``: an alarm is told whether it is there or not."""
    if step.arguments.name in RESULTS:
        yield f"{step.arguments.name} is a tool of ours", f"Write `tool: {step.arguments.name}`."
    if must_go_on and not step.optional:
        yield "is a tool of another package, which may not be there", "Write `optional: true`: an alarm is told all the same."
    for text in _texts_in(step.arguments.arguments):
        yield from known.faults_in(text)
        yield from _unfit(text)


def _unfit(text: str) -> Iterator[tuple[str, str]]:
    """Yield what no text may hold: a brace that opens or closes nothing, and what nobody can say or see."""
    if brace := lone_brace(text):
        yield f"has a single {brace}", "Write it twice, or pair it."
    for character in sorted(set(text)):
        if category(character) in _NEVER_SAID and character not in "\n\t":
            yield f"has the character U+{ord(character):04X}", "Take it out: it can be neither said nor seen."


def _texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts_in(item)
        case list():
            for item in value:
                yield from _texts_in(item)


def _is_one_name(value: str) -> bool:
    return len(names := names_in(value)) == 1 and value == f"{{{names[0]}}}"


class Names:
    """What texts of a step may name. ``earlier``: step -> its tool."""

    def __init__(self, earlier: Mapping[str, str], parameters: Mapping[str, Parameter], knows_alarm: bool) -> None:
        self._earlier = earlier
        self._parameters = parameters
        self._knows_alarm = knows_alarm

    def faults_in(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield (what is wrong, cure) of each placeholder that is not known."""
        for name in names_in(text):
            kind, _, rest = name.partition(".")
            match kind:
                case "steps":
                    yield from self._step_faults(name, rest)
                case "alarm" if not self._knows_alarm:
                    yield f"{{{name}}}: there is no alarm when it is asked for", "Leave it out, or the phrases."
                case "alarm":
                    if rest not in ALARM_FIELDS:
                        yield f"{{{name}}} is not known", nearest(rest, ALARM_FIELDS)
                case "now":
                    if "read_tags" not in self._earlier.values():
                        yield f"{{{name}}} needs an earlier read_tags step", "Add one."
                case _ if name in self._parameters:
                    pass
                case _:
                    yield f"{{{name}}} is not known", nearest(kind, ("alarm", "now", "steps", *self._parameters))

    def _step_faults(self, name: str, rest: str) -> Iterator[tuple[str, str]]:
        step, _, result = rest.partition(".")
        first = result.split(".")[0]
        if step not in self._earlier:
            yield f"{{{name}}} names no earlier step", nearest(step, self._earlier)
        elif (tool := self._earlier[step]) in RESULTS and first not in RESULTS[tool]:
            yield f"{{{name}}}: {tool} gives no {first!r}", nearest(first, RESULTS[tool])
