"""Numbers, units, qualities, durations and names as people say them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Malformed
from appliance.delivery.phrasing import TONGUES, Phrasing, said_duration
from appliance.planning.phrase_file import load_phrase_file
from tests.support.planning import PHRASES
from tests.support.plans import PLANT, phrasing

WORDING = Phrasing({"en": {"hot": "{asset} is at {value}.", "plain": "Yes."}, "zh": {"hot": "{asset}{value}。"}}, PLANT)


def quantity(
    value: Any, unit: str = "", decimals: int | None = 0, quality: str = "good", age_s: float | None = 0.0
) -> dict[str, Any]:
    return {"value": value, "unit": unit, "decimals": decimals, "quality": quality, "age_s": age_s}


@pytest.mark.req("V5")
@pytest.mark.field("FC-V12")
@pytest.mark.parametrize(
    ("value", "english", "chinese"),
    [
        (None, "unknown", "未知"),
        (True, "yes", "是"),
        (0, "0", "0"),
        (-5, "minus 5", "负5"),
        (94.2, "94.2", "94.2"),
        (1.0, "1", "1"),
        (1e-3, "0.001", "0.001"),
        (1e-9, "almost 0", "约为0"),
        (-0.0, "0", "0"),
        (2.5e15, "2.5 times 10 to the power of 15", "2.5乘以10的15次方"),
        (float("nan"), "not readable", "无法读取"),
        ("fan\nslow\x00", "fan slow", "fan slow"),
        ("{alarm.value}", "{alarm.value}", "{alarm.value}"),
        ([], "", ""),
        (["a"], "a", "a"),
        (["a", "b", 3], "a, b and 3", "a、b和3"),
        ("motor_3", "motor 3", "3号电机"),
        ("motor_3.fan_speed", "fan speed", "风扇转速"),
        (quantity(94.2, "degC"), "94 degrees Celsius", "94摄氏度"),
        (quantity(1, "degC"), "1 degree Celsius", "1摄氏度"),
        (quantity(-1, "degC"), "minus 1 degrees Celsius", "负1摄氏度"),
        (quantity(-0.04, "degC", 1), "0.0 degrees Celsius", "0.0摄氏度"),
        (quantity(80, "%"), "80 percent", "百分之80"),
        (quantity(1.84, "m/s", 1), "1.8 metres per second", "1.8米每秒"),
        (quantity(4.5, "mm/s", 1), "4.5 millimetres per second", "4.5毫米每秒"),
        (quantity(2.96, "bar", 1), "3.0 bar", "3.0巴"),
        (quantity(12.5, "A", 1), "12.5 amps", "12.5安"),
        (quantity(7.5, "kW", 1), "7.5 kilowatts", "7.5千瓦"),
        (quantity(1480, "rpm"), "1480 revolutions per minute", "每分钟1480转"),
        (quantity(35, "L/min"), "35 litres per minute", "35升每分钟"),
        (quantity(1, "min"), "1 minute", "1分钟"),
        (quantity(45, "s"), "45 seconds", "45秒"),
        (quantity(125, "s"), "2 minutes 5 seconds", "2分钟5秒"),
        (quantity(True), "on", "开"),
        (quantity("remote"), "remote", "remote"),
        (quantity(94.2, "degC", None), "94.2 degrees Celsius", "94.2摄氏度"),
        ({"value": 3}, "3", "3"),
        (quantity(None, "degC", quality="bad"), "not readable", "无法读取"),
        (quantity(94.2, "degC", quality="bad"), "not readable", "无法读取"),
        (quantity(float("inf"), "degC"), "not readable", "无法读取"),
    ],
)  # fmt: skip
def test_a_value_is_said_as_people_say_it(value: Any, english: str, chinese: str) -> None:
    assert WORDING.spoken(value, "en") == english
    assert WORDING.spoken(value, "zh") == chinese


@pytest.mark.req("F3")
@pytest.mark.field("FC-F05")
def test_a_stale_value_is_never_said_as_if_it_were_fresh() -> None:
    stale = quantity(94.2, "degC", quality="stale", age_s=14.2)
    assert WORDING.spoken(stale, "en") == "last good value 94 degrees Celsius, 14 seconds ago"
    assert WORDING.spoken(stale, "zh") == "14秒前的最后有效值94摄氏度"
    assert WORDING.spoken(stale | {"age_s": None}, "en") == "last good value 94 degrees Celsius"


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (0, "0 seconds", "0秒"),
        (0.6, "1 second", "1秒"),
        (59.6, "1 minute", "1分钟"),
        (61, "1 minute 1 second", "1分钟1秒"),
        (3_600, "1 hour", "1小时"),
        (3_659, "1 hour", "1小时"),
        (11_400, "3 hours 10 minutes", "3小时10分钟"),
        (187_200, "2 days 4 hours", "2天4小时"),
    ],
)
def test_a_duration_has_at_most_two_parts(seconds: float, english: str, chinese: str) -> None:
    assert said_duration(seconds, TONGUES["en"]) == english
    assert said_duration(seconds, TONGUES["zh"]) == chinese


def test_both_languages_know_the_same_units() -> None:
    assert TONGUES["en"].units.keys() == TONGUES["zh"].units.keys()


@pytest.mark.parametrize("value", [{"unit": "degC"}, object(), quantity(3, "furlong")])
def test_what_has_no_words_is_refused(value: Any) -> None:
    with pytest.raises(Malformed):
        WORDING.spoken(value, "en")


def test_a_language_without_a_table_is_refused() -> None:
    with pytest.raises(Malformed, match="ko"):
        WORDING.spoken(3, "ko")


def test_a_reply_is_filled_with_spoken_values() -> None:
    assert WORDING.reply("hot", "en", asset="motor_3", value=quantity(94.2, "degC")) == "motor 3 is at 94 degrees Celsius."
    assert WORDING.reply("hot", "zh", asset="motor_3", value=quantity(94.2, "degC")) == "3号电机94摄氏度。"


def test_braces_in_a_value_are_not_places() -> None:
    assert WORDING.reply("hot", "en", asset="{value}", value=3) == "{value} is at 3."


def test_an_unknown_reply_or_an_empty_place_is_named() -> None:
    with pytest.raises(Malformed, match="plain in zh"):
        WORDING.reply("plain", "zh")
    with pytest.raises(Malformed, match="value"):
        WORDING.reply("hot", "en", asset="motor_3")


@given(
    st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**18), 10**18), st.sampled_from(sorted(TONGUES["en"].units))
)
def test_no_number_is_said_with_a_sign_or_an_exponent(number: float, unit: str) -> None:
    for language in TONGUES:
        for decimals in (None, 0, 2):
            said = WORDING.spoken(quantity(number, unit, decimals), language)
            assert said and not re.search(r"[-+]\d|\de|nan|inf", said)


NEEDED = [
    *("repeat", "effect_unknown", "effect_applied", "effect_not_applied", "effect_still_unknown"),
    *("what_write_tag", "what_write_report", "plc_log_events", "plc_log_empty", "cases_none", "cases_one", "cases_many"),
    *("failed_refused", "failed_unavailable", "failed_timeout", "failed_malformed", "failed_corrupt", "failed_uncertain"),
    *("alarms_none", "alarms_one", "alarms_many", "alarm_unacknowledged", "alarm_acknowledged"),
    *("alarm_returned_unacknowledged", "acknowledged_none", "acknowledged_one", "acknowledged_many"),
]


@pytest.mark.req("V6")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_shipped_phrases_have_every_sentence_execution_and_delivery_say(language: str) -> None:
    given_values = dict.fromkeys(("what", "why", "count", "events", "best", "alarms", "alarm"), "x")
    for name in NEEDED:
        assert phrasing().reply(name, language, **given_values)


@pytest.mark.req("V5")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_question_and_its_answer_spell_a_unit_alike(language: str) -> None:
    """The question is planning's, with the units of the phrases; the answer is delivery's."""
    asked = {unit: words.say.replace("{n}", "2") for unit, words in load_phrase_file(PHRASES / f"{language}.yaml").units.items()}
    assert asked == {unit: WORDING.spoken(quantity(2, unit), language) for unit in asked}
