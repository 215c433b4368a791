"""The alarm state machine of ISA-18.2 (figure 5 of the standard): an enum, a table, a pure step.

A latching alarm takes four steps differently: what would bring another one back to normal leaves it latched until it is reset.
Being shelved, suppressed by design or out of service is no state here: an alarm's states go on while it is not announced.
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
    # Also of an alarm that is not latching any more: one that latched under an older plant model must find its way out.
    (S.LATCHED, A.RAISE): S.UNACKNOWLEDGED,
    (S.LATCHED, A.RESET): S.NORMAL,
}

LATCHING: Mapping[tuple[AlarmState, AlarmAction], AlarmState] = {
    **TRANSITIONS,
    (S.ACKNOWLEDGED, A.CLEAR): S.LATCHED,
    (S.RETURNED_UNACKNOWLEDGED, A.ACKNOWLEDGE): S.LATCHED,
}

_REPLIES: Mapping[tuple[AlarmState, AlarmAction], str] = {  # what people ask for; the rest is asked by sources
    (S.NORMAL, A.ACKNOWLEDGE): "acknowledged_none",
    (S.NORMAL, A.RESET): "reset_none",
    (S.UNACKNOWLEDGED, A.RESET): "alarm_still_active",
    (S.ACKNOWLEDGED, A.ACKNOWLEDGE): "alarm_acknowledged_already",
    (S.ACKNOWLEDGED, A.RESET): "alarm_still_active",
    (S.RETURNED_UNACKNOWLEDGED, A.RESET): "alarm_acknowledge_first",
    (S.LATCHED, A.ACKNOWLEDGE): "alarm_waits_for_reset",
}
_WHY_NOT: Mapping[tuple[AlarmState, AlarmAction], str] = {
    (S.NORMAL, A.CLEAR): "the alarm is not active",
    (S.NORMAL, A.ACKNOWLEDGE): "there is nothing to acknowledge",
    (S.NORMAL, A.RESET): "there is nothing to reset",
    (S.UNACKNOWLEDGED, A.RAISE): "the alarm is active already",
    (S.UNACKNOWLEDGED, A.RESET): "the alarm is still active",
    (S.ACKNOWLEDGED, A.RAISE): "the alarm is active already",
    (S.ACKNOWLEDGED, A.ACKNOWLEDGE): "the alarm is acknowledged already",
    (S.ACKNOWLEDGED, A.RESET): "the alarm is still active",
    (S.RETURNED_UNACKNOWLEDGED, A.CLEAR): "the alarm is cleared already",
    (S.RETURNED_UNACKNOWLEDGED, A.RESET): "the alarm must be acknowledged first",
    (S.LATCHED, A.CLEAR): "the alarm is cleared already",
    (S.LATCHED, A.ACKNOWLEDGE): "the alarm is acknowledged already and waits for a reset",
}
del S, A


def advance_alarm(state: AlarmState, action: AlarmAction, *, latching: bool = False) -> AlarmState:
    """Return the next state.

    Raises:
        Refused: the table has no such transition; the message says why in words fit to be spoken.
    """
    following = (LATCHING if latching else TRANSITIONS).get((state, action))
    if following is None:
        refused = Refused(_WHY_NOT[state, action], state=state, action=action)
        reply = _REPLIES.get((state, action))
        raise refused.worded(reply) if reply else refused
    return following
