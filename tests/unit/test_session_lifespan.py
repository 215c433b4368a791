"""The lifespan formula of requirements S2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.session.lifespan import allowance_s, remaining_s
from appliance.session.settings import SessionSettings

DEFAULTS = SessionSettings()
counts = st.integers(0, 50)


@pytest.mark.req("S2")
@pytest.mark.parametrize(
    ("tool_calls", "pending", "expected_s"),
    [
        (0, 0, 300.0),
        (1, 0, 120.0 * 0.8),
        (3, 0, 61.44),  # the article's example without its confirmation
        (0, 1, 900.0),
        (3, 1, 600.0 * 0.8**3 * 1.5),
        (3, 2, 600.0 * 0.8**3 * 1.5**2),
        (50, 0, 30.0),
    ],
)
def test_the_formula_as_written(tool_calls: int, pending: int, expected_s: float) -> None:
    assert allowance_s(DEFAULTS, tool_calls=tool_calls, pending_confirmations=pending) == pytest.approx(expected_s)


@pytest.mark.req("S2")
@given(tool_calls=counts, pending=st.integers(0, 10), spent_s=st.floats(0, 1e6))
def test_it_shrinks_with_tools_grows_with_questions_and_has_a_floor(tool_calls: int, pending: int, spent_s: float) -> None:
    here_s = allowance_s(DEFAULTS, tool_calls=tool_calls, pending_confirmations=pending)
    assert here_s >= DEFAULTS.floor_s
    assert allowance_s(DEFAULTS, tool_calls=tool_calls + 1, pending_confirmations=pending) <= here_s
    assert allowance_s(DEFAULTS, tool_calls=tool_calls, pending_confirmations=pending + 1) >= here_s
    left_s = remaining_s(DEFAULTS, tool_calls=tool_calls, pending_confirmations=pending, spent_s=spent_s)
    assert left_s == max(0.0, here_s - spent_s)


@pytest.mark.req("S2")
def test_every_number_can_be_set() -> None:
    own = SessionSettings(base_conversation_s=10, base_tool_s=8, base_confirm_s=20, tool_factor=0.5, confirm_factor=2, floor_s=1)
    assert allowance_s(own, tool_calls=0, pending_confirmations=0) == 10
    assert allowance_s(own, tool_calls=2, pending_confirmations=0) == 2
    assert allowance_s(own, tool_calls=1, pending_confirmations=1) == 20
