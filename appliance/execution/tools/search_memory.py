"""``search_memory``: similar cases from before, always inside one scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock
from appliance.contracts.memory import Recall
from appliance.contracts.ports import Recaller, Wording
from appliance.contracts.tool import (
    AccessLevel,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution.fields import Fields
from appliance.foundation.untrusted import clean

_LONGEST_SPOKEN = 600  # characters of a case that is told: a minute of speech; the whole of it is in ``found``


class Arguments(Fields):
    """``scope`` is mandatory: a search without one would show another area's memories. ``budget_ms`` as in requirements M7."""

    question: str = Field(min_length=1, max_length=2_000)
    scope: str = Field(min_length=1, max_length=200)
    asset: str = ""
    fault: str = ""
    limit: int = Field(default=3, ge=1, le=20)
    budget_ms: float = Field(default=500.0, gt=0, le=10_000)


class Case(Fields):
    """One memory found. ``cite`` names its row or commit."""

    text: str
    cite: str
    asset: str
    fault: str
    score: float
    verified: bool


class Result(Fields):
    """``best``: text of the closest case, empty when none. ``summary``: one spoken sentence. ``degraded`` as in Recall."""

    found: list[Case]
    count: int
    best: str
    cites: list[str]
    summary: str
    degraded: str


class SearchMemory:
    """Asks the one retrieval entry of memory."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="search_memory",
        description="Find similar cases in memory",
        schema=SchemaContract(Arguments, Result, required_fields=("question", "scope")),
        sla=SlaContract(max_execution_time_ms=5_000, retries=1),
        security=SecurityContract(AccessLevel.INTERNAL, "memory"),
        telemetry=TelemetryContract("search_memory.started", "search_memory.done", "search_memory.failed", redact=("question",)),
        has_effect=False,
        resource="memory",
    )

    def __init__(self, recaller: Recaller, wording: Wording, clock: Clock) -> None:
        self._recaller = recaller
        self._wording = wording
        self._clock = clock

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return at most ``limit`` cases, best first."""
        recall = await self._recaller.recall(
            arguments.question,
            scope=arguments.scope,
            asset=arguments.asset,
            fault=arguments.fault,
            now=self._clock.utc(),
            budget_ms=arguments.budget_ms,
        )
        return self._result(recall, arguments.limit, call.language)

    def _result(self, recall: Recall, limit: int, language: str) -> Mapping[str, object]:
        found = [
            Case(text=r.text, cite=r.cite, asset=r.asset, fault=r.fault, score=r.score, verified=r.verified)
            for r in recall.found[:limit]
        ]
        best = clean(found[0].text, _LONGEST_SPOKEN) if found else ""
        name = {0: "cases_none", 1: "cases_one"}.get(len(found), "cases_many")
        return {
            "found": found,
            "count": len(found),
            "best": best,
            "cites": [case.cite for case in found],
            "summary": self._wording.reply(name, language, count=len(found), best=best),
            "degraded": recall.degraded,
        }
