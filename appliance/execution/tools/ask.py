"""``ask``: puts a yes/no question. Its action then waits; only a person's answer ends the waiting."""

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
from appliance.store import confirmations, deliveries


class Arguments(Fields):
    """``requires_keyword``: a bare yes is not enough, because the answer lets the machine be changed."""

    question: str = Field(min_length=1, max_length=1_000)
    lead: str = Field(default="", max_length=400)
    requires_keyword: bool = False


class Result(Fields):
    """The question's id and the delivery that asks it."""

    confirmation: str
    delivery: str


class Ask:
    """Queues the question and records that it is open, in one transaction with the action's waiting."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="ask",
        description="Ask a yes/no question and wait for the answer",
        schema=SchemaContract(Arguments, Result, required_fields=("question",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "speech"),
        telemetry=TelemetryContract("ask.started", "ask.queued", "ask.failed", redact=("question", "lead")),
        has_effect=False,
    )

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Write delivery and confirmation."""
        delivery = deliveries.queue(
            tx,
            self._clock,
            self._ids,
            turn_id=call.turn_id,
            language=call.language,
            lead=arguments.lead,
            text=arguments.question,
            priority=urgency_of(call.context, is_first=not deliveries.has_words(tx, call.turn_id)),
        )
        confirmation = confirmations.ask(
            tx,
            self._clock,
            self._ids,
            turn_id=call.turn_id,
            action_id=call.action_id,
            question=arguments.question,
            delivery_id=delivery.id,
        )
        return {"confirmation": confirmation.id, "delivery": delivery.id}
