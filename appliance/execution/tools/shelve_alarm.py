"""``shelve_alarm``: a person keeps an alarm from being announced for a time, and says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

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
    """``alarm`` as the plant model names it; ``reason`` is recorded with who asked."""

    alarm: str
    minutes: float = Field(gt=0)
    reason: str = Field(min_length=1)


class Result(Fields):
    """What is shelved now, and by whom."""

    alarm: str
    by: str


class ShelveAlarm:
    """Shelves in the ledger."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="shelve_alarm",
        description="Keep an alarm from being announced for a time, with a reason",
        schema=SchemaContract(Arguments, Result, required_fields=("alarm", "minutes", "reason")),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("shelve_alarm.started", "shelve_alarm.done", "shelve_alarm.failed"),
        has_effect=False,
    )

    def __init__(self, shelf: AlarmShelf) -> None:
        self._shelf = shelf

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Shelve in the name of whoever speaks.

        Raises:
            Refused: no such alarm, or longer than the site allows.
        """
        by = str(call.context.get("by", "unknown"))
        self._shelf.shelve_in(tx, arguments.alarm, arguments.minutes * 60, by=by, reason=arguments.reason)
        return {"alarm": arguments.alarm, "by": by}
