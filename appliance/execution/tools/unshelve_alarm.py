"""``unshelve_alarm``: a person lets an alarm be announced again before its time is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from appliance.contracts.alarm import Inhibition
from appliance.contracts.ports import AlarmShelf
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


class Arguments(Fields):
    """``alarm`` as the plant model names it."""

    alarm: str


class Result(Fields):
    """What is shelved no more; ``announced`` counts the activations that are told of now."""

    alarm: str
    by: str
    announced: int


class UnshelveAlarm:
    """Ends shelving in the ledger; what is still there is announced."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="unshelve_alarm",
        description="Announce a shelved alarm again from now on",
        schema=SchemaContract(Arguments, Result, required_fields=("alarm",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("unshelve_alarm.started", "unshelve_alarm.done", "unshelve_alarm.failed"),
        has_effect=False,
    )

    def __init__(self, shelf: AlarmShelf) -> None:
        self._shelf = shelf

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Unshelve in the name of whoever speaks.

        Raises:
            Refused: it is not shelved.
        """
        by = str(call.context.get("by", "unknown"))
        announced = self._shelf.end_in(tx, arguments.alarm, Inhibition.SHELVED, by=by)
        return {"alarm": arguments.alarm, "by": by, "announced": announced}
