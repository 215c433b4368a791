"""Every pair of alarm state and action."""

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
}


@pytest.mark.parametrize("state", list(S))
@pytest.mark.parametrize("action", list(A))
def test_walk_every_pair(state: S, action: A) -> None:
    if (state, action) in ALLOWED:
        assert advance_alarm(state, action) is ALLOWED[state, action]
        return
    with pytest.raises(Refused) as refused:
        advance_alarm(state, action)
    assert refused.value.message.islower()  # words for a person, not the names of enums
    assert refused.value.facts == {"state": state, "action": action}
