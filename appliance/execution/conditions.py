"""``when`` of a step: ``x`` or ``not x``, about an earlier step. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action, ActionState

_NOT = "not "


def holds(when: str, earlier: Mapping[str, Action], questions: frozenset[str]) -> bool:
    """Whether a step with this condition runs. ``earlier`` are the steps before it by id, ``questions`` tools that ask.

    About a question: ``x`` needs a yes, ``not x`` a no; an unanswered or unasked one fulfils neither. About any other
    step: ``x`` needs it done, ``not x`` needs it not done, whatever kept it from that.

    Raises:
        Malformed: it names no earlier step.
    """
    if not when:
        return True
    name = when.removeprefix(_NOT).strip()
    wanted = not when.startswith(_NOT)
    step = earlier.get(name)
    if step is None:
        raise Malformed(f"condition {when!r} names no earlier step", condition=when)
    done = step.state is ActionState.DONE
    if step.tool in questions:
        return done and step.result is not None and step.result.get("confirmed") is wanted
    return done is wanted
