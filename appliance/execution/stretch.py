"""What a turn does between two calls, on one page: the ends of the steps before, everything that needs nobody outside, and the
beginning of the next calls. So a turn of n calls costs at most n + 1 commits, and nothing is called before all that came before
it is on disk.

Consecutive steps that only read and need nothing of each other begin together (T8); whatever has an effect or asks is alone.
Each step is looked at for stops in the transaction that would begin it. How steps begin is ``step_starts``'s matter, how they end
``step_ends``'s. In: a page, the turn, where it stands. Out: where it stands then.
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.contracts.approving import Approver
from appliance.contracts.condition import condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.interrupt import Interrupt
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.turn import Turn
from appliance.execution.approval.lapsed import without_lapsed
from appliance.execution.journal import Page
from appliance.execution.standing import Begun, Reached, RunOutcome, Together, Unsure, Way, has_ended, outcome_of
from appliance.execution.step_ends import StepEnds
from appliance.execution.step_starts import StepStarts
from appliance.execution.toolbox.toolbox import Toolbox, is_outside_tool
from appliance.store import actions, effects
from appliance.store.step_names import named_in

__all__ = ["RunOutcome", "Stretches"]


class Stretches:
    """Takes turns from call to call."""

    def __init__(self, toolbox: Toolbox, approvals: Approver, starts: StepStarts, ends: StepEnds) -> None:
        self._toolbox = toolbox
        self._approvals = approvals
        self._starts = starts
        self._ends = ends
        self._readers = frozenset(
            name
            for name, contract in toolbox.contracts.items()
            if not contract.changes_something and is_outside_tool(toolbox.find(name))
        )

    def go_on(self, page: Page, turn: Turn, since: Reached | None, way: Way) -> Reached:
        """Write the ends of the steps under way and go on to the next calls, or to the end. ``since`` None: from the ledger."""
        steps = list(actions.of_turn(page.tx, turn.id) if since is None else since.steps)
        position = 0 if since is None else since.position
        wishes = page.wishes(turn.id)
        stop = next((wish for wish in wishes if wish.action_id is None), None)
        for at, ending in way.endings.items():
            steps[at] = ending(page)
        fresh = way.endings.keys()
        if stop is not None and not all(has_ended(step, at in fresh) for at, step in enumerate(steps[position:], position)):
            steps = self._stopped(page, turn, steps, stop)
            return Reached(tuple(steps), position, RunOutcome("stopped", "", stop.cause, stop.by, stop.reason))
        if page.turn_fails and since is not None and isinstance(since.next, Together) and len(since.next.calls) > 1:
            return self._failed_together(page, turn, steps, wishes, range(position, position + len(since.next.calls)))
        while position < len(steps):
            step, is_fresh = steps[position], position in fresh
            is_new = is_fresh or not has_ended(step, is_fresh)
            if not has_ended(step, is_fresh):
                if way.steered and step.state is ActionState.PENDING:
                    return Reached(tuple(steps), position, RunOutcome("steered"))
                if step.state is ActionState.PENDING:
                    steps = without_lapsed(page, turn, steps, self._approvals)
                reached = self._advance(page, turn, step, steps[:position], _wish_for(step, wishes), way)
                match reached:
                    case Begun():
                        steps[position] = reached.action
                        together = self._with_others(page, turn, steps, position, reached, wishes, way)
                        return Reached(tuple(steps), position, together)
                    case Unsure():
                        steps[position] = reached.action
                        return Reached(tuple(steps), position, reached)
                steps[position] = reached
                if self._extends(reached):
                    steps = list(actions.of_turn(page.tx, turn.id))
            outcome = outcome_of(steps[position])
            if outcome is not None:
                if outcome.kind == "failed" and is_new:
                    self._ends.tell_done(page, turn, steps[:position])
                return Reached(tuple(steps), position, outcome)
            position += 1
        for wish in wishes:  # it came too late: everything had been done
            page.obeyed(wish)
        return Reached(tuple(steps), position, RunOutcome("finished"))

    def _advance(
        self, page: Page, turn: Turn, action: Action, earlier: Sequence[Action], wish: Interrupt | None, way: Way
    ) -> Action | Begun | Unsure:
        """Bring one step from the state it was found in to the next one that lasts."""
        under_way = action.state in (ActionState.STARTED, ActionState.UNKNOWN)
        effect = effects.of_action(page.tx, action.id) if under_way else None
        if wish is not None:
            page.obeyed(wish)
            return self._ends.stopped_by(page, turn, action, effect, wish)
        if effect is not None and not self._ends.standing_in(action):
            return self._ends.after_effect(page, turn, action, effect)
        if action.state is ActionState.WAITING:
            return self._ends.answered(page, action)
        return self._starts.begin(page, turn, action, earlier, way)

    def _extends(self, step: Action) -> bool:
        contract = self._toolbox.contracts.get(step.tool)
        return contract is not None and contract.extends_plan and step.state is ActionState.DONE

    # steps that run at the same time --------------------------------------------------------------------------------
    def _with_others(
        self, page: Page, turn: Turn, steps: list[Action], first: int, begun: Begun, wishes: Sequence[Interrupt], way: Way
    ) -> Together:
        """Begin the steps behind one that may run beside it."""
        calls = [begun]
        if way.steered or not self._runs_beside(begun.action):
            return Together((begun,))
        while (at := first + len(calls)) < len(steps):
            step, beside = steps[at], {each.action.step_id for each in calls}
            if not self._runs_beside(step) or _wish_for(step, wishes) is not None or _needs(step, beside):
                break
            another = self._starts.begin_beside(page, turn, step, steps[:at], way)
            if another is None:
                break
            calls.append(another)
            steps[at] = another.action
        return Together(tuple(calls))

    def _runs_beside(self, step: Action) -> bool:
        """Whether a step only reads, outside, and may have begun."""
        if step.tool not in self._readers or step.state not in (ActionState.PENDING, ActionState.STARTED):
            return False
        return not self._ends.standing_in(step)

    def _failed_together(
        self, page: Page, turn: Turn, steps: list[Action], wishes: Sequence[Interrupt], together: range
    ) -> Reached:
        """End a turn of whose steps that ran at the same time one has failed: none of the others stays under way."""
        outcomes = {at: outcome for at in together if (outcome := outcome_of(steps[at])) is not None}
        for at in together:
            step, wish = steps[at], _wish_for(steps[at], wishes)
            if step.state is ActionState.STARTED and wish is not None:
                page.obeyed(wish)
                steps[at] = self._ends.stopped_by(page, turn, step, None, wish)
            elif step.state is ActionState.STARTED:
                steps[at] = self._ends.left(page, step)
        self._ends.tell_done(page, turn, steps)
        at, outcome = next(iter(outcomes.items()))
        return Reached(tuple(steps), at, outcome)

    # stops ----------------------------------------------------------------------------------------------------------
    def _stopped(self, page: Page, turn: Turn, steps: Sequence[Action], stop: Interrupt) -> list[Action]:
        """End what is under way and skip what has not begun."""
        page.obeyed(stop)
        self._ends.tell_done(page, turn, steps)
        ended = []
        for step in steps:
            if not has_ended(step, is_fresh=False):
                effect = effects.of_action(page.tx, step.id)
                step = self._ends.stopped_by(page, turn, step, effect, stop)
            ended.append(step)
        return ended


def _wish_for(step: Action, wishes: Sequence[Interrupt]) -> Interrupt | None:
    return next((wish for wish in wishes if wish.action_id == step.id), None)


def _needs(step: Action, others: set[str]) -> bool:
    """Whether a step needs one of ``others`` to have ended."""
    try:
        asked = condition_of(step.when).steps
    except Malformed:  # whoever begins it says so
        asked = ()
    return not others.isdisjoint((*asked, *step.after, *named_in(step.arguments)))
