"""The steps a playbook may have: one typed model a tool, with what is said in each language.

A text is one sentence for every language, or a mapping language -> text. It may name what planning knows (``{alarm.value}``,
``{now.temperature}``: the tag as this playbook's ``read_tags`` step read it, ``{asset}``: a parameter of the playbook) and
results of earlier steps (``{steps.log.summary}``), which are filled when the step runs.

A step's ``when`` is a condition (``contracts.condition``); in it ``now.temperature > 80`` is about that tag, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Spoken = str | dict[str, str]
"""A text, or language -> text."""

ALARM_FIELDS = frozenset({"lead", "text", "value", "asset", "area", "quantity", "id", "fault", "priority", "raised"})
"""What ``{alarm.…}`` can name. ``lead`` is the pre-rendered announcement, ``value`` the measured value in words."""

MOST_SENTENCES = 2
"""Sentences in one ``say``: what is longer is not followed beside a machine."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[。！？]")


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SayArguments(_Closed):
    """``lead`` must sound at once and comes before ``text``."""

    text: Spoken
    lead: Spoken = ""


class AskArguments(_Closed):
    """``requires_keyword``: a bare yes is not enough."""

    question: Spoken
    requires_keyword: bool = False


class LogArguments(_Closed):
    """How many of the newest entries."""

    newest: int = Field(default=8, ge=1, le=100)


class NoArguments(_Closed):
    """None."""


class TagsArguments(_Closed):
    """Names of tags of the playbook's asset, or ``all`` of them. ``asset``: the id of another machine, whose tags they are."""

    tags: Literal["all"] | list[str] = "all"
    asset: str = ""


class TrendArguments(_Closed):
    """The tag's name at the playbook's asset, and how far back to look."""

    tag: str
    minutes: float = Field(default=30, ge=1, le=10_080)


class NotifyArguments(_Closed):
    """Where to: one of the site's webhooks by its name, or a topic."""

    text: Spoken
    webhook: str = ""
    topic: str = ""

    @model_validator(mode="after")
    def _goes_to_one(self) -> NotifyArguments:
        if bool(self.webhook) is bool(self.topic):
            raise ValueError("give either webhook or topic")
        return self


class CheckArguments(_Closed):
    """``sentence`` is what somebody would say then; it is understood when it is due. ``minutes``: a number, or a parameter."""

    minutes: float | str
    sentence: Spoken


class UpdateArguments(_Closed):
    """The newest work order of the playbook's asset: what to add to it, and whether it is done."""

    note: Spoken = ""
    done: bool = False


class WriteArguments(_Closed):
    """``tag`` is the name of a tag of the playbook's asset; ``value`` is a number in its unit, or ``"{amount}"``, a parameter.
    What will be written is asked first, in the words of the plant model: a playbook cannot word it otherwise."""

    tag: str
    value: float | str


class RunArguments(_Closed):
    """Another playbook, and its parameters: constants, or ``"{asset}"``, a parameter of this one."""

    playbook: str
    parameters: dict[str, float | str] = {}


class CallArguments(_Closed):
    """A tool of another package by its name, and its arguments as its contract has them. Texts in them may name what others
    may."""

    name: str = Field(min_length=1, max_length=64)
    arguments: dict[str, Any] = {}


class EpisodeArguments(_Closed):
    """Asset, fault, scope and the alarm's facts are added by planning."""

    text: Spoken
    confidence: float = Field(default=0.8, ge=0, le=1)


class SearchArguments(_Closed):
    """Asset, fault and scope are added by planning."""

    question: Spoken
    limit: int = Field(default=3, ge=1, le=20)


class OrderArguments(_Closed):
    """The asset is added by planning."""

    title: Spoken
    detail: Spoken


class ReportArguments(_Closed):
    """``lines`` become the report's list; the asset is added by planning."""

    title: Spoken
    lines: list[Spoken] = Field(min_length=1)


class _Step(_Closed):
    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    when: str = ""
    optional: bool = False


class Say(_Step):
    """Say something."""

    tool: Literal["say"]
    arguments: SayArguments


class Ask(_Step):
    """Ask a yes/no question and wait."""

    tool: Literal["ask"]
    arguments: AskArguments


class ReadPlcLog(_Step):
    """Read the controller's log."""

    tool: Literal["read_plc_log"]
    arguments: LogArguments = LogArguments()


class ReadTags(_Step):
    """Read tags of the playbook's asset, or of a named one."""

    tool: Literal["read_tags"]
    arguments: TagsArguments = TagsArguments()


class RecordEpisode(_Step):
    """Remember what happened."""

    tool: Literal["record_episode"]
    arguments: EpisodeArguments


class SearchMemory(_Step):
    """Find similar cases."""

    tool: Literal["search_memory"]
    arguments: SearchArguments


class CreateWorkOrder(_Step):
    """Ask the site for work."""

    tool: Literal["create_work_order"]
    arguments: OrderArguments


class WriteReport(_Step):
    """File a report."""

    tool: Literal["write_report"]
    arguments: ReportArguments


