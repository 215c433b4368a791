"""``cancel_checks``: checks that wait are not made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock
from appliance.contracts.ports import Wording
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
from appliance.store import scheduled_checks


class Arguments(Fields):
    """``id``: this one alone; empty: all that wait."""

    id: str = Field(default="", max_length=100)


class Result(Fields):
    """``sentence`` says which, or how many."""

    ids: list[str]
    sentence: str


class CancelChecks:
    """Ends the rows in the action's own transaction."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="cancel_checks",
        description="Cancel checks that were asked for earlier and wait",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.INTERNAL, "ledger"),
        telemetry=TelemetryContract("cancel_checks.started", "cancel_checks.done", "cancel_checks.failed"),
        has_effect=False,
    )

    def __init__(self, clock: Clock, wording: Wording) -> None:
        self._clock = clock
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Cancel them.

        Raises:
            Refused: there is no check of that id, or it does not wait any more.
        """
        wanted = [arguments.id] if arguments.id else [check.id for check in scheduled_checks.waiting(tx)]
        by = call.principal.by or str(call.context.get("by", ""))
        ended = [scheduled_checks.cancel(tx, self._clock, check_id, by) for check_id in wanted]
        if not ended:
            sentence = self._wording.reply("checks_cancelled_none", call.language)
        elif len(ended) == 1:
            sentence = self._wording.reply("checks_cancelled_one", call.language, what=ended[0].what)
        else:
            sentence = self._wording.reply("checks_cancelled_many", call.language, count=len(ended))
        return {"ids": [check.id for check in ended], "sentence": sentence}
