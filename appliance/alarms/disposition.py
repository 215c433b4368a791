"""What becomes of an alarm event: announced, or not and why. Pure."""

from __future__ import annotations

from appliance.alarms.settings import AlarmSettings
from appliance.contracts.alarm import AlarmChange, AlarmEvent, Disposition
from appliance.contracts.alarm_situation import Situation


class Dispositions:
    """Implements ``DispositionRule``. The first rule that applies decides, in the order they are written here."""

    def __init__(self, settings: AlarmSettings) -> None:
        self._settings = settings

    @property
    def chatter_window_s(self) -> float:
        """See the port."""
        return self._settings.chatter_window_s

    @property
    def chatter_calm_s(self) -> float:
        """See the port."""
        return self._settings.chatter_calm_s

    def decide(self, event: AlarmEvent, situation: Situation) -> Disposition:
        """Return the event's disposition. A clear shares the fate of its raise: who was told nothing is told no end of it."""
        is_raise = event.change is AlarmChange.RAISED
        if _tells_nothing(event, situation):
            if event.is_state:
                return Disposition.STATE
            return Disposition.REPEAT if situation.is_own else Disposition.MERGED
        if situation.inhibition is not None:
            return Disposition(situation.inhibition.value)
        if not is_raise and situation.raise_became not in (None, Disposition.ANNOUNCE):
            assert situation.raise_became is not None
            return situation.raise_became
        if situation.is_chattering or (is_raise and situation.recent_raises >= self._settings.chatter_count):
            return Disposition.CHATTER
        return Disposition.ANNOUNCE


def _tells_nothing(event: AlarmEvent, situation: Situation) -> bool:
    """Whether it is known already: active and raised again, over and anything at all, or nothing and found to be nothing."""
    if situation.alarm is None:
        return event.is_state and event.change is AlarmChange.CLEARED
    return event.change is AlarmChange.RAISED or not situation.alarm.is_active
