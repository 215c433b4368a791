"""Whether a turn goes round in circles (T10): the same call failing, a tool failing whatever it is asked, nothing new coming of
it, the same few calls over and over. Pure: judged by the turn's own steps, before the next one begins.

Numbers are those of requirements T10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from appliance.contracts.plan import Action, ActionState
from appliance.execution.stops import code_of

WINDOW = 64
"""Steps looked back upon."""
WARN_SAME_CALL, BLOCK_SAME_CALL = 2, 5
"""Times in a row a call has failed with the same arguments."""
WARN_SAME_TOOL, HALT_SAME_TOOL = 3, 8
"""Times in a row a tool has failed, whatever its arguments."""
SAME_RESULT = 3
"""Times a call with the same arguments has brought the same."""
LONGEST_CYCLE = 4
"""Calls in a cycle; it is one when it came round twice and begins again."""
FEWEST = 2
"""Steps before one of which anything can be said."""

BLOCKED, HALTED = "blocked", "halted"
"""Error codes: of a call that is not made again, and of one that ended its turn."""

_RAN = (ActionState.DONE, ActionState.FAILED)
_NOT_ITS_FAULT = frozenset({"on_hold", "stopped", "cancelled", "unanswered", "needs_yes"})

Alike = Callable[[Action], bool]
"""Whether an earlier step whose arguments are written otherwise comes to the same ones when they are filled in."""


class Weight(IntEnum):
    """What follows: a word to the planner, the step is not done, the turn ends."""

    WARN = 1
    BLOCK = 2
    HALT = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What a guardrail found. ``why`` is for the record and the planner."""

    weight: Weight
    why: str


def judge(coming: Action, earlier: Sequence[Action], alike: Alike | None, *, is_unattended: bool) -> Finding | None:
    """Return what is to be said against the next step; None when nothing is. ``alike`` is asked where arguments differ; None:
    then they are others. When nobody is watching, what would be a warning ends the turn."""
    if len(earlier) < FEWEST:
        return None
    ran = [step for step in earlier[-WINDOW:] if step.state in _RAN]
    of_tool = [step for step in ran if step.tool == coming.tool]
    if len(of_tool) < FEWEST:
        return None
    same = [step for step in of_tool if step.arguments == coming.arguments or (alike is not None and alike(step))]
    found = _failing(of_tool, same) or _same_result(same) or _cycle(same, ran)
    if found is not None and is_unattended:
        return Finding(Weight.HALT, f"{found.why}, and nobody is watching")
    return found


def _failing(of_tool: Sequence[Action], same: Sequence[Action]) -> Finding | None:
    if not _failed(of_tool[-1]):
        return None
    tool, in_a_row, alike = of_tool[-1].tool, _failures(of_tool), _failures(same)
    if in_a_row >= HALT_SAME_TOOL:
        return Finding(Weight.HALT, f"{tool} has failed {in_a_row} times in a row")
    if alike >= BLOCK_SAME_CALL:
        return Finding(Weight.BLOCK, f"{tool} has failed {alike} times with the same arguments")
    if alike >= WARN_SAME_CALL:
        return Finding(Weight.WARN, f"{tool} has failed {alike} times with the same arguments")
    if in_a_row >= WARN_SAME_TOOL:
        return Finding(Weight.WARN, f"{tool} has failed {in_a_row} times in a row")
    return None


def _same_result(same: Sequence[Action]) -> Finding | None:
    if len(same) < SAME_RESULT or _failed(same[-1]):
        return None
    count = sum(step.state is ActionState.DONE and _said(step) == _said(same[-1]) for step in same)
    return Finding(Weight.WARN, f"{same[-1].tool} has said the same {count} times") if count >= SAME_RESULT else None


def _cycle(same: Sequence[Action], ran: Sequence[Action]) -> Finding | None:
    """Find a round of calls that came twice, with the same results, and begins a third time with the next call."""
    if len(same) < FEWEST:
        return None
    for length in range(2, LONGEST_CYCLE + 1):
        if len(ran) < 2 * length or ran[-length] is not same[-1]:
            continue
        before, after = ran[-2 * length : -length], ran[-length:]
        is_round = not all(_alike(after[0], other) for other in after)
        if is_round and all(_alike(old, new) for old, new in zip(before, after, strict=True)):
            return Finding(Weight.WARN, f"the same {length} calls have come round twice")
    return None


def _alike(old: Action, new: Action) -> bool:
    return old.tool == new.tool and old.arguments == new.arguments and _said(old) == _said(new)


def _said(step: Action) -> object:
    """What came of a step, without what a guardrail said of it."""
    return {name: value for name, value in (step.result or {}).items() if name != "warning"}


def _failures(steps: Sequence[Action]) -> int:
    """How many of the last steps failed in a row."""
    count = 0
    for step in reversed(steps):
        if not _failed(step):
            break
        count += 1
    return count


def _failed(step: Action) -> bool:
    return step.state is ActionState.FAILED and code_of(step) not in _NOT_ITS_FAULT
