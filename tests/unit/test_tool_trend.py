"""How a value changed: numbers weighed by time, and one sentence that is honest about what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.history import Point, Track
from appliance.contracts.tool import ToolCall
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.trend_of_tag import TrendOfTag
from appliance.execution.trend import Course, trend_of
from tests.support.planning import shipped_phrasebook, shipped_plant
from tests.support.plans import PLANT, phrasing

KEY = "motor_3.temperature"
TAG = PLANT.tag_by_key[KEY]
Known = Sequence[tuple[float, float | None]]


def track(known: Known, minutes: float = 30) -> Track:
    points = tuple(Point(minute * 60, value) for minute, value in known)
    return Track(KEY, "degC", datetime(2026, 3, 2, tzinfo=UTC), minutes * 60, points)


class Kept:
    """A history that knows these points of every tag it keeps."""

    def __init__(self, known: Known, kept: Sequence[str] = (KEY,)) -> None:
        self.known, self.kept = known, kept

    def keeps(self, key: str) -> bool:
        return key in self.kept

    async def track(self, key: str, minutes: float) -> Track:
        return track(self.known, minutes)


async def told(known: Known, language: str = "en", *, key: str = KEY, minutes: float = 30, kept: Sequence[str] = (KEY,)) -> Any:
    tool = TrendOfTag(Kept(known, kept), PLANT, phrasing())
    box = Toolbox([tool])
    arguments: Any = box.check_arguments("trend_of_tag", {"key": key, "minutes": minutes})
    call = ToolCall("trend_of_tag", {}, "tr_1", "se_1", "ac_1", "lane", language, {})
    return box.check_result("trend_of_tag", await tool.run(call, arguments))


RISE = [(minute, 61 + 0.1 * minute if minute <= 20 else 63 + 1.1 * (minute - 20)) for minute in range(31)]


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("known", "en", "zh"),
    [
        (
            RISE,
            "The temperature of motor 3 rose from 61.0 to 72.9 degrees Celsius in the last 30 minutes, "
            "most in the last 10 minutes.",
            "3号电机的温度在最近30分钟内从61.0升到72.9摄氏度，主要是在最近10分钟内。",
        ),
        (
            [(0, 74.0), (10, 70.0), (20, 66.0)],
            "The temperature of motor 3 fell from 74.0 to 66.0 degrees Celsius in the last 30 minutes.",
            "3号电机的温度在最近30分钟内从74.0降到66.0摄氏度。",
        ),
        (
            [(0, 60.0), (10, 80.0), (20, 61.0)],
            "The temperature of motor 3 moved between 60.0 and 80.0 degrees Celsius in the last 30 minutes. "
            "It was 61.0 degrees Celsius at the end.",
            "3号电机的温度在最近30分钟内在60.0和80.0摄氏度之间变化，最后是61.0摄氏度。",
        ),
        (
            [(0, 61.0), (12, 61.2)],
            "The temperature of motor 3 stayed at about 61.2 degrees Celsius in the last 30 minutes.",
            "3号电机的温度在最近30分钟内保持在61.2摄氏度左右。",
        ),
        (
            [(26, 61.0)],
            "I have values of the last 4 minutes only. "
            "The temperature of motor 3 stayed at about 61.0 degrees Celsius in the last 4 minutes.",
            "我只有最近4分钟的数值。 3号电机的温度在最近4分钟内保持在61.0摄氏度左右。",
        ),
        (
            [(0, 61.0), (10, None), (15, 70.0), (28, None)],
            "The temperature of motor 3 rose from 61.0 to 70.0 degrees Celsius in the last 30 minutes. "
            "For the last 2 minutes I have no values. For 5 minutes in between I have no values.",
            "3号电机的温度在最近30分钟内从61.0升到70.0摄氏度。 最近2分钟没有数值。 其间有5分钟没有数值。",
        ),
        (
            [],
            "I have no values of the temperature of motor 3 from the last 30 minutes.",
            "我没有3号电机的温度在最近30分钟的数值。",
        ),
        (
            [(0, None)],
            "I have no values of the temperature of motor 3 from the last 30 minutes.",
            "我没有3号电机的温度在最近30分钟的数值。",
        ),
    ],
    ids=["rose lately", "fell", "moved", "steady", "short", "gaps", "none", "nothing good"],
)
async def test_a_trend_is_said_with_what_is_missing(known: Known, en: str, zh: str) -> None:
    assert (await told(known))["sentence"] == en
    assert (await told(known, "zh"))["sentence"] == zh


async def test_the_numbers_are_of_good_values_and_weighed_by_time() -> None:
    found = await told([(0, 60.0), (20, 90.0), (25, None)])
    assert (found["first"], found["last"], found["lowest"], found["highest"]) == (60.0, 90.0, 60.0, 90.0)
    assert found["mean"] == pytest.approx((20 * 60 + 5 * 90) / 25), "ninety held for a quarter of the time"
    assert found["gaps"] == [{"from_s_ago": 300.0, "until_s_ago": 0.0}]
    assert (found["unit"], found["covers_s"], found["known"], found["course"]) == ("degC", 1800.0, True, "rose")
    straight = trend_of(track([(minute / 10, 50 + minute / 10) for minute in range(300)]), TAG)
    assert straight is not None and straight.slope_per_h == pytest.approx(60, rel=0.01), "a degree a minute"
    assert straight.course is Course.ROSE and straight.lately_s == 0


async def test_the_hiccups_of_a_link_are_no_gaps() -> None:
    found = await told([(0, 61.0), (10, None), (10 + 5 / 60, 61.0)])
    assert found["gaps"] == []


async def test_what_has_no_trend_says_so() -> None:
    unkept = await told([], kept=())
    assert unkept["sentence"] == "I keep no values of the temperature of motor 3, because I read it only when somebody asks."
    assert (unkept["known"], unkept["course"], unkept["first"], unkept["gaps"]) == (False, None, None, [])
    with pytest.raises(Refused, match=r"motor_9.speed is not a tag of this plant"):
        await told([], key="motor_9.speed")


@pytest.mark.req("A1")
@pytest.mark.parametrize(
    ("sentence", "language", "minutes"),
    [
        ("how did the temperature of motor 3 change in the last half an hour", "en", 30),
        ("how has the motor 3 temperature changed in the last hour", "en", 60),
        ("what is the trend of the temperature of motor 3", "en", None),
        ("is the temperature of motor 3 rising", "en", None),
        ("is motor 3 temperature going down now", "en", None),
        ("3号电机的温度怎么变化", "zh", None),
        ("3号电机的温度在过去30分钟里怎么变化", "zh", 30),
        ("3号电机的温度在上升吗", "zh", None),
    ],
)
def test_people_ask_for_it_in_their_words(sentence: str, language: str, minutes: float | None) -> None:
    intent = shipped_phrasebook().understand(sentence, language)
    assert intent is not None and intent.name == "trend_of_tag", intent
    assert (intent.slots["tag"], intent.slots.get("minutes")) == ("motor_3.temperature", minutes)
    assert intent.slots["tag"] in shipped_plant().tag_by_key
