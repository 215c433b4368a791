"""Conditions parse or are refused, and never fail when they are judged, whatever they and the results hold."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.condition import LONGEST, Compared, Condition, Done, condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action, ActionState
from appliance.execution.conditions import holds

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
FIELDS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
NUMBERS = st.integers(-(10**12), 10**12) | st.decimals(-1000, 1000, places=3).map(float)
TEXTS = st.text(st.characters(blacklist_characters="\"'{}"), max_size=20)
TERMS = st.builds(Done, NAMES, st.booleans()) | st.one_of(
    st.builds(Compared, NAMES, FIELDS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), NUMBERS),
    st.builds(Compared, NAMES, FIELDS, st.sampled_from(["==", "!="]), TEXTS | st.booleans()),
)
CONDITIONS = st.lists(TERMS, min_size=1, max_size=4).map(lambda terms: Condition(tuple(terms)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.just("quality") | st.just("value"), inner, max_size=4),
    max_leaves=12,
)
STATES = st.sampled_from(list(ActionState))


@given(CONDITIONS)
def test_what_is_written_is_read_as_it_was(condition: Condition) -> None:
    written = str(condition)
    if len(written) <= LONGEST and "not" not in condition.steps:
        assert condition_of(written) == condition


@given(
    CONDITIONS,
    st.dictionaries(NAMES, st.tuples(STATES, st.none() | st.dictionaries(NAMES, JSON, max_size=4)), max_size=4),
    st.data(),
)
def test_judging_never_fails_but_for_a_step_that_is_not_there(
    condition: Condition, results: dict[str, tuple[ActionState, Any]], data: st.DataObject
) -> None:
    tool = data.draw(st.sampled_from(["ask", "read_tags"]))
    steps = {n: results.get(n, (ActionState.DONE, data.draw(st.dictionaries(NAMES, JSON, max_size=3)))) for n in condition.steps}
    earlier = {n: Action(n, "t", 0, n, tool, {}, "", False, state, result) for n, (state, result) in steps.items()}
    if len(str(condition)) <= LONGEST and "not" not in condition.steps:
        assert holds(str(condition), earlier, frozenset({"ask"})) in (True, False)


@given(st.text(max_size=450) | st.text("xn ot.and<>='\"1", max_size=80))
def test_any_text_is_a_condition_or_malformed(text: str) -> None:
    try:
        condition = condition_of(text)
    except Malformed:
        return
    if len(str(condition)) <= LONGEST:
        assert condition_of(str(condition)) == condition
