"""What the panel shows in each situation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.alarm import AlarmState
from appliance.contracts.alarm_definition import Priority
from drivers.gpio.annunciator import Annunciation, Pattern, Situation, StandingAlarm, annunciate

pytestmark = pytest.mark.req("F8")

OFF, STEADY, SLOW, FAST = Pattern.OFF, Pattern.STEADY, Pattern.SLOW, Pattern.FAST
NEW, SEEN, RETURNED, LATCHED = (
    AlarmState.UNACKNOWLEDGED,
    AlarmState.ACKNOWLEDGED,
    AlarmState.RETURNED_UNACKNOWLEDGED,
    AlarmState.LATCHED,
)
alarms = st.builds(StandingAlarm, st.sampled_from(["a:1", "a:2", "b:1"]), st.sampled_from(Priority), st.sampled_from(AlarmState))
situations = st.builds(Situation, st.lists(alarms, max_size=4).map(tuple), st.booleans())


def of(*told: tuple[Priority, AlarmState], is_degraded: bool = False) -> Situation:
    standing = (StandingAlarm(f"plc:{number}", priority, state) for number, (priority, state) in enumerate(told))
    return Situation(tuple(standing), is_degraded)


@pytest.mark.parametrize(
    ("situation", "shown"),
    [
        (of(), Annunciation(green=STEADY)),
        (of(is_degraded=True), Annunciation(amber=STEADY)),
        (of((Priority.CRITICAL, NEW)), Annunciation(red=FAST, buzzer=FAST)),
        (of((Priority.HIGH, RETURNED)), Annunciation(red=FAST, buzzer=FAST)),
        (of((Priority.HIGH, SEEN)), Annunciation(red=STEADY)),
        (of((Priority.HIGH, LATCHED)), Annunciation(red=STEADY)),
        (of((Priority.MEDIUM, NEW)), Annunciation(amber=SLOW)),
        (of((Priority.LOW, RETURNED), is_degraded=True), Annunciation(amber=SLOW)),
        (of((Priority.LOW, SEEN)), Annunciation(amber=STEADY)),
        (of((Priority.HIGH, SEEN), (Priority.CRITICAL, NEW)), Annunciation(red=FAST, buzzer=FAST)),
        (of((Priority.CRITICAL, SEEN), (Priority.LOW, NEW)), Annunciation(red=STEADY, amber=SLOW)),
        (of((Priority.HIGH, SEEN), is_degraded=True), Annunciation(red=STEADY, amber=STEADY)),
        (of((Priority.HIGH, AlarmState.NORMAL)), Annunciation(green=STEADY)),
    ],
)
def test_each_situation_has_its_picture(situation: Situation, shown: Annunciation) -> None:
    assert annunciate(situation) == shown


def test_the_buzzer_is_silent_for_what_was_silenced_and_sounds_for_what_is_new() -> None:
    first = of((Priority.HIGH, NEW))
    silenced = first.calling
    assert annunciate(first, silenced) == Annunciation(red=FAST)
    assert annunciate(of((Priority.HIGH, NEW), (Priority.CRITICAL, NEW)), silenced).buzzer is FAST


@given(situations)
def test_green_never_shines_beside_another_lamp_and_the_panel_is_never_dark(situation: Situation) -> None:
    shown = annunciate(situation)
    assert (shown.green is STEADY) is (shown.red is shown.amber is OFF)
    assert shown.buzzer is OFF or shown.red is FAST


def test_flashing_rates_are_within_the_standards_ranges_and_apart() -> None:
    assert 1.4 <= (FAST.rate_hz or 0) <= 2.8
    assert 0.4 <= (SLOW.rate_hz or 0) <= 0.8
    assert [pattern.rate_hz for pattern in (OFF, STEADY)] == [None, None]
    assert all(fast >= 2 * slow for slow, fast in pairwise(sorted(p.rate_hz for p in Pattern if p.rate_hz)))
