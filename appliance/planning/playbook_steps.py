"""The steps a playbook may have: one typed model a tool, with what is said in each language.

A text is one sentence for every language, or a mapping language -> text. It may name what planning knows (``{alarm.value}``,
``{now.temperature}``: the tag as this playbook's ``read_tags`` step read it) and results of earlier steps
(``{steps.log.summary}``), which are filled when the step runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class TagsArguments(_Closed):
    """Names of tags of the alarm's asset, or ``all`` of them."""

    tags: Literal["all"] | list[str] = "all"


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
    """Read tags of the alarm's asset."""

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


PlaybookStep = Annotated[
    Say | Ask | ReadPlcLog | ReadTags | RecordEpisode | SearchMemory | CreateWorkOrder | WriteReport,
    Field(discriminator="tool"),
]

RESULTS: dict[str, frozenset[str]] = {
    "say": frozenset({"delivery"}),
    "ask": frozenset({"confirmed"}),
    "read_plc_log": frozenset({"entries", "count", "summary"}),
    "read_tags": frozenset({"values", "value"}),
    "record_episode": frozenset({"id", "tier", "duplicate_of"}),
    "search_memory": frozenset({"found", "count", "best", "cites", "summary", "degraded"}),
    "create_work_order": frozenset({"id", "asset", "title"}),
    "write_report": frozenset({"path", "commit"}),
}
"""Tool -> fields of its result that a later step may name."""


class StepsFile(_Closed):
    """``steps.yaml``."""

    steps: list[PlaybookStep] = Field(min_length=1)


def texts_of(step: PlaybookStep) -> Iterator[tuple[str, Spoken]]:
    """Yield (key, text) of everything a step words."""
    for name, value in step.arguments:
        values: list[Any] = value if isinstance(value, list) else [value]
        if name in ("text", "lead", "question", "title", "detail", "lines"):
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
