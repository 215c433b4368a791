"""``update_work_order``: adds a note to a work order, or asks for it to be closed; the coordinator decides and is heard back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
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
from appliance.foundation.untrusted import clean
from appliance.store import work_orders

_LONGEST_NOTE = 2_000  # characters


class Arguments(Fields):
    """Which: exactly one of ``id`` and ``asset`` (its newest one). What: a ``note``, that it is ``done``, or both."""

    id: str = Field(default="", max_length=100)
    asset: str = Field(default="", max_length=200)
    note: str = Field(default="", max_length=2 * _LONGEST_NOTE)
    done: bool = False

    @model_validator(mode="after")
    def _says_which_and_what(self) -> Self:
        if bool(self.id) == bool(self.asset):
            raise ValueError("give either id or asset")
        if not self.note.strip() and not self.done:
            raise ValueError("give a note, or done")
        return self


class Result(Fields):
    """``status`` as it is known here: ``done_requested`` until the coordinator says so. ``number`` is None until it gave one."""

    id: str
    asset: str
    number: str | None
    status: str


class UpdateWorkOrder:
    """Changes the row and tells the coordinator in the action's own transaction."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="update_work_order",
        description="Add a note to a work order, or say that it is done",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("update_work_order.started", "update_work_order.done", "update_work_order.failed"),
        has_effect=False,
        is_held=True,
    )

    def __init__(self, clock: Clock, plant: Plant) -> None:
        self._clock = clock
        self._plant = plant

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Change the order.

        Raises:
            Refused: there is none, it is closed already, or it has no room for the note.
        """
        found = work_orders.load(tx, arguments.id) if arguments.id else work_orders.newest_of(tx, arguments.asset)
        if found is None:
            refused = Refused(f"there is no work order {arguments.id or 'of ' + arguments.asset.replace('_', ' ')}")
            if arguments.asset not in self._plant.asset_by_id:
                raise refused.worded("no_such_work_order")
            raise refused.worded("no_work_order_for", asset=arguments.asset)
        changed = work_orders.update(
            tx,
            self._clock,
            found,
            note=clean(arguments.note, _LONGEST_NOTE),
            done=arguments.done,
            turn_id=call.turn_id,
            by=call.principal.by or str(call.context.get("by", "")),
        )
        return {"id": changed.id, "asset": changed.asset, "number": changed.number, "status": changed.status}
