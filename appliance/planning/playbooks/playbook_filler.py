"""Turns a playbook's steps into a plan's: what is known now is filled in, ``{steps.…}`` stays and is filled when a step runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.contracts.condition import Compared, Condition, Done, condition_of
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plan import Step
from appliance.foundation.sentence import capital, joined
from appliance.planning.playbooks.playbook_faults import NOW
from appliance.planning.playbooks.playbook_steps import (
    ASSET,
    Ask,
    Call,
    CreateWorkOrder,
    ListAlarms,
    Notify,
    PlaybookStep,
    ReadPlcLog,
    ReadTags,
    RecordEpisode,
    RunPlaybook,
    Say,
    ScheduleCheck,
    SearchMemory,
    Spoken,
    TrendOfTag,
    UpdateWorkOrder,
    WriteReport,
    WriteTag,
    tool_of,
)
from appliance.planning.playbooks.playbooks import Playbook
from appliance.planning.tongue import Tongue
from appliance.planning.writing import guarded_write

_DONE_ON_YES = CreateWorkOrder | UpdateWorkOrder | Notify | ScheduleCheck
_KNOWN = re.compile(r"\{([a-z][a-z0-9_]*(?:\.[a-z]+)?)\}")
_NOW = re.compile(r"\{now\.([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a playbook is run for. ``given`` are its parameters; ``words`` is what texts may name: ``alarm.value``, ``asset``.

    ``lead`` announces an alarm; ``ready`` is what of it was rendered before. A lead that holds this alarm's value was not.
    ``remark`` is said behind the announcement.
    """

    scope: str
    given: Mapping[str, Any]
    words: Mapping[str, str]
    fault: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    lead: str = ""
    ready: str = ""
    remark: str = ""

    @property
    def asset(self) -> str:
        """The machine it is about, empty for none."""
        return str(self.given.get(ASSET, ""))


