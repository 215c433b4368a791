"""Playbooks: what to do about a kind of fault, or when somebody asks for it, as files people can read, review and version.

    over-temperature/
      SKILL.md     front matter (name, description, triggers, access), then a page for people
      steps.yaml   parameters, typed steps, their conditions, and what is said in each language

They live in procedural memory, a Git work tree; ``commit`` says which state of it was read, so that a plan can name it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from appliance.contracts.errors import ConfigError
from appliance.contracts.principal import AccessLevel
from appliance.contracts.tool import ToolContract
from appliance.foundation.yaml_file import Fault, fault_of, load_mapping, model_faults, parse_mapping, refuse_all
from appliance.planning.playbooks.playbook_access import access_faults
from appliance.planning.playbooks.playbook_contracts import NO_CONTRACTS, argument_faults
from appliance.planning.playbooks.playbook_faults import graph_faults, head_faults, step_faults, unsayable
from appliance.planning.playbooks.playbook_steps import Parameter, PlaybookStep, RunPlaybook, StepsFile, texts_of

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)
_LONGEST_DESCRIPTION = 60  # characters; a description is read in a list of many


NONE_KNOWN: Mapping[str, AccessLevel] = MappingProxyType({})
"""Levels of no tools."""


class Wrong(NamedTuple):
    """One fault. ``playbook`` is the name of the folder it is in, ``path`` the file."""

    playbook: str
    path: str
    fault: Fault


class Triggers(BaseModel):
    """When a playbook applies. ``faults``: fault classes of alarms. ``phrases``: language -> sentence templates that ask for it,
    with the lists and rules of that language's phrase file. ``names``: language -> what people call it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    faults: list[str] = []
    phrases: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}

    @model_validator(mode="after")
    def _is_ever_run(self) -> Triggers:
        if not (self.faults or self.phrases or self.names):
            raise ValueError("names neither faults nor phrases nor names, so it would never be run")
        return self


