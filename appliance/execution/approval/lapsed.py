"""Answers that count no more: a yes that is too old, of another boot, or to what is declared differently now, is taken for a no.

It is looked for whenever a step is to begin, so that all that hangs on the yes, and all that hangs on a no, goes the same way.
In: a page, a turn and its steps. Out: the steps, in which such a yes is a no, which is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.contracts.approving import Approver
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.turn import Turn
from appliance.execution.approval.consent import APPROVES, QUESTION_TOOL
from appliance.execution.journal import Page, Saying
from appliance.store import actions

CONFIRMED, LAPSED = "confirmed", "lapsed"
"""Fields of the result of a question: what was answered, and why a yes counts no more."""


def without_lapsed(page: Page, turn: Turn, steps: Sequence[Action], approvals: Approver) -> list[Action]:
    """Return a turn's steps after every yes that lapsed before its call began has become a no."""
    pending = {step.step_id: step for step in steps if step.state is ActionState.PENDING}
    kept = list(steps)
    for at, asking in enumerate(steps):
        target = pending.get(str(asking.arguments.get(APPROVES) or "")) if asking.tool == QUESTION_TOOL else None
        if target is None or (asking.result or {}).get(CONFIRMED) is not True:
            continue
        why = approvals.lapsed(page.tx, turn, asking, target)
        if why:
            result = {**(asking.result or {}), CONFIRMED: False, LAPSED: why}
            actions.annul_answer(page.tx, asking.id, result)
            page.say(Saying(turn, why))
            kept[at] = asking.become(asking.state, result)
    return kept
