"""What a site may set about approvals and writes (``policies.yaml``): which calls are refused, asked for, allowed, and under
which conditions a tag may be written.

Rules are asked in a fixed order, and the hard floor, which is code, before all of them: ``execution/approval/approvals.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from appliance.contracts.errors import Malformed
from appliance.contracts.interlock import Expression, parse
from appliance.contracts.principal import AccessLevel

FRESH_S = 5.0
"""A value may be this old for an interlock to be judged by it, in s: two polls of the slowest usual rate, and a bit."""
FRESHEST_S = 0.5
"""No interlock can ask for values younger than this, in s: the first of its tags waits until the last is read, and a whole frame
of Modbus (256 bytes of 11 bits) takes 0.3 s at 9600 baud. A rule that asks for less could refuse every write."""

_ASKED = ("write_tag", "shelve_alarm")
_ALLOWED = (
    "acknowledge_alarm", "reset_alarm", "unshelve_alarm", "create_work_order", "update_work_order", "write_report",
)  # fmt: skip


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CallRule(_Closed):
    """Which calls a rule is about: those that match in everything that is given. A bare name is a rule about that tool."""

    tools: list[str] = Field(default_factory=list, description="names of tools; * stands for any letters")
    subjects: list[str] = Field(
        default_factory=list, description="keys of tags, assets or alarms, topics, webhooks; * stands for any letters"
    )
    roles: list[str] = Field(default_factory=list, description="roles of those who ask; without it, everybody's calls")
    why: dict[str, str] = Field(default_factory=dict, description="language -> what is said when a call is refused by it")

    @model_validator(mode="before")
    @classmethod
    def _named_alone(cls, told: Any) -> Any:
        return {"tools": [told]} if isinstance(told, str) else told

    @model_validator(mode="after")
    def _is_about_something(self) -> Self:
        if not (self.tools or self.subjects or self.roles):
            raise ValueError("a rule needs tools, subjects or roles: it would be about everything")
        return self

    def matches(self, tool: str, subjects: Iterable[str], role: str) -> bool:
        """Whether a call is one of those it is about."""
        return (
            (not self.tools or matches_any(self.tools, (tool,)))
            and (not self.subjects or matches_any(self.subjects, subjects))
            and (not self.roles or role in self.roles)
        )


def _rules(names: Iterable[str]) -> list[CallRule]:
    return [CallRule(tools=[name]) for name in names]


class ApprovalRules(_Closed):
    """Rules in the order they are asked. What changes something and matches none of them is asked for."""

    deny: list[CallRule] = Field(default_factory=list, description="never done, whoever says yes")
    unattended: list[CallRule] = Field(default_factory=list, description="may run with nobody there to be asked")
    ask: list[CallRule] = Field(default_factory=lambda: _rules(_ASKED), description="done only on a person's yes")
    allow: list[CallRule] = Field(default_factory=lambda: _rules(_ALLOWED), description="done without asking")


class MostWrites(_Closed):
    """At most ``count`` writes of one tag within ``within_s`` seconds."""

    count: int = Field(ge=1, le=10_000, description="writes of one tag")
    within_s: float = Field(gt=0, le=604_800, description="seconds in which they are counted")


class InterlockRule(_Closed):
    """What has to hold of the machine, by values that are fresh, directly before a write."""

    require: str = Field(min_length=1, description='an expression such as motor_3.temperature < 90 and valve_2.at == "open"')
    fresh_s: float = Field(default=FRESH_S, ge=FRESHEST_S, le=3_600, description="a value that is older refuses the write")
    why: dict[str, str] = Field(default_factory=dict, description="language -> what is said when it does not hold")

    @model_validator(mode="after")
    def _is_an_expression(self) -> Self:
        try:
            _ = self.expression
        except Malformed as error:
            raise ValueError(f"{self.require!r} {error.message}") from error
        return self

    @property
    def expression(self) -> Expression:
        """What ``require`` spells."""
        return _parsed(self.require)


class WriteRule(_Closed):
    """Conditions of writing some tags. Every rule that matches a tag counts: the strictest access, each limit, each interlock."""

    tags: list[str] = Field(min_length=1, description="keys of writable tags; * stands for any letters")
    access: Literal["operator", "critical"] = Field(
        default="operator", description="level needed; critical also needs the read-back code"
    )
    most: MostWrites | None = Field(default=None, description="how often a tag may be written")
    interlocks: list[InterlockRule] = Field(default_factory=list, description="what has to hold, all of it")


@dataclass(frozen=True, slots=True)
class ApprovalSettings:
    """Both parts of ``policies.yaml``: ``approvals`` and ``writes``."""

    approvals: ApprovalRules = field(default_factory=ApprovalRules)
    writes: Sequence[WriteRule] = ()

    def writes_of(self, key: str) -> list[WriteRule]:
        """Return the rules about a tag, in the order of the file."""
        return [rule for rule in self.writes if matches_any(rule.tags, (key,))]

    def level_of(self, key: str) -> AccessLevel:
        """Return the level that writing a tag needs."""
        levels = [AccessLevel.of_word(rule.access) for rule in self.writes_of(key)]
        return max(levels, default=AccessLevel.OPERATOR)


def matches_any(patterns: Iterable[str], names: Iterable[str]) -> bool:
    """Whether one of the names is one of those the patterns stand for."""
    names = tuple(names)
    return any(_pattern(pattern).fullmatch(name) for pattern in patterns for name in names)


def named(texts: Mapping[str, str], language: str) -> str:
    """Return a text in a language, else in the first it has; empty when it has none."""
    return texts.get(language) or next(iter(texts.values()), "")


@lru_cache(maxsize=4_096)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)


@lru_cache(maxsize=1_024)
def _parsed(text: str) -> Expression:
    return parse(text)
