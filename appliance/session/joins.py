"""How an input joins a turn that works already (R1, R7): steps appended to it, or what is left of it replaced.

Each is one transaction with the input's own admission: it is either still queued, or part of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from appliance.contracts.admission import Admission, AdmissionStatus, Outcome
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plan import Action, Intent, Plan
from appliance.contracts.principal import asker_of
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn, TurnEvent
from appliance.session.lifespan import shortfall
from appliance.session.settings import SessionSettings
from appliance.session.turn_writer import TurnWriter
from appliance.store import actions, admissions, deliveries, turns

_MODEL = "model:"
"""How the source of a plan begins that a model made."""


class Joins:
    """Lets admissions join turns of one epoch."""

    def __init__(self, writer: TurnWriter, clock: Clock, ids: IdSource, settings: SessionSettings) -> None:
        self._writer = writer
        self._clock = clock
        self._ids = ids
        self._settings = settings

    async def steer(self, turn_id: str, admission: Admission, plan: Plan, heard: Mapping[str, Any]) -> Turn:
        """Append a plan's steps to what the turn does. ``heard`` is appended to the context's ``joined``.

        Raises:
            Refused: too little of the lifespan is left (S8), or the admission is not queued any more; nothing was written.
            StateViolationError: the turn is not EXECUTING; it is in the audit log.
        """

        def work(tx: Transaction) -> Turn:
            joined = [*turns.by_id(tx, turn_id).context.get("joined", ()), dict(heard)]
            admissions.take_up(tx, self._clock, admission.id, self._writer.epoch, turn_id)
            return self._extended(tx, turn_id, plan, {"joined": joined}, admission.id)

        return await self._writer.write_turn(work)

    async def extend(self, turn_id: str, plan: Plan, known: Mapping[str, Any]) -> Turn:
        """Append the steps of a plan that goes on to what the turn has done. ``known`` is added to its context.

        Raises:
            Refused: too little of the lifespan is left (S8); nothing was written.
            StateViolationError: the turn is not EXECUTING; it is in the audit log.
        """

        def work(tx: Transaction) -> Turn:
            return self._extended(tx, turn_id, plan, known)

        return await self._writer.write_turn(work)

    def _extended(
        self, tx: Transaction, turn_id: str, plan: Plan, known: Mapping[str, Any], admission_id: str | None = None
    ) -> Turn:
        lack = shortfall(self._settings, plan.estimate_s, self._writer.left_s(tx, turn_id))
        if lack is not None:
            raise lack
        turn = turns.by_id(tx, turn_id)
        earlier = (turn.plan or {}).get("steps", ())
        added = actions.append_plan(tx, self._ids, turn_id, plan.steps)
        whole = {**plan.to_json(), **(turn.plan or {}), "steps": stored_plan(plan, earlier, added)["steps"]}
        if plan.source.startswith(_MODEL):
            whole["source"] = plan.source  # what a model wants stays known as a model's, whatever it was added to
        if admission_id is None:
            whole["goes_on"] = plan.goes_on
        context = {**turn.context, **known}
        return self._writer.move(tx, turn_id, TurnEvent.STEERED, admission_id=admission_id, plan=whole, context=context)

    async def redirect(
        self, turn_id: str, admission: Admission, intent: Intent, heard: Mapping[str, Any], also: Callable[[Transaction], None]
    ) -> Turn:
        """Let the turn be about something else: what it has not begun is skipped, what it has not said is not said, and it is in
        PLANNING again. ``also`` says what it has done that nobody was told of.

        Raises:
            Refused: the admission is not queued any more.
            StateViolationError: the turn neither plans nor executes; it is in the audit log.
        """

        def work(tx: Transaction) -> Turn:
            turn = turns.by_id(tx, turn_id)
            admissions.take_up(tx, self._clock, admission.id, self._writer.epoch, turn_id)
            actions.skip_rest(tx, turn_id, {"redirected": admission.id})
            deliveries.supersede(tx, self._clock, turn_id)
            also(tx)
            context = {
                "slots": dict(intent.slots),
                "said": intent.text,
                "by": admission.payload["by"],
                **asker_of(admission.payload),
                "heard": dict(heard),
                "before": [*turn.context.get("before", ()), str(turn.context.get("said", ""))],
            }
            return self._writer.move(
                tx, turn_id, TurnEvent.REDIRECTED, admission_id=admission.id, intent=intent.name, context=context
            )

        return await self._writer.write_turn(work)

    async def answer_beside(self, turn_id: str, admission: Admission, also: Callable[[Transaction], None]) -> None:
        """End an input that changes nothing about the turn, as refused; ``also`` says why. If it is not queued any more, do
        nothing."""

        def work(tx: Transaction) -> None:
            if admissions.by_id(tx, admission.id).status is not AdmissionStatus.QUEUED:
                return
            admissions.take_up(tx, self._clock, admission.id, self._writer.epoch, turn_id, Outcome.REFUSED)
            also(tx)

        await self._writer.write(work)

    async def leave_queued(self, admission: Admission) -> None:
        """Let an input wait for a turn of its own after all: it is about something else than the running turn."""
        await self._writer.write(lambda tx: admissions.let_wait(tx, admission.id))


def stored_plan(plan: Plan, earlier: Sequence[Mapping[str, Any]], added: Sequence[Action]) -> dict[str, Any]:
    """Return the stored form of a plan whose steps were added as actions: with the ids they got, behind ``earlier`` ones."""
    steps = [
        {
            "id": a.step_id, "tool": a.tool, "arguments": a.arguments, "when": a.when, "optional": a.optional,
            "after": a.after, "expects": a.expects,
        }
        for a in added
    ]  # fmt: skip
    return {**plan.to_json(), "steps": [*earlier, *steps]}
