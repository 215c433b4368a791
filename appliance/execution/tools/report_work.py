"""``report_work``: what the appliance is doing, said in a few sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from appliance.contracts.plan import Action
from appliance.contracts.plant import Plant
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
from appliance.contracts.turn import Turn, TurnState
from appliance.execution.fields import Fields
from appliance.execution.work_meant import all_work, name_of, own_lane, step_name
from appliance.store import actions, confirmations

_SPOKEN = 3  # jobs told one by one; the count tells that there are more


class Arguments(Fields):
    """None."""


class Work(Fields):
    """One turn under way. ``step`` counts from 1, and is None while there is no plan yet."""

    turn: str
    state: TurnState
    name: str
    step: int | None
    steps: int
    question: str


class Result(Fields):
    """All that is under way: the speaker's own first, then what runs, newest first. ``sentence`` tells the first three."""

    count: int
    sentence: str
    work: list[Work]


class ReportWork:
    """Reads the turns and their steps where the runtime keeps them: in the ledger."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="report_work",
        description="Tell what the appliance is doing",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("report_work.started", "report_work.done", "report_work.failed"),
        has_effect=False,
    )

    def __init__(self, plant: Plant, wording: Wording) -> None:
        self._plant = plant
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return what is under way and the sentence in the turn's language."""
        found = all_work(tx)
        found.sort(key=lambda turn: (turn.lane != own_lane(call), turn.state is TurnState.CONFIRMING))  # newest first stays
        if not found:
            return {"count": 0, "sentence": self._reply(call, "work_none"), "work": []}
        told = [self._told(tx, call, turn) for turn in found[: max(_SPOKEN, 20)]]
        sentences = [sentence for _, sentence in told[:_SPOKEN]]
        if (more := len(found) - _SPOKEN) > 0:
            sentences.append(self._reply(call, "work_and_more", count=str(more)))
        return {"count": len(found), "sentence": " ".join(sentences), "work": [work for work, _ in told]}

    def _told(self, tx: Transaction, call: ToolCall, turn: Turn) -> tuple[Work, str]:
        steps = actions.of_turn(tx, turn.id)
        number, current = _current(steps)
        question = next((q.question for q in confirmations.pending(tx) if q.turn_id == turn.id), "")
        name = name_of(turn, self._plant, self._wording, call.language)
        work = Work(turn=turn.id, state=turn.state, name=name, step=number, steps=len(steps), question=question)
        if question:
            return work, self._reply(call, "work_waiting", question=question)
        if current is None:
            return work, self._reply(call, "work_planning", work=name)
        what = step_name(current, self._wording, call.language)
        at = {"work": name, "number": str(number), "count": str(len(steps)), "what": what}
        return work, self._reply(call, "work_at_step", **at)

    def _reply(self, call: ToolCall, name: str, **values: str) -> str:
        return self._wording.reply(name, call.language, **values)


def _current(steps: list[Action]) -> tuple[int | None, Action | None]:
    """Return the first step that has not ended, with its number counted from 1."""
    return next(((n, step) for n, step in enumerate(steps, 1) if step.state not in actions.FINAL), (None, None))
