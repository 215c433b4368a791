"""What becomes of an alarm event, decided from what is known when it comes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from appliance.alarms.disposition import Dispositions
from appliance.alarms.settings import AlarmSettings
from appliance.contracts.alarm import Alarm, AlarmChange, AlarmEvent, AlarmState, Disposition, Inhibition
from appliance.contracts.alarm_situation import Situation

NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)
RULE = Dispositions(AlarmSettings(chatter_count=3))


def event(change: str = "raised", *, is_state: bool = False) -> AlarmEvent:
    return AlarmEvent("gateway", "hot", "1", AlarmChange(change), 94.2, "degC", NOW, is_state=is_state)


def alarm(*, is_active: bool = True) -> Alarm:
    return Alarm(
        "gateway:hot:1", "hot", "gateway", "motor_3", "high", AlarmState.UNACKNOWLEDGED, 94.2, "degC", None, NOW,
        None if is_active else NOW, None, None, 1,
    )  # fmt: skip


def situation(**changes: object) -> Situation:
    told = {"alarm": None, "is_own": True, "raise_became": None, "inhibition": None, "is_chattering": False, "recent_raises": 0}
    return Situation(**told | changes)  # type: ignore[arg-type]


@pytest.mark.req("F6", "F7")
@pytest.mark.parametrize(
    ("what", "when", "becomes"),
    [
        ("raised", situation(), "announce"),
        ("cleared", situation(), "announce"),  # it came and went unseen: that is news
        ("cleared", situation(alarm=alarm(), raise_became=Disposition.ANNOUNCE), "announce"),
        ("raised", situation(alarm=alarm()), "repeat"),
        ("raised", situation(alarm=alarm(is_active=False)), "repeat"),
        ("cleared", situation(alarm=alarm(is_active=False)), "repeat"),
        ("raised", situation(alarm=alarm(), is_own=False), "merged"),
        ("cleared", situation(alarm=alarm(is_active=False), is_own=False), "merged"),
        ("cleared", situation(alarm=alarm(), is_own=False, raise_became=Disposition.ANNOUNCE), "announce"),
        ("raised", situation(recent_raises=2), "announce"),
        ("raised", situation(recent_raises=3), "chatter"),
        ("raised", situation(is_chattering=True), "chatter"),
        ("cleared", situation(alarm=alarm(), raise_became=Disposition.ANNOUNCE, is_chattering=True), "chatter"),
        ("cleared", situation(alarm=alarm(), raise_became=Disposition.CHATTER), "chatter"),
        ("cleared", situation(alarm=alarm(), raise_became=Disposition.FLOOD), "flood"),
        ("cleared", situation(alarm=alarm(), raise_became=Disposition.SHELVED), "shelved"),
        ("cleared", situation(alarm=alarm(), raise_became=Disposition.SHELVED, inhibition=Inhibition.OUT_OF_SERVICE),
         "out_of_service"),
    ],
)  # fmt: skip
def test_an_event_is_announced_or_it_is_said_why_not(what: str, when: Situation, becomes: str) -> None:
    assert RULE.decide(event(what), when) == becomes


@pytest.mark.req("F6")
@pytest.mark.parametrize("inhibition", list(Inhibition))
@pytest.mark.parametrize("what", ["raised", "cleared"])
def test_what_is_held_is_not_announced_whatever_else_is_true(inhibition: Inhibition, what: str) -> None:
    known = alarm() if what == "cleared" else None
    when = situation(alarm=known, inhibition=inhibition, is_chattering=True, recent_raises=9, raise_became=Disposition.ANNOUNCE)
    assert RULE.decide(event(what), when) == inhibition.value
    assert RULE.decide(event("raised"), situation(alarm=alarm(), inhibition=inhibition)) is Disposition.REPEAT


@pytest.mark.req("F7")
@pytest.mark.field("FC-F15")
def test_a_retained_message_is_truth_and_not_news() -> None:
    retained = event(is_state=True)
    assert RULE.decide(retained, situation(alarm=alarm())) is Disposition.STATE
    assert RULE.decide(retained, situation(alarm=alarm(is_active=False))) is Disposition.STATE
    assert RULE.decide(event("cleared", is_state=True), situation()) is Disposition.STATE
    # What nobody knew of is told, whenever it began; so is the end of what was told, which came while nobody listened.
    assert RULE.decide(retained, situation()) is Disposition.ANNOUNCE
    gone = situation(alarm=alarm(), raise_became=Disposition.ANNOUNCE)
    assert RULE.decide(event("cleared", is_state=True), gone) is Disposition.ANNOUNCE


def test_every_event_gets_a_disposition_and_flood_is_not_decided_here() -> None:
    found = {
        RULE.decide(event(what, is_state=is_state), situation(alarm=known, inhibition=held, recent_raises=raises))
        for what in ("raised", "cleared")
        for is_state in (False, True)
        for known in (None, alarm(), alarm(is_active=False))
        for held in (None, *Inhibition)
        for raises in (0, 3)
    }
    assert found == set(Disposition) - {Disposition.FLOOD, Disposition.MERGED}
