"""Every pair of alarm state and action, of alarms that latch and of those that do not."""

from __future__ import annotations

import pytest

from appliance.contracts.alarm import AlarmAction as A
from appliance.contracts.alarm import AlarmState as S
from appliance.contracts.errors import Refused
from drivers.alarms.states import advance_alarm

ALLOWED = {
    (S.NORMAL, A.RAISE): S.UNACKNOWLEDGED,
    (S.UNACKNOWLEDGED, A.ACKNOWLEDGE): S.ACKNOWLEDGED,
    (S.UNACKNOWLEDGED, A.CLEAR): S.RETURNED_UNACKNOWLEDGED,
    (S.ACKNOWLEDGED, A.CLEAR): S.NORMAL,
    (S.RETURNED_UNACKNOWLEDGED, A.ACKNOWLEDGE): S.NORMAL,
    (S.RETURNED_UNACKNOWLEDGED, A.RAISE): S.UNACKNOWLEDGED,
    (S.LATCHED, A.RAISE): S.UNACKNOWLEDGED,
    (S.LATCHED, A.RESET): S.NORMAL,
}
LATCHING = ALLOWED | {
    (S.ACKNOWLEDGED, A.CLEAR): S.LATCHED,
    (S.RETURNED_UNACKNOWLEDGED, A.ACKNOWLEDGE): S.LATCHED,
}


@pytest.mark.req("F6")
@pytest.mark.parametrize("state", list(S))
@pytest.mark.parametrize("action", list(A))
@pytest.mark.parametrize("latching", [False, True])
def test_walk_every_pair(state: S, action: A, latching: bool) -> None:
    allowed = LATCHING if latching else ALLOWED
    if (state, action) in allowed:
        assert advance_alarm(state, action, latching=latching) is allowed[state, action]
        return
    with pytest.raises(Refused) as refused:
        advance_alarm(state, action, latching=latching)
    assert refused.value.message.islower()  # words for a person, not the names of enums
    assert "_" not in refused.value.message
    assert refused.value.facts.items() >= {"state": state, "action": action}.items()


@pytest.mark.req("F6")
def test_a_latching_alarm_comes_back_to_normal_only_by_acknowledgement_and_reset() -> None:
    for order in ([A.ACKNOWLEDGE, A.CLEAR], [A.CLEAR, A.ACKNOWLEDGE]):
        state = S.UNACKNOWLEDGED
        for action in order:
            state = advance_alarm(state, action, latching=True)
        assert state is S.LATCHED
        assert advance_alarm(state, A.RESET, latching=True) is S.NORMAL
        assert advance_alarm(state, A.RAISE, latching=True) is S.UNACKNOWLEDGED


def test_without_being_told_an_alarm_does_not_latch() -> None:
    assert advance_alarm(S.ACKNOWLEDGED, A.CLEAR) is S.NORMAL
    assert S.LATCHED not in {advance_alarm(*pair) for pair in ALLOWED}
