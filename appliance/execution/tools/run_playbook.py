"""``run_playbook``: lets the turn go on with another procedure, whose steps come behind those it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from appliance.contracts.clock import IdSource
from appliance.contracts.errors import RecursiveCallPrevented, Refused
from appliance.contracts.plan import PLAYBOOK_SOURCE, Intent, Plan
from appliance.contracts.planning import Asked
from appliance.contracts.ports import Wording
from appliance.contracts.principal import UNATTENDED
from appliance.contracts.procedures import Procedures
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
from appliance.execution.followed import followed
from appliance.store import actions, turns

MOST_STEPS = 128
"""Steps of one turn, however many procedures it follows: the longest shipped one has fifteen."""

WithQuestions = Callable[[Transaction, Plan, Asked], Plan]
"""Puts the questions into a plan that its steps need (``Approvals.with_questions``)."""


class Arguments(Fields):
    """``playbook`` is a name as ``read_playbook`` lists it; ``parameters`` are what it has to know: ``{"asset": "motor_3"}``."""

    playbook: str = Field(min_length=1, max_length=64)
    parameters: dict[str, float | str] = Field(default_factory=dict, max_length=16)


class Result(Fields):
    """``steps`` are the ids of the steps that were added."""

    playbook: str
    steps: list[str]


class RunPlaybook:
    """Appends the steps in its own transaction. Each of them is decided about like any other when it comes to it: running a
    procedure allows nothing that could not be done without it. What is above the asker's level is not there."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="run_playbook",
        description="Follow a procedure: its steps are added to what is being done",
        schema=SchemaContract(Arguments, Result, required_fields=("playbook",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("run_playbook.started", "run_playbook.done", "run_playbook.failed"),
        has_effect=False,
        extends_plan=True,
    )

    def __init__(self, procedures: Procedures, wording: Wording, ids: IdSource, with_questions: WithQuestions) -> None:
        self._procedures = procedures
        self._wording = wording
        self._ids = ids
        self._with_questions = with_questions

    def definition_of(self, arguments: Mapping[str, Any], language: str) -> Any:
        """Return what the procedure is made of."""
        return self._procedures.made_of(str(arguments.get("playbook") or ""))

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Add the steps.

        Raises:
            RecursiveCallPrevented: this call came of the same procedure; the message spells the path.
            Refused: there is none of this name, it is not for this machine, a step of it would be refused, or the turn would get
                too long.
            Malformed: it has no such parameter.
        """
        turn, level = turns.by_id(tx, call.turn_id), call.principal.level
        title = self._procedures.find(arguments.playbook, call.language, level).title
        before = actions.of_turn(tx, turn.id)
        path = [*followed(turn, before, call.action_id), arguments.playbook]
        if arguments.playbook in path[:-1]:
            spelled = "->".join(path)
            why = self._wording.reply("playbook_circle", call.language, title=title, path=spelled)
            raise RecursiveCallPrevented(why, path=path)
        steps = self._procedures.steps_of(arguments.playbook, arguments.parameters, call.language, level)
        source = str((turn.plan or {}).get("source") or f"{PLAYBOOK_SOURCE}{arguments.playbook}")
        plan = Plan("run_playbook", source, steps)
        asked = Asked(
            Intent("run_playbook", call.language, "", arguments.model_dump()),
            principal=call.principal,
            session_id=call.session_id,
            turn_id=call.turn_id,
            is_unattended=bool(call.context.get(UNATTENDED)),
        )
        try:
            plan = self._with_questions(tx, plan, asked)
        except Refused as refused:  # whoever keeps the record of it takes its name from here
            refused.facts = {**refused.facts, "playbook": arguments.playbook}
            raise
        if len(before) + len(plan.steps) > MOST_STEPS:
            raise Refused(self._wording.reply("playbook_too_long", call.language, title=title), steps=len(plan.steps))
        added = actions.append_plan(tx, self._ids, turn.id, plan.steps)
        return {"playbook": arguments.playbook, "steps": [action.step_id for action in added]}