class Filler:
    """Fills one playbook for one occasion."""

    def __init__(self, occasion: Occasion, tongue: Tongue, playbook: Playbook) -> None:
        self._occasion = occasion
        self._tongue = tongue
        self._playbook = playbook
        self._reader = next((s.id for s in playbook.steps if isinstance(s, ReadTags) and not s.arguments.asset), "")

    def steps(self) -> tuple[Step, ...]:
        """Return the plan's steps.

        Raises:
            Refused: a value is to be written that cannot be; the message is the sentence to say.
        """
        return tuple(filled for step in self._playbook.steps for filled in self._step(step))

    def _step(self, step: PlaybookStep) -> tuple[Step, ...]:
        when = self._when(step.when)
        if isinstance(step, WriteTag):
            return self._write(step, when)
        arguments = self._arguments(step)
        expects = str(arguments["title"]) if isinstance(step, CreateWorkOrder) else ""
        return (Step(step.id, tool_of(step), arguments, when, step.optional, expects=expects),)

    def _write(self, step: WriteTag, when: str) -> tuple[Step, ...]:
        """Ask exactly, then write: whatever else the playbook may have asked is no consent to this."""
        tag = self._tongue.plant.tag_by_key.get(f"{self._occasion.asset}.{step.arguments.tag}")
        if tag is None:
            asset = self._tongue.asset(self._occasion.asset)
            raise Refused(capital(self._tongue.reply("no_such_tag", asset=asset, quantity=step.arguments.tag.replace("_", " "))))
        amount = float(self._constant(step.arguments.value))
        ask = f"{step.id}_confirm"
        return guarded_write(tag, amount, self._tongue, ask=ask, write=step.id, when=when, optional=step.optional)

    def _arguments(self, step: PlaybookStep) -> dict[str, Any]:
        occasion = self._occasion
        about = {"asset": occasion.asset}
        in_memory = about | {"fault": occasion.fault, "scope": occasion.scope}
        match step:
            case Say():
                return self._said(self._text(step.arguments.lead), self._text(step.arguments.text))
            case Ask():
                asked = {"question": self._text(step.arguments.question), "requires_keyword": step.arguments.requires_keyword}
                return asked | self._approves(step)
            case ReadPlcLog():
                return {"newest": step.arguments.newest}
            case ListAlarms():
                return {}
            case TrendOfTag():
                return {"key": f"{occasion.asset}.{step.arguments.tag}", "minutes": step.arguments.minutes}
            case Notify():
                text, to = self._text(step.arguments.text), {"webhook": step.arguments.webhook, "topic": step.arguments.topic}
                return {"text": text} | {name: value for name, value in to.items() if value}
            case ScheduleCheck():
                return {"minutes": self._constant(step.arguments.minutes), "sentence": self._text(step.arguments.sentence)}
            case UpdateWorkOrder():
                note = self._text(step.arguments.note) if step.arguments.note else ""
                return about | {"note": note, "done": step.arguments.done}
            case ReadTags():
                keys = self._keys(step.arguments.asset or occasion.asset)
                # "all" are those with a name: what has none (a reset coil) says nothing about the machine.
                named = [name for name, key in keys.items() if self._tongue.phrases.vocabulary.tags[key]]
                wanted = named if step.arguments.tags == "all" else step.arguments.tags
                return {"keys": [keys[name] for name in wanted if name in keys]}
            case RecordEpisode():
                arguments = {"text": self._text(step.arguments.text), "confidence": step.arguments.confidence}
                return arguments | in_memory | {"facts": dict(occasion.record)}
            case SearchMemory():
                return {"question": self._text(step.arguments.question), "limit": step.arguments.limit} | in_memory
            case CreateWorkOrder():
                return about | {"title": capital(self._text(step.arguments.title)), "detail": self._text(step.arguments.detail)}
            case WriteReport():
                lines = [self._text(line) for line in step.arguments.lines if self._is_measured(line)]
                return about | {"title": capital(self._text(step.arguments.title)), "lines": lines}
            case RunPlaybook():
                given = {name: self._constant(value) for name, value in step.arguments.parameters.items()}
                return {"playbook": step.arguments.playbook, "parameters": given}
            case Call():
                return {name: self._given(value) for name, value in step.arguments.arguments.items()}
            case _:
                raise Malformed(f"no plan for a playbook's step {step.tool!r}", tool=step.tool)

    def _approves(self, ask: Ask) -> dict[str, Any]:
        """What a yes counts for: the one thing that the playbook does on it. A write asks for itself."""
        acting = [step for step in self._playbook.steps if isinstance(step, _DONE_ON_YES)]
        on_yes = [step.id for step in acting if condition_of(step.when).terms == (Done(ask.id),)]
        return {"approves": on_yes[0]} if len(on_yes) == 1 else {}

    def _said(self, lead: str, text: str) -> dict[str, Any]:
        if (
            not self._occasion.lead
        ):  # asked for: there is nothing to announce, and what begins with a machine's name is a sentence
            return {"text": capital(joined(lead, text))}
        if lead == self._occasion.lead:
            text = joined(self._occasion.remark, text)
        # A lead must be ready before it is needed; one that holds this alarm's value cannot be.
        is_ready = bool(lead) and lead == self._occasion.ready
        return {"lead": lead, "text": text} if is_ready else {"text": joined(lead, text)}

    def _text(self, spoken: Spoken) -> str:
        text = spoken if isinstance(spoken, str) else spoken[self._tongue.language]
        text = _KNOWN.sub(lambda found: self._occasion.words.get(found[1], found[0]), text)
        return _NOW.sub(lambda found: self._now(found[1]), text)

    def _constant(self, value: float | str) -> Any:
        """A parameter's own value where one is named as a whole."""
        name = value[1:-1] if isinstance(value, str) and value.startswith("{") else ""
        return self._occasion.given.get(name, value)

    def _given(self, value: Any) -> Any:
        """An argument of another package's tool: a parameter's own value, a text, or what holds such."""
        match value:
            case str():
                whole = self._constant(value)
                return self._text(value) if whole is value else whole
            case dict():
                return {name: self._given(item) for name, item in value.items()}
            case list():
                return [self._given(item) for item in value]
            case _:
                return value

    def _now(self, name: str) -> str:
        key = self._keys(self._occasion.asset).get(name)
        return f"{{steps.{self._reader}.values.{key}}}" if key else self._tongue.reply("value_unknown")

    def _when(self, when: str) -> str:
        """Let ``now.temperature > 80`` look where that tag was read. One this machine does not have is found nowhere."""
        terms = [
            replace(term, step=self._reader, field=f"values.{self._occasion.asset}.{term.field}")
            if isinstance(term, Compared) and term.step == NOW
            else term
            for term in condition_of(when).terms
        ]
        return str(Condition(tuple(terms)))

    def _keys(self, asset: str) -> dict[str, str]:
        return {tag.name: tag.key for tag in self._tongue.plant.tags if tag.asset == asset}

    def _is_measured(self, line: Spoken) -> bool:
        """Whether this asset has every tag a report's line names; a line about another kind of machine is left out."""
        text = line if isinstance(line, str) else line[self._tongue.language]
        keys = self._keys(self._occasion.asset)
        return all(name in keys for name in _NOW.findall(text))