class ListAlarms(_Step):
    """Look at the live alarms."""

    tool: Literal["list_alarms"]
    arguments: NoArguments = NoArguments()


class TrendOfTag(_Step):
    """Look at how a value has changed."""

    tool: Literal["trend_of_tag"]
    arguments: TrendArguments


class Notify(_Step):
    """Tell people elsewhere."""

    tool: Literal["notify"]
    arguments: NotifyArguments


class ScheduleCheck(_Step):
    """Ask again later."""

    tool: Literal["schedule_check"]
    arguments: CheckArguments


class UpdateWorkOrder(_Step):
    """Add to the newest work order of the machine."""

    tool: Literal["update_work_order"]
    arguments: UpdateArguments


class WriteTag(_Step):
    """Set a value, after a person said yes to exactly that."""

    tool: Literal["write_tag"]
    arguments: WriteArguments


class RunPlaybook(_Step):
    """Go on with another playbook. Its steps come behind all of this one's, so it is the last."""

    tool: Literal["run_playbook"]
    arguments: RunArguments


class Call(_Step):
    """Call a tool of another package. What it changes is asked for first, as everywhere."""

    tool: Literal["call"]
    arguments: CallArguments


PlaybookStep = Annotated[
    Say
    | Ask
    | ReadPlcLog
    | ReadTags
    | TrendOfTag
    | ListAlarms
    | RecordEpisode
    | SearchMemory
    | CreateWorkOrder
    | UpdateWorkOrder
    | WriteReport
    | Notify
    | ScheduleCheck
    | WriteTag
    | RunPlaybook
    | Call,
    Field(discriminator="tool"),
]

RESULTS: dict[str, frozenset[str]] = {
    "say": frozenset({"delivery"}),
    "ask": frozenset({"confirmed"}),
    "read_plc_log": frozenset({"entries", "count", "summary"}),
    "read_tags": frozenset({"values", "value"}),
    "list_alarms": frozenset({"count", "sentence", "alarms"}),
    "trend_of_tag": frozenset(
        {"known", "course", "first", "last", "lowest", "highest", "mean", "slope", "unit", "covers_s", "gaps", "sentence"}
    ),
    "notify": frozenset({"delivery", "channel", "to", "text"}),
    "schedule_check": frozenset({"id", "due_utc", "what", "sentence"}),
    "update_work_order": frozenset({"id", "asset", "number", "status"}),
    "write_tag": frozenset({"key", "wanted", "shown"}),
    "run_playbook": frozenset({"playbook", "steps"}),
    "record_episode": frozenset({"id", "tier", "duplicate_of"}),
    "search_memory": frozenset({"found", "count", "best", "cites", "summary", "degraded"}),
    "create_work_order": frozenset({"id", "asset", "title"}),
    "write_report": frozenset({"path", "commit"}),
}
"""Tool -> fields of its result that a later step may name. Those of tools of other packages are not known when playbooks are
loaded."""


def tool_of(step: PlaybookStep) -> str:
    """Return the tool that a step calls."""
    return step.arguments.name if isinstance(step, Call) else step.tool


class AssetParameter(_Closed):
    """The machine the playbook is for. ``tags``: names of tags it must have; other machines are none it can be asked for."""

    kind: Literal["asset"]
    tags: list[str] = []


class NumberParameter(_Closed):
    """A number within bounds, both included."""

    kind: Literal["number"]
    low: float = Field(allow_inf_nan=False)
    high: float = Field(allow_inf_nan=False)

    @model_validator(mode="after")
    def _has_room(self) -> NumberParameter:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


Parameter = Annotated[AssetParameter | NumberParameter, Field(discriminator="kind")]

ASSET = "asset"
"""Name of the parameter that is the machine a playbook is for. Of an alarm's playbook it is the alarm's."""


class StepsFile(_Closed):
    """``steps.yaml``. ``parameters``: what has to be said when the playbook is asked for, by name. A name is that of a list of
    the phrase files, so that sentences can hold it."""

    parameters: dict[str, Parameter] = {}
    steps: list[PlaybookStep] = Field(min_length=1)


def texts_of(step: PlaybookStep) -> Iterator[tuple[str, Spoken]]:
    """Yield (key, text) of everything a step words."""
    for name, value in step.arguments:
        values: list[Any] = value if isinstance(value, list) else [value]
        if name in ("text", "lead", "question", "title", "detail", "lines", "note", "sentence"):
            yield from ((f"arguments.{name}", text) for text in values if text)


def spellings(text: Spoken) -> list[str]:
    """Return the text in every language it has."""
    return [text] if isinstance(text, str) else list(text.values())


def names_in(text: str) -> list[str]:
    """Return the placeholders of a text, without braces."""
    return _PLACEHOLDER.findall(text)


def sentence_count(text: str) -> int:
    """Return how many sentences a spoken text has; a placeholder counts as part of one."""
    plain = _PLACEHOLDER.sub("x", text)
    return len(_SENTENCE_END.findall(plain)) or 1
