"""Playbooks: what to do about a kind of fault, as files people can read, review and version.

    over-temperature/
      SKILL.md     front matter (name, description, triggers, access), then a page for people
      steps.yaml   typed steps, their conditions, and what is said in each language

They live in procedural memory, a Git work tree; ``commit`` says which state of it was read, so that a plan can name it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.contracts.errors import ConfigError
from appliance.planning.playbook_steps import (
    ALARM_FIELDS,
    MOST_SENTENCES,
    RESULTS,
    PlaybookStep,
    Say,
    StepsFile,
    names_in,
    sentence_count,
    spellings,
    texts_of,
)
from appliance.planning.yaml_file import Fault, fault_of, load_mapping, model_faults, nearest, parse_mapping, refuse_all

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)
_LONGEST_DESCRIPTION = 60  # characters; a description is read in a list of many


class Triggers(BaseModel):
    """When a playbook applies: fault classes of alarms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    faults: list[str] = Field(min_length=1)


class FrontMatter(BaseModel):
    """Head of ``SKILL.md``. ``access`` is the level needed to run it (``contracts.tool.AccessLevel``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    description: str = Field(min_length=1, max_length=_LONGEST_DESCRIPTION)
    triggers: Triggers
    access: Literal["public", "internal", "operator", "critical"] = "operator"


@dataclass(frozen=True, slots=True)
class Playbook:
    """One playbook. ``guidance`` is the page for people; ``languages`` are those in which every text exists."""

    name: str
    description: str
    triggers: Triggers
    access: str
    guidance: str
    steps: tuple[PlaybookStep, ...]
    languages: frozenset[str] | None

    def speaks(self, language: str) -> bool:
        """Whether everything it says exists in ``language``; texts without a language are the same in all."""
        return self.languages is None or language in self.languages


class Playbooks:
    """All playbooks of one state of procedural memory."""

    def __init__(self, playbooks: Mapping[str, Playbook], commit: str) -> None:
        self._playbooks = dict(playbooks)
        self.commit = commit

    @staticmethod
    def load(folder: Path, commit: str) -> Playbooks:
        """Read every ``<name>/SKILL.md`` with its ``steps.yaml`` below ``folder``; other folders are left alone.

        Raises:
            ConfigError: naming every fault of every playbook with file, key and cure.
        """
        playbooks: dict[str, Playbook] = {}
        faults: list[tuple[str, Fault]] = []
        for skill in sorted(folder.glob("*/SKILL.md")):
            found, wrong = _read(skill)
            faults += wrong
            if found is not None:
                playbooks[found.name] = found
        if faults:
            raise refuse_all(faults)
        return Playbooks(playbooks, commit)

    @property
    def names(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted(self._playbooks))

    def __getitem__(self, name: str) -> Playbook:
        """Return a playbook by its name; KeyError when there is none."""
        return self._playbooks[name]

    def for_alarm(self, name: str, fault: str, language: str) -> Playbook | None:
        """Return the playbook an alarm names, else the first that is triggered by its fault class and speaks the language."""
        named = self._playbooks.get(name)
        by_fault = [self._playbooks[n] for n in self.names if fault in self._playbooks[n].triggers.faults]
        return next((p for p in [named, *by_fault] if p is not None and p.speaks(language)), None)


def _read(skill: Path) -> tuple[Playbook | None, list[tuple[str, Fault]]]:
    """Return the playbook, or None with everything that is wrong with its two files."""
    steps_path = skill.parent / "steps.yaml"
    faults: list[tuple[str, Fault]] = []
    head, guidance = _front_matter(skill, faults)
    steps = _steps(steps_path, faults)
    if head is not None and head.name != skill.parent.name:
        cure = f"Write `name: {skill.parent.name}` or rename the folder."
        faults.append((str(skill), ("name", f"is {head.name!r} in a folder named {skill.parent.name!r}", cure)))
    if steps is not None:
        faults += [(str(steps_path), fault) for fault in _step_faults(steps)]
    if head is None or steps is None or faults:
        return None, faults
    languages = [frozenset(t) for step in steps for _, t in texts_of(step) if isinstance(t, dict)]
    everywhere = frozenset.intersection(*languages) if languages else None
    return Playbook(head.name, head.description, head.triggers, head.access, guidance, steps, everywhere), []


def _front_matter(path: Path, faults: list[tuple[str, Fault]]) -> tuple[FrontMatter | None, str]:
    try:
        found = _FRONT_MATTER.match(path.read_text(encoding="utf-8"))
        if found is None:
            cure = "Begin with `---`, the keys name, description, triggers, access, and `---`."
            faults.append((str(path), ("(file)", "has no front matter", cure)))
            return None, ""
        return FrontMatter.model_validate(parse_mapping(found[1], str(path))), found[2].strip()
    except ValidationError as error:
        faults += [(str(path), fault) for fault in model_faults(FrontMatter, error)]
    except ConfigError as error:
        faults.append((str(path), fault_of(error)))
    except (OSError, UnicodeDecodeError) as error:
        faults.append((str(path), ("(file)", f"cannot be read ({error})", "Save it as UTF-8.")))
    return None, ""


def _steps(path: Path, faults: list[tuple[str, Fault]]) -> tuple[PlaybookStep, ...] | None:
    try:
        return tuple(StepsFile.model_validate(load_mapping(path)).steps)
    except ValidationError as error:
        faults += [(str(path), fault) for fault in model_faults(StepsFile, error)]
    except ConfigError as error:
        faults.append((str(path), fault_of(error)))
    return None


def _step_faults(steps: tuple[PlaybookStep, ...]) -> list[Fault]:
    """What pydantic cannot see: order, conditions, names in texts, languages, length of what is said."""
    faults: list[Fault] = []
    if not isinstance(steps[0], Say) or steps[0].when:
        faults.append(("steps.0", "is not an unconditional say", "Announce the alarm before anything else."))
    languages = {language for step in steps for _, text in texts_of(step) if isinstance(text, dict) for language in text}
    earlier: dict[str, str] = {}
    for n, step in enumerate(steps):
        key = f"steps.{n} ({step.id})"
        if step.id in earlier:
            faults.append((f"{key}.id", "is used twice", "Give it another id."))
        if (needed := step.when.removeprefix("not ")) and needed not in earlier:
            faults.append((f"{key}.when", f"names no earlier step: {step.when!r}", nearest(needed, earlier)))
        for where, text in texts_of(step):
            if isinstance(text, dict) and (lacking := languages - set(text)):
                faults.append((f"{key}.{where}", f"is missing in {', '.join(sorted(lacking))}", "Write it in that language."))
            for spelling in spellings(text):
                faults += [(f"{key}.{where}", *wrong) for wrong in _name_faults(spelling, earlier)]
                if isinstance(step, Say) and sentence_count(spelling) > MOST_SENTENCES:
                    faults.append((f"{key}.{where}", f"is longer than {MOST_SENTENCES} sentences", "Say less."))
        earlier[step.id] = step.tool
    return faults


def _name_faults(text: str, earlier: Mapping[str, str]) -> list[tuple[str, str]]:
    faults: list[tuple[str, str]] = []
    for name in names_in(text):
        kind, _, rest = name.partition(".")
        step, _, result = rest.partition(".")
        first = result.split(".")[0]
        if kind == "steps" and step in earlier:
            if first not in RESULTS[earlier[step]]:
                faults.append((f"{{{name}}}: {earlier[step]} gives no {first!r}", nearest(first, RESULTS[earlier[step]])))
        elif kind == "steps":
            faults.append((f"{{{name}}} names no earlier step", nearest(step, earlier)))
        elif kind == "alarm" and rest not in ALARM_FIELDS:
            faults.append((f"{{{name}}} is not known", nearest(rest, ALARM_FIELDS)))
        elif kind == "now" and "read_tags" not in earlier.values():
            faults.append((f"{{{name}}} needs an earlier read_tags step", "Add one."))
        elif kind not in ("alarm", "now"):
            faults.append((f"{{{name}}} is not known", nearest(kind, ("alarm", "now", "steps"))))
    return faults
