"""Judges the condition of a step by the results of the steps before it. Pure.

Nothing that a result holds can make it fail: a field that is missing, of another kind, stale or not readable fulfils no
comparison, so a step never runs on a value nobody has. Of a bitfield each bit is judged by itself: ``== "fault"`` is that this
bit is set, ``!= "fault"`` that it is not. A number that an enumeration has no name for is no state, and fulfils neither.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.condition import Compared, Done, condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.reading import Quality
from appliance.execution.templates import look_up

_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(when: str, earlier: Mapping[str, Action], questions: frozenset[str]) -> bool:
    """Whether a step with this condition runs. ``earlier`` are the steps before it by id, ``questions`` tools that ask.

    About a question: ``x`` needs a yes, ``not x`` a no; an unanswered or unasked one fulfils neither. About any other
    step: ``x`` needs it done, ``not x`` needs it not done, whatever kept it from that. ``x.field > 80`` needs it done, and a
    good value there of which that holds.

    Raises:
        Malformed: it is no condition, or names no earlier step.
    """
    for term in condition_of(when).terms:
        step = earlier.get(term.step)
        if step is None:
            raise Malformed(f"condition {when!r} names no earlier step", condition=when)
        fulfilled = _is_done(term, step, questions) if isinstance(term, Done) else _compares(term, step)
        if not fulfilled:
            return False
    return True


def _is_done(term: Done, step: Action, questions: frozenset[str]) -> bool:
    done = step.state is ActionState.DONE
    if step.tool in questions:
        return done and step.result is not None and step.result.get("confirmed") is term.wanted
    return done is term.wanted


def _compares(term: Compared, step: Action) -> bool:
    if step.state is not ActionState.DONE:
        return False
    try:
        found = _found(term.field, step.result or {})
    except Malformed:
        return False
    value, wanted = _plain(found), term.operand
    if _kind(value) is not _kind(wanted) or _kind(value) is None:
        return False
    states = found.get("states") if isinstance(found, Mapping) else None
    if isinstance(states, list | tuple):
        return bool(states) and (wanted in states) is (term.sign == "==")
    return bool(_SIGNS[term.sign](value, wanted))


def _found(field: str, result: Mapping[str, Any]) -> Any:
    """What a field of a result is. Of a quantity the whole is, even where its ``value`` is named: it is none without the rest."""
    whole = look_up(field.removesuffix(".value"), result)
    return whole if isinstance(whole, Mapping) and "quality" in whole else look_up(field, result)


def _plain(found: Any) -> Any:
    """A quantity stands for its value, if that is a good one."""
    if isinstance(found, Mapping) and "quality" in found:
        return found.get("value") if found["quality"] == Quality.GOOD else None
    return found


def _kind(value: Any) -> type | None:
    """What a value can be compared with: numbers with numbers, texts with texts, true with false."""
    match value:
        case bool():
            return bool
        case int() | float():
            return float
        case str():
            return str
        case _:
            return None
