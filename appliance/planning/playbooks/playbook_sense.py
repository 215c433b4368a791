"""What of playbooks can never work at one plant: writes that no machine they are for can take, conditions on what none of them
shows. Pure.

In: playbooks that are sound in themselves, and the plant. Out: (file, fault). Who calls: whoever checks a configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.contracts.condition import Compared, condition_of
from appliance.contracts.named_value import names_of
from appliance.contracts.plant import Plant
from appliance.contracts.tag import Tag
from appliance.foundation.yaml_file import Fault, nearest
from appliance.planning.playbooks.asked_for import assets_for
from appliance.planning.playbooks.playbook_faults import NOW
from appliance.planning.playbooks.playbook_steps import WriteTag
from appliance.planning.playbooks.playbooks import Playbook, Playbooks


def senseless_steps(playbooks: Playbooks, plant: Plant) -> Iterator[tuple[str, Fault]]:
    """Yield each ``write_tag`` whose tag no machine of the playbook has, none lets be written, or all keep from that value, and
    each condition on a tag that none has, or on a name that none of them shows: ``!=`` would always hold."""
    for playbook in map(playbooks.__getitem__, playbooks.names):
        machines = _machines_of(playbook, plant)
        path = str(Path(playbook.path).parent / "steps.yaml")
        for n, step in enumerate(playbook.steps):
            for term in condition_of(step.when).terms:
                if isinstance(term, Compared) and machines:
                    for what, cure in _condition_faults(term, [t for t in plant.tags if t.asset in machines], plant):
                        yield path, (f"steps.{n} ({step.id}).when", what, cure)
            if isinstance(step, WriteTag) and machines:
                for name, what, cure in _faults_of(step, [t for t in plant.tags if t.asset in machines]):
                    yield path, (f"steps.{n} ({step.id}).arguments.{name}", what, cure)


def _machines_of(playbook: Playbook, plant: Plant) -> frozenset[str]:
    """Return the machines a playbook can be run for: those it can be asked for, and those of its alarms."""
    asked = assets_for(playbook, plant) or frozenset()
    alarms = [a for a in plant.alarms if a.playbook == playbook.name or a.fault in playbook.triggers.faults]
    return asked | {alarm.asset for alarm in alarms}


def _faults_of(step: WriteTag, tags: list[Tag]) -> Iterator[Fault]:
    name, value = step.arguments.tag, step.arguments.value
    named = [tag for tag in tags if tag.name == name]
    writable = [tag for tag in named if tag.writable]
    if not named:
        yield "tag", f"no machine it is for has a tag {name!r}", nearest(name, {tag.name for tag in tags if tag.writable})
    elif not writable:
        yield "tag", f"{name!r} is not writable", nearest(name, {tag.name for tag in tags if tag.writable})
    elif not isinstance(value, str) and not any(_takes(tag, value) for tag in writable):
        limits = " or ".join(dict.fromkeys(_limits(tag) for tag in writable))
        yield "value", f"{value:g} is beyond the limits of {name!r}", f"Write a value {limits}."


def _condition_faults(term: Compared, own: Sequence[Tag], plant: Plant) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with what a condition compares. ``own``: the tags of the machines that the playbook is for."""
    field = term.field.removesuffix(".value")
    named = [tag for tag in own if tag.name == field] if term.step == NOW else []
    if term.step == NOW and not named:
        yield f"no machine it is for has a tag {field!r}", nearest(field, {tag.name for tag in own})
    elif term.step != NOW:  # the result of a read_tags step, by the whole key
        named = [tag for key, tag in plant.tag_by_key.items() if field == f"values.{key}"]
    known = {name for tag in named for name in names_of(tag)}
    if isinstance(term.operand, str) and all(map(names_of, named)) and known and term.operand not in known:
        yield f"{field} is never {term.operand!r}", nearest(term.operand, known)


def _takes(tag: Tag, value: float) -> bool:
    return (tag.low is None or tag.low <= value) and (tag.high is None or value <= tag.high)


def _limits(tag: Tag) -> str:
    low = "" if tag.low is None else f"from {tag.low:g}"
    high = "" if tag.high is None else f"up to {tag.high:g}"
    return " ".join(part for part in (low, high) if part)
