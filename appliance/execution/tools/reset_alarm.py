"""``reset_alarm``: somebody lets go of latched alarms, whose cause is gone and which are acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from appliance.contracts.plant import Plant
from appliance.contracts.ports import AlarmHands, Wording
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
from appliance.execution.alarms_meant import RESETTABLE, Shown, account_of, known_to
from appliance.execution.fields import Fields


class Arguments(Fields):
    """``activation`` is one activation's id, ``revision`` the one that was shown; None resets every latched alarm that the
    person knew of when they spoke (``alarms.told_before``), or of these the one they were told of last."""

    activation: str | None = None
    revision: int | None = None
    only_last: bool = False


class Result(Fields):
    """How many were reset now, the first of them, and by whom. ``sentence`` says which one it was, or how many."""

    count: int
    sentence: str
    activations: list[str]
    by: str


class ResetAlarm:
    """Resets in the ledger."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="reset_alarm",
        description="Reset one latched alarm or all of them",
        schema=SchemaContract(Arguments, Result, nullable_fields=("activation", "revision")),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("reset_alarm.started", "reset_alarm.done", "reset_alarm.failed"),
        has_effect=False,
    )

    def __init__(self, hands: AlarmHands, plant: Plant, wording: Wording) -> None:
        self._hands = hands
        self._plant = plant
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Reset in the name of whoever speaks (``by`` of the turn's context).

        Raises:
            Refused: no such activation, it is not latched, or it changed since it was shown.
        """
        by = str(call.context.get("by", "unknown"))
        done = [self._hands.reset_in(tx, *shown, by=by) for shown in self._chosen(tx, call, arguments)]
        return account_of(done, "reset", self._plant, self._wording, call, by)

    @staticmethod
    def _chosen(tx: Transaction, call: ToolCall, arguments: Arguments) -> Sequence[Shown]:
        if arguments.activation is not None:
            return [(arguments.activation, arguments.revision)]
        return known_to(tx, call.turn_id, RESETTABLE, only_last=arguments.only_last)
