"""``record_episode``: remembers what happened.

Memory lives in the ledger's own file and a write is keyed by the action's id, so the same write again is the same memory.
The call therefore counts as one without effect on the world: after a crash it is simply made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import Field

from appliance.contracts.memory import MemoryDraft, Tier
from appliance.contracts.ports import MemoryWriter
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


class Arguments(Fields):
    """``confidence`` 0..1. ``verified`` only when a person or a read-back said so."""

    text: str = Field(min_length=1, max_length=4_000)
    scope: str = Field(min_length=1, max_length=200)
    asset: str
    fault: str
    tier: Literal["episodic", "semantic"] = "episodic"
    confidence: float = Field(default=0.5, ge=0, le=1)
    verified: bool = False
    facts: dict[str, Any] = Field(default_factory=dict)


class Result(Fields):
    """``duplicate_of`` is the id of the memory that already said this, or None."""

    id: str | None
    tier: str
    duplicate_of: str | None


class RecordEpisode:
    """Hands a draft to memory's three-phase write."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="record_episode",
        description="Remember what happened",
        schema=SchemaContract(
            Arguments,
            Result,
            required_fields=("text", "scope", "asset", "fault"),
            enum_constraints={"tier": ("episodic", "semantic")},
        ),
        sla=SlaContract(max_execution_time_ms=5_000, retries=1),
        security=SecurityContract(AccessLevel.INTERNAL, "memory"),
        telemetry=TelemetryContract("record_episode.started", "record_episode.done", "record_episode.failed", redact=("text",)),
        has_effect=False,
        resource="memory",
        keeps_something=True,
    )

    def __init__(self, writer: MemoryWriter) -> None:
        self._writer = writer

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Remember once per action. What happened is dated by the turn's opening, whenever it is written.

        Raises:
            MemoryWriteRejected: validation said no.
            StorageFullError: no room.
        """
        draft = MemoryDraft(
            tier=Tier(arguments.tier),
            scope=arguments.scope,
            asset=arguments.asset,
            fault=arguments.fault,
            text=arguments.text,
            source_session=call.session_id,
            confidence=arguments.confidence,
            verified=arguments.verified,
            occurred_utc=datetime.fromisoformat(call.context["turn"]["opened_utc"]),
            facts=arguments.facts,
        )
        stored = await self._writer.remember(draft, key=call.idempotency_key)
        return {"id": stored.get("id"), "tier": str(stored["tier"]), "duplicate_of": stored.get("duplicate_of")}
