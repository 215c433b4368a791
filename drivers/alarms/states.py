"""The alarm state machine of ISA-18.2 (figure 5 of the standard), as far as it is built: an enum, a table, a pure step.

Latched, shelved, suppressed and out-of-service alarms are not part of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from appliance.contracts.alarm import AlarmAction, AlarmState
from appliance.contracts.errors import Refused

S, A = AlarmState, AlarmAction
TRANSITIONS: Mapping[tuple[AlarmState, AlarmAction], AlarmState] = {
    (S.NORMAL, A.RAISE): S.UNACKNOWLEDGED,
    (S.UNACKNOWLEDGED, A.ACKNOWLEDGE): S.ACKNOWLEDGED,
    (S.UNACKNOWLEDGED, A.CLEAR): S.RETURNED_UNACKNOWLEDGED,
    (S.ACKNOWLEDGED, A.CLEAR): S.NORMAL,
    (S.RETURNED_UNACKNOWLEDGED, A.ACKNOWLEDGE): S.NORMAL,
    (S.RETURNED_UNACKNOWLEDGED, A.RAISE): S.UNACKNOWLEDGED,
}

_WHY_NOT: Mapping[tuple[AlarmState, AlarmAction], str] = {
    (S.NORMAL, A.CLEAR): "the alarm is not active",
    (S.NORMAL, A.ACKNOWLEDGE): "there is nothing to acknowledge",
    (S.UNACKNOWLEDGED, A.RAISE): "the alarm is active already",
    (S.ACKNOWLEDGED, A.RAISE): "the alarm is active already",
    (S.ACKNOWLEDGED, A.ACKNOWLEDGE): "the alarm is acknowledged already",
    (S.RETURNED_UNACKNOWLEDGED, A.CLEAR): "the alarm is cleared already",
}
del S, A


def advance_alarm(state: AlarmState, action: AlarmAction) -> AlarmState:
    """Return the next state.

    Raises:
        Refused: the table has no such transition; the message says why in words fit to be spoken.
    """
    following = TRANSITIONS.get((state, action))
    if following is None:
        raise Refused(_WHY_NOT[state, action], state=state, action=action)
    return following