class FrontMatter(BaseModel):
    """Head of ``SKILL.md``. ``access`` is the level needed to run it (``contracts.principal.AccessLevel``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)
    description: str = Field(min_length=1, max_length=_LONGEST_DESCRIPTION)
    triggers: Triggers
    access: Literal["public", "internal", "operator", "critical"] = "operator"


@dataclass(frozen=True, slots=True)
class Playbook:
    """One playbook. ``guidance`` is the page for people; ``languages`` are those in which every text exists. ``path`` is the file
    of its front matter."""

    name: str
    description: str
    triggers: Triggers
    access: str
    guidance: str
    steps: tuple[PlaybookStep, ...]
    languages: frozenset[str] | None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    path: str = ""

    @property
    def level(self) -> AccessLevel:
        """Who may run it, and learn of it."""
        return AccessLevel.of_word(self.access)

    @property
    def is_for_alarms_only(self) -> bool:
        """Whether it can only be run for an alarm, because it talks of it."""
        return bool(self.triggers.faults) and not self.triggers.phrases

    def speaks(self, language: str) -> bool:
        """Whether everything it says exists in ``language``; texts without a language are the same in all."""
        return self.languages is None or language in self.languages


class Playbooks:
    """All playbooks of one state of procedural memory."""

    def __init__(self, playbooks: Mapping[str, Playbook], commit: str) -> None:
        self._playbooks = dict(playbooks)
        self.commit = commit

    @staticmethod
    def load(
        folder: Path,
        commit: str,
        levels: Mapping[str, AccessLevel] = NONE_KNOWN,
        contracts: Mapping[str, ToolContract] = NO_CONTRACTS,
    ) -> Playbooks:
        """Read every ``<name>/SKILL.md`` with its ``steps.yaml`` below ``folder``; other folders are left alone. ``levels``: what
        tools need, ``contracts``: what those that ship take, by name, of those that are known.

        Raises:
            ConfigError: naming every fault of every playbook with file, key and cure. One that runs itself, directly or through
                others, is such a fault; it spells the path.
        """
        found, wrong = read_playbooks(folder)
        wrong += wrong_between(found, levels, contracts, unread={each.playbook for each in wrong})
        if wrong:
            raise refuse_all([(each.path, each.fault) for each in wrong])
        return Playbooks(found, commit)

    def become(self, other: Playbooks) -> None:
        """Be from now on what ``other`` is, for everybody who holds this one."""
        self._playbooks, self.commit = other._playbooks, other.commit

    @property
    def names(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted(self._playbooks))

    def __getitem__(self, name: str) -> Playbook:
        """Return a playbook by its name; KeyError when there is none."""
        return self._playbooks[name]

    def find(self, name: str) -> Playbook | None:
        """Return a playbook by its name, None when there is none."""
        return self._playbooks.get(name)

    @property
    def for_faults(self) -> tuple[str, ...]:
        """Names of those that an alarm can have, sorted."""
        return tuple(name for name in self.names if self._playbooks[name].triggers.faults)

    def for_alarm(self, name: str, fault: str, language: str) -> Playbook | None:
        """Return the playbook an alarm names, else the first that is triggered by its fault class and speaks the language. One
        that is for no fault announces nothing, so it is none an alarm can have."""
        named = self._playbooks[name] if name in self.for_faults else None
        by_fault = [self._playbooks[n] for n in self.names if fault in self._playbooks[n].triggers.faults]
        return next((p for p in [named, *by_fault] if p is not None and p.speaks(language)), None)


def read_playbooks(folder: Path) -> tuple[dict[str, Playbook], list[Wrong]]:
    """Return what is sound by itself of the playbooks in the folders below ``folder``, by name, and what is wrong with others."""
    found: dict[str, Playbook] = {}
    wrong: list[Wrong] = []
    for skill in sorted(folder.glob("*/SKILL.md")):
        playbook, faults = _read(skill)
        wrong += [Wrong(skill.parent.name, path, fault) for path, fault in faults]
        if playbook is not None:
            found[playbook.name] = playbook
    return found, wrong


def wrong_between(
    playbooks: Mapping[str, Playbook],
    levels: Mapping[str, AccessLevel],
    contracts: Mapping[str, ToolContract],
    unread: Collection[str] = (),
) -> list[Wrong]:
    """Return what is wrong between playbooks, and between them and the tools they call. ``unread``: names of others that are
    there and could not be read."""
    wrong = [Wrong(p.name, p.path, fault) for p, fault in access_faults(playbooks, levels)]
    for p in playbooks.values():
        path = str(_steps_path(Path(p.path)))
        wrong += [Wrong(p.name, path, fault) for fault in argument_faults(p.steps, p.parameters, contracts)]
    graph = {name: (_steps_path(Path(p.path)), p.parameters, p.steps) for name, p in playbooks.items()}
    wrong += [Wrong(path.parent.name, str(path), fault) for path, fault in graph_faults(graph, unread)]
    run = {step.arguments.playbook for p in playbooks.values() for step in p.steps if isinstance(step, RunPlaybook)}
    for p in playbooks.values():
        if p.name not in run:  # what another runs gets its numbers from there
            wrong += [Wrong(p.name, p.path, fault) for fault in unsayable(p.parameters, p.triggers.names, p.triggers.phrases)]
    return wrong


def _steps_path(skill: Path) -> Path:
    return skill.parent / "steps.yaml"


def _read(skill: Path) -> tuple[Playbook | None, list[tuple[str, Fault]]]:
    """Return the playbook, or None with everything that is wrong with its two files."""
    steps_path = _steps_path(skill)
    faults: list[tuple[str, Fault]] = []
    head, guidance = _front_matter(skill, faults)
    file = _steps(steps_path, faults)
    if head is not None and head.name != skill.parent.name:
        cure = f"Write `name: {skill.parent.name}` or rename the folder."
        faults.append((str(skill), ("name", f"is {head.name!r} in a folder named {skill.parent.name!r}", cure)))
    if file is not None:
        told_by_alarm = head is None or (bool(head.triggers.faults) and not head.triggers.phrases)
        is_announced = None if head is None else bool(head.triggers.faults)
        found = step_faults(file.steps, file.parameters, knows_alarm=told_by_alarm, is_announced=is_announced)
        faults += [(str(steps_path), fault) for fault in found]
    if head is None or file is None:
        return None, faults
    languages = [frozenset(t) for step in file.steps for _, t in texts_of(step) if isinstance(t, dict)]
    everywhere = frozenset.intersection(*languages) if languages else None
    triggers = head.triggers
    of_head = head_faults(triggers.faults, triggers.phrases, triggers.names, file.parameters, everywhere)
    faults += [(str(skill), fault) for fault in of_head]
    if faults:
        return None, faults
    steps = tuple(file.steps)
    playbook = Playbook(
        head.name, head.description, triggers, head.access, guidance, steps, everywhere, file.parameters, str(skill)
    )  # fmt: skip
    return playbook, []


def _front_matter(path: Path, faults: list[tuple[str, Fault]]) -> tuple[FrontMatter | None, str]:
    try:
        found = _FRONT_MATTER.match(path.read_text(encoding="utf-8"))
        if found is None:
            cure = "Begin with `---`, the keys name, description, triggers, access, and `---`."
            faults.append((str(path), ("(file)", "has no front matter", cure)))
            return None, ""
        return FrontMatter.model_validate(parse_mapping(found[1], str(path), above=1)), found[2].strip()
    except ValidationError as error:
        faults += [(str(path), fault) for fault in model_faults(FrontMatter, error)]
    except ConfigError as error:
        faults.append((str(path), fault_of(error)))
    except (OSError, UnicodeDecodeError) as error:
        faults.append((str(path), ("(file)", f"cannot be read ({error})", "Save it as UTF-8.")))
    return None, ""


def _steps(path: Path, faults: list[tuple[str, Fault]]) -> StepsFile | None:
    try:
        return StepsFile.model_validate(load_mapping(path))
    except ValidationError as error:
        faults += [(str(path), fault) for fault in model_faults(StepsFile, error)]
    except ConfigError as error:
        faults.append((str(path), fault_of(error)))
    return None
