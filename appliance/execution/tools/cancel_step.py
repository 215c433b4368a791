"""``cancel_step``: cancels one step of what somebody asked for, counted as ``report_work`` and ``floorhand turns show`` count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.interrupt import Cause
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.store import Transaction
from appliance.contracts.tool import (
    AccessLevel,
    EffectDisposition,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.contracts.turn import Turn
from appliance.execution.fields import Fields
from appliance.execution.results import stored
from appliance.execution.stops import result_of
from appliance.execution.work_meant import may_stop, meant, name_of, own_lane, step_name
from appliance.store import actions, interrupts, turns

_REFUSED = {
    ActionState.DONE: "step_done",
    ActionState.SKIPPED: "step_skipped",
    ActionState.FAILED: "step_failed",
    ActionState.UNKNOWN: "step_unknown",
}
"""State of a step that cannot be cancelled any more -> the reply that says so."""


class Arguments(Fields):
    """``number`` counts the steps of the plan from 1, whatever became of those before it."""

    number: int = Field(ge=1, le=1_000)


class Result(Fields):
    """The action that is cancelled, empty if none is, and what to tell of it."""

    action: str
    sentence: str


class CancelStep:
    """Finds the step and wants it cancelled, in the action's own transaction. What needs its result is not done either."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="cancel_step",
        description="Cancel one step of what was asked for",
        schema=SchemaContract(Arguments, Result, required_fields=("number",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("cancel_step.started", "cancel_step.done", "cancel_step.failed"),
        has_effect=False,
    )

    def __init__(self, plant: Plant, wording: Wording, clock: Clock, ids: IdSource) -> None:
        self._plant = plant
        self._wording = wording
        self._clock = clock
        self._ids = ids

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Cancel the step, or say of it why that cannot be."""
        work = meant(tx, call)
        if len(work) > 1:
            names = "; ".join(name_of(turn, self._plant, self._wording, call.language) for turn in work)
            return {"action": "", "sentence": self._reply(call, "which_work", works=names)}
        turn = work[0] if work else turns.newest_of(tx, own_lane(call))
        if turn is None:
            return {"action": "", "sentence": self._reply(call, "stop_none")}
        if not may_stop(call, turn):
            name = name_of(turn, self._plant, self._wording, call.language)
            return {"action": "", "sentence": self._reply(call, "stop_not_yours", works=name)}
        step = actions.by_position(tx, turn.id, arguments.number)
        if step is None:
            count = str(len(actions.of_turn(tx, turn.id)))
            return {"action": "", "sentence": self._reply(call, "step_missing", number=str(arguments.number), count=count)}
        return self._cancelled(tx, call, turn, step, str(arguments.number))

    def _cancelled(self, tx: Transaction, call: ToolCall, turn: Turn, step: Action, number: str) -> Mapping[str, object]:
        what = step_name(step, self._wording, call.language)
        if step.state is ActionState.WAITING:
            question = str(step.arguments.get("question", ""))
            return {"action": "", "sentence": self._reply(call, "step_asks", number=number, question=question)}
        if step.state in _REFUSED:
            return {"action": "", "sentence": self._reply(call, _REFUSED[step.state], number=number, what=what)}
        by = str(call.context.get("by", "unknown"))
        reason = str(call.context.get("said", ""))
        wish = interrupts.ask(tx, self._clock, self._ids, turn.id, cause=Cause.USER, by=by, reason=reason, action_id=step.id)
        if step.state is ActionState.STARTED:
            return {"action": step.id, "sentence": self._reply(call, "step_cancelling", number=number, what=what)}
        if turn.state not in turns.ACTIVE:  # nobody runs it, who would do this at its next look
            actions.change(tx, step.id, ActionState.SKIPPED, stored(result_of(wish, EffectDisposition.NONE)))
            interrupts.handle(tx, self._clock, turn.id, step.id)
        return {"action": step.id, "sentence": self._reply(call, "step_cancelled", number=number, what=what)}

    def _reply(self, call: ToolCall, name: str, **values: str) -> str:
        return self._wording.reply(name, call.language, **values)
