"""``acknowledge_alarm``: somebody says they know; bound to the activation, to what they were shown of it, and to the person."""

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
from appliance.execution.alarms_meant import ACKNOWLEDGEABLE, Shown, account_of, known_to
from appliance.execution.fields import Fields


class Arguments(Fields):
    """``activation`` is one activation's id, ``revision`` the one that was shown; None acknowledges every live alarm that nobody
    has yet and that the person knew of when they spoke (``alarms.told_before``), or of these the one they were told of last."""

    activation: str | None = None
    revision: int | None = None
    only_last: bool = False


class Result(Fields):
    """How many were acknowledged now, the first of them, and by whom. ``sentence`` says which one it was, or how many."""

    count: int
    sentence: str
    activations: list[str]
    by: str


class AcknowledgeAlarm:
    """Acknowledges in the ledger."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="acknowledge_alarm",
        description="Acknowledge one live alarm or all of them",
        schema=SchemaContract(Arguments, Result, nullable_fields=("activation", "revision")),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("acknowledge_alarm.started", "acknowledge_alarm.done", "acknowledge_alarm.failed"),
        has_effect=False,
    )

    def __init__(self, hands: AlarmHands, plant: Plant, wording: Wording) -> None:
        self._hands = hands
        self._plant = plant
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Acknowledge in the name of whoever speaks (``by`` of the turn's context).

        Raises:
            Refused: no such activation, it needs no acknowledgement, or it changed since it was shown.
        """
        by = str(call.context.get("by", "unknown"))
        done = [self._hands.acknowledge_in(tx, *shown, by=by) for shown in self._chosen(tx, call, arguments)]
        return account_of(done, "acknowledged", self._plant, self._wording, call, by)

    @staticmethod
    def _chosen(tx: Transaction, call: ToolCall, arguments: Arguments) -> Sequence[Shown]:
        if arguments.activation is not None:
            return [(arguments.activation, arguments.revision)]
        return known_to(tx, call.turn_id, ACKNOWLEDGEABLE, only_last=arguments.only_last)
