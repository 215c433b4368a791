"""``acknowledge_alarm``: somebody says they know; bound to the activation, to what they were shown of it, and to the person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from appliance.contracts.alarm import AlarmState
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
from appliance.execution.fields import Fields
from appliance.store import alarms, turns

_OPEN = (AlarmState.UNACKNOWLEDGED, AlarmState.RETURNED_UNACKNOWLEDGED)


class Arguments(Fields):
    """``activation`` is one activation's id, ``revision`` the one that was shown; None acknowledges every live alarm that nobody
    has yet and that had been raised when the person spoke."""

    activation: str | None = None
    revision: int | None = None


class Result(Fields):
    """Which activations were acknowledged now, and by whom. ``sentence`` says how many."""

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

    def __init__(self, hands: AlarmHands, wording: Wording) -> None:
        self._hands = hands
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Acknowledge in the name of whoever speaks (``by`` of the turn's context).

        Raises:
            Refused: no such activation, it needs no acknowledgement, or it changed since it was shown.
        """
        by = str(call.context.get("by", "unknown"))
        done = [self._hands.acknowledge_in(tx, *shown, by=by) for shown in self._chosen(tx, call, arguments)]
        name = {0: "acknowledged_none", 1: "acknowledged_one"}.get(len(done), "acknowledged_many")
        return {
            "count": len(done),
            "sentence": self._wording.reply(name, call.language, count=len(done)),
            "activations": [alarm.activation_id for alarm in done],
            "by": by,
        }

    @staticmethod
    def _chosen(tx: Transaction, call: ToolCall, arguments: Arguments) -> list[tuple[str, int | None]]:
        if arguments.activation is not None:
            return [(arguments.activation, arguments.revision)]
        spoken = turns.by_id(tx, call.turn_id).admission_id
        return [(alarm.activation_id, None) for alarm in alarms.told_before(tx, spoken) if alarm.state in _OPEN]
