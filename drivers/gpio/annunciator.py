"""From the appliance's situation to what the stack light and the buzzer show: one pure function.

Colours as IEC 60073:2002 has them: red for danger, yellow (amber) for an abnormal condition, green for a normal one. What
nobody has acknowledged flashes; what is acknowledged and still there is steady (ANSI/ISA-18.1, sequence A).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from appliance.contracts.alarm import AlarmState
from appliance.contracts.alarm_definition import Priority


class Pattern(StrEnum):
    """What a lamp or the buzzer does. SLOW and FAST flash, as long on as off."""

    OFF = "off"
    STEADY = "steady"
    SLOW = "slow"
    FAST = "fast"

    @property
    def rate_hz(self) -> float | None:
        """Flashes a second, None for what does not flash."""
        return _RATES_HZ.get(self)


# IEC 60073:2002 has two rates: 0.4 to 0.8 Hz, and 1.4 to 2.8 Hz for what is more urgent. A factor of four apart, nobody
# mistakes one for the other.
_RATES_HZ = {Pattern.SLOW: 0.5, Pattern.FAST: 2.0}


@dataclass(frozen=True, slots=True)
class StandingAlarm:
    """An activation that is not over and that nothing keeps from being announced (not shelved, suppressed, out of service)."""

    activation_id: str
    priority: Priority
    state: AlarmState


@dataclass(frozen=True, slots=True)
class Situation:
    """What the panel shows. ``is_degraded``: some part of the appliance is named as degraded; ``is_on_hold``: it carries nothing
    out."""

    alarms: tuple[StandingAlarm, ...] = ()
    is_degraded: bool = False
    is_on_hold: bool = False

    @property
    def calling(self) -> frozenset[str]:
        """Activations for which the buzzer sounds until it is silenced: urgent and not acknowledged."""
        return frozenset(alarm.activation_id for alarm in self.alarms if _is_urgent(alarm) and _is_unacknowledged(alarm))


@dataclass(frozen=True, slots=True)
class Annunciation:
    """What each lamp and the buzzer do."""

    red: Pattern = Pattern.OFF
    amber: Pattern = Pattern.OFF
    green: Pattern = Pattern.OFF
    buzzer: Pattern = Pattern.OFF
    hold: Pattern = Pattern.OFF


DARK = Annunciation()
"""Before anything is known, and after the end."""


def annunciate(situation: Situation, silenced: frozenset[str] = frozenset()) -> Annunciation:
    """Return what to show. ``silenced`` are the activations the acknowledge button was pressed for: they no longer sound.

    The buzzer sounds in the rhythm of the red lamp: a light and a sound of the same meaning have the same code (Directive
    92/58/EEC, annex VI).
    """
    urgent = [alarm for alarm in situation.alarms if _is_urgent(alarm)]
    lesser = [alarm for alarm in situation.alarms if not _is_urgent(alarm)]
    red, amber = _lamp(urgent, Pattern.FAST), _lamp(lesser, Pattern.SLOW)
    if amber is Pattern.OFF and (situation.is_degraded or situation.is_on_hold):
        amber = Pattern.STEADY
    return Annunciation(
        red=red,
        amber=amber,
        green=Pattern.STEADY if red is amber is Pattern.OFF else Pattern.OFF,
        buzzer=Pattern.FAST if situation.calling - silenced else Pattern.OFF,
        hold=Pattern.STEADY if situation.is_on_hold else Pattern.OFF,
    )


def _lamp(alarms: list[StandingAlarm], unacknowledged: Pattern) -> Pattern:
    if any(_is_unacknowledged(alarm) for alarm in alarms):
        return unacknowledged
    return Pattern.STEADY if any(alarm.state is not AlarmState.NORMAL for alarm in alarms) else Pattern.OFF


def _is_urgent(alarm: StandingAlarm) -> bool:
    return alarm.priority in (Priority.CRITICAL, Priority.HIGH)


def _is_unacknowledged(alarm: StandingAlarm) -> bool:
    return alarm.state in (AlarmState.UNACKNOWLEDGED, AlarmState.RETURNED_UNACKNOWLEDGED)
