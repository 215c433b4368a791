"""``acknowledge_alarm``: somebody says they know; bound to the activation and to the person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from appliance.contracts.alarm import Alarm, AlarmAction, AlarmState
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
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
from appliance.store import alarms

AdvanceAlarm = Callable[[AlarmState, AlarmAction], AlarmState]

_OPEN = (AlarmState.UNACKNOWLEDGED, AlarmState.RETURNED_UNACKNOWLEDGED)


class Arguments(Fields):
    """``activation`` is one activation's id; None acknowledges every live alarm that nobody has yet."""

    activation: str | None = None


class Result(Fields):
    """Which activations were acknowledged now, and by whom. ``sentence`` says how many."""

    count: int
    sentence: str
    activations: list[str]
    by: str


class AcknowledgeAlarm:
    """Acknowledges in the ledger. ``advance`` is the alarm state machine."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="acknowledge_alarm",
        description="Acknowledge one live alarm or all of them",
        schema=SchemaContract(Arguments, Result, nullable_fields=("activation",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("acknowledge_alarm.started", "acknowledge_alarm.done", "acknowledge_alarm.failed"),
        has_effect=False,
    )

    def __init__(self, clock: Clock, wording: Wording, advance: AdvanceAlarm) -> None:
        self._clock = clock
        self._wording = wording
        self._advance = advance

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Acknowledge in the name of whoever speaks (``by`` of the turn's context).

        Raises:
            Refused: no such activation, or it needs no acknowledgement.
        """
        by = str(call.context.get("by", "unknown"))
        known = self._chosen(tx, arguments.activation)
        for alarm in known:
            state = self._advance(alarm.state, AlarmAction.ACKNOWLEDGE)
            alarms.acknowledge(tx, self._clock, alarm.activation_id, by, state)
        name = {0: "acknowledged_none", 1: "acknowledged_one"}.get(len(known), "acknowledged_many")
        return {
            "count": len(known),
            "sentence": self._wording.reply(name, call.language, count=len(known)),
            "activations": [alarm.activation_id for alarm in known],
            "by": by,
        }

    @staticmethod
    def _chosen(tx: Transaction, activation: str | None) -> list[Alarm]:
        if activation is None:
            return [alarm for alarm in alarms.live(tx) if alarm.state in _OPEN]
        alarm = alarms.by_activation(tx, activation)
        if alarm is None:
            raise Refused(f"there is no alarm {activation}", activation=activation)
        return [alarm]
