"""Which effects of a turn have happened without a word about them yet: a step of words was to tell, and is not done any more."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.contracts.effect import Effect, EffectStatus
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.store import Transaction
from appliance.contracts.tool import EffectDisposition
from appliance.store import effects

DELIVERY = "delivery"
"""Field of the result of a step that has queued words."""
_APPLIED = str(EffectDisposition.APPLIED)
_BY_REPLY = "reply"


def untold(tx: Transaction, steps: Sequence[Action]) -> list[Effect]:
    """Return the effects that happened and that no later one of ``steps`` has told of. Of one that had to be checked it was said
    what checking found, and what a person settled that person knows."""
    left: list[Action] = []
    for step in steps:
        result = step.result or {}
        if step.state is ActionState.DONE and result.get("effect_disposition") == _APPLIED:
            left.append(step)
        elif step.state is ActionState.DONE and DELIVERY in result and "confirmation" not in result:
            left.clear()
    found = [effects.of_action(tx, step.id) for step in left]
    return [e for e in found if e is not None and e.status is EffectStatus.APPLIED and e.settled_by == _BY_REPLY]
