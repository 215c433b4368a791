"""``create_work_order``: asks the site for work, in the ledger; the coordinator hears of it when it can be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock
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
from appliance.store import work_orders


class Arguments(Fields):
    """What is to be done, where."""

    asset: str = Field(min_length=1)
    title: str = Field(min_length=1, max_length=200)
    detail: str = Field(default="", max_length=4_000)


class Result(Fields):
    """``id`` is the appliance's own; the coordinator gives a number later."""

    id: str
    asset: str
    title: str


class CreateWorkOrder:
    """Writes the work order and its operation in the action's own transaction: exactly one, whatever dies."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="create_work_order",
        description="Create a work order",
        schema=SchemaContract(Arguments, Result, required_fields=("asset", "title")),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("create_work_order.started", "create_work_order.done", "create_work_order.failed"),
        has_effect=False,
        is_held=True,
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Insert the order under an id that follows from the action's."""
        order = work_orders.create(
            tx,
            self._clock,
            order_id="wo_" + call.idempotency_key.rpartition("_")[2],
            turn_id=call.turn_id,
            asset=arguments.asset,
            title=arguments.title,
            detail=arguments.detail,
        )
        return {"id": order.id, "asset": order.asset, "title": order.title}
