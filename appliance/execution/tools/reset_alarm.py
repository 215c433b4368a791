"""``reset_alarm``: somebody lets go of latched alarms, whose cause is gone and which are acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from appliance.contracts.alarm import AlarmState
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
from appliance.execution.alarm_words import MOST_NAMED, words_for
from appliance.execution.fields import Fields
from appliance.store import alarms, turns


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
        name = {0: "reset_none", 1: "reset_one"}.get(len(done), "reset_many")
        said = {"alarm": words_for(done[0], self._plant, self._wording, call.language)} if len(done) == 1 else {}
        return {
            "count": len(done),
            "sentence": self._wording.reply(name, call.language, count=len(done), **said),
            "activations": [alarm.activation_id for alarm in done[:MOST_NAMED]],
            "by": by,
        }

    @staticmethod
    def _chosen(tx: Transaction, call: ToolCall, arguments: Arguments) -> Sequence[tuple[str, int | None]]:
        if arguments.activation is not None:
            return [(arguments.activation, arguments.revision)]
        spoken = turns.by_id(tx, call.turn_id).admission_id
        known = [(alarm.activation_id, None) for alarm in alarms.told_before(tx, spoken) if alarm.state is AlarmState.LATCHED]
        return known[-1:] if arguments.only_last else known
