"""How long a plan can take at the most: asked before it is begun, whether that much of the turn's lifespan is left (S8). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from appliance.contracts.condition import Done, condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Step


def estimate_s(
    steps: Iterable[Step], bounds_s: Mapping[str, float], brings_s: Callable[[Step], float] = lambda step: 0.0
) -> float:
    """Return the longest time the steps can take together, in s, from the bounds of their tools. ``brings_s``: how long what a
    step adds to the plan can take.

    Of what runs on a yes and what runs on a no only the longer counts; waiting for the answer has its own clock. Steps that may
    run at the same time are counted as if they ran one after the other: whether they do is decided when they run, and a plan that
    was let in must never be out of time for that.
    """
    always = 0.0
    branches: dict[str, dict[bool, float]] = {}
    for step in steps:
        bound_s = bounds_s.get(step.tool, 0.0) + brings_s(step)
        done = _decides(step.when)
        if done is None:
            always += bound_s
        else:
            branch = branches.setdefault(done.step, {})
            branch[done.wanted] = branch.get(done.wanted, 0.0) + bound_s
    return round(always + sum(max(branch.values()) for branch in branches.values()), 3)


def _decides(when: str) -> Done | None:
    """The step whose being done decides, of which one or the other comes true; None when a condition has no such opposite."""
    try:
        terms = condition_of(when).terms
    except Malformed:
        return None
    return next((term for term in terms if isinstance(term, Done)), None)
