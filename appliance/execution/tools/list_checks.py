"""``list_checks``: which checks were asked for and wait, said in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from appliance.contracts.clock import Clock
from appliance.contracts.ports import Wording
from appliance.contracts.scheduled_check import ScheduledCheck
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
from appliance.foundation.due_time import left_s
from appliance.store import scheduled_checks

_SPOKEN = 3  # told one by one; the count tells that there are more


class Arguments(Fields):
    """None."""


class Waiting(Fields):
    """One check. ``left_s`` is None while no clock tells when it is due."""

    id: str
    what: str
    left_s: float | None


class Result(Fields):
    """All that wait, soonest first. ``sentence`` says how many there are and names the first three."""

    count: int
    sentence: str
    checks: list[Waiting]


class ListChecks:
    """Reads what waits where it is kept: in the ledger."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="list_checks",
        description="Tell which checks were asked for earlier and wait",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("list_checks.started", "list_checks.done", "list_checks.failed"),
        has_effect=False,
    )

    def __init__(self, clock: Clock, wording: Wording) -> None:
        self._clock = clock
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return the checks and the sentence in the turn's language."""
        told = [(check, left_s(self._clock, check)) for check in scheduled_checks.waiting(tx)]
        said = [self._said(check, left, call.language) for check, left in told[:_SPOKEN]]
        name = "checks_none" if not told else "checks_one" if len(told) == 1 else "checks_many"
        words = {"count": len(told), "checks": said} if told else {}
        return {
            "count": len(told),
            "sentence": self._wording.reply(name, call.language, **words),
            "checks": [Waiting(id=check.id, what=check.what, left_s=left) for check, left in told],
        }

    def _said(self, check: ScheduledCheck, left: float | None, language: str) -> str:
        if left is None:
            return self._wording.reply("check_when_clock_is_set", language, what=check.what)
        after = {"value": max(1, round(left)), "unit": "s"}
        return self._wording.reply("check_in", language, what=check.what, after=after)
