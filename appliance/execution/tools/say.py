"""``say``: queues a sentence to be spoken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.store import Transaction
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
from appliance.execution.urgency import urgency_of
from appliance.store import deliveries


class Arguments(Fields):
    """``lead`` is the part that must sound at once; it is spoken before ``text``."""

    text: str = Field(min_length=1, max_length=4_000)
    lead: str = Field(default="", max_length=400)


class Result(Fields):
    """``delivery`` is the id of the queued delivery."""

    delivery: str


class Say:
    """Writes the delivery's row in the action's own transaction: said at least once, and known if perhaps twice."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="say",
        description="Say a sentence",
        schema=SchemaContract(Arguments, Result, required_fields=("text",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "speech"),
        telemetry=TelemetryContract("say.started", "say.queued", "say.failed", redact=("text", "lead")),
        has_effect=False,
    )

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Queue the sentence with the turn's urgency."""
        delivery = deliveries.queue(
            tx,
            self._clock,
            self._ids,
            turn_id=call.turn_id,
            language=call.language,
            lead=arguments.lead,
            text=arguments.text,
            priority=urgency_of(call.context, is_first=not deliveries.has_words(tx, call.turn_id)),
        )
        return {"delivery": delivery.id}
