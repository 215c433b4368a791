"""Times people name, in English and Chinese."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from appliance.memory.time_window import time_window

NOW = datetime(2026, 3, 4, 14, 30, tzinfo=UTC)  # a Wednesday


def day(month: int, number: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, month, number, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("what happened yesterday", day(3, 3), day(3, 4)),
        ("昨天发生了什么", day(3, 3), day(3, 4)),
        ("the day before yesterday", day(3, 2), day(3, 3)),
        ("前天的报警", day(3, 2), day(3, 3)),
        ("alarms of today", day(3, 4), day(3, 5)),
        ("今天有几次报警", day(3, 4), day(3, 5)),
        ("this morning", day(3, 4), day(3, 4, 12)),
        ("last night", day(3, 3, 18), day(3, 4, 6)),
        ("what happened last week", day(2, 23), day(3, 2)),
        ("上周的事", day(2, 23), day(3, 2)),
        ("this week", day(3, 2), day(3, 9)),
        ("last month", day(2, 1), day(3, 1)),
        ("in the last 2 hours", day(3, 4, 12, 30), NOW + timedelta(seconds=1)),
        ("the last hour", day(3, 4, 13, 30), NOW + timedelta(seconds=1)),
        ("过去两小时", day(3, 4, 12, 30), NOW + timedelta(seconds=1)),
        ("最近3天的报警", day(3, 1, 14, 30), NOW + timedelta(seconds=1)),
        ("three days ago", day(3, 1), day(3, 2)),
        ("两天前", day(3, 2), day(3, 3)),
        ("on monday", day(3, 2), day(3, 3)),
        ("星期一", day(3, 2), day(3, 3)),
        ("since 6:15", day(3, 4, 6, 15), NOW + timedelta(seconds=1)),
        ("since 22", day(3, 3, 22), NOW + timedelta(seconds=1)),
        ("on 2026-02-28", day(2, 28), day(3, 1)),
        ("2月28日", day(2, 28), day(3, 1)),
    ],
)
def test_named_times(question: str, since: datetime, until: datetime) -> None:
    assert time_window(question, NOW) == (since, until)


@pytest.mark.parametrize(
    "question",
    [
        "Motor three over temperature 94 degC, fan speed low",
        "三号电机温度过高94度",
        "how do I reset motor three",
        "the last setpoint I edited",
        "on 2026-02-30",
        "",
    ],
)
def test_no_time_is_no_window(question: str) -> None:
    assert time_window(question, NOW) is None


def test_days_are_those_of_the_asker() -> None:
    local = datetime(2026, 3, 4, 0, 30, tzinfo=timezone(timedelta(hours=8)))
    window = time_window("today", local)
    assert window is not None
    assert window[0] == datetime(2026, 3, 3, 16, 0, tzinfo=UTC)


def test_a_future_day_of_the_year_is_the_last_one() -> None:
    window = time_window("12月24日", NOW)
    assert window is not None and window[0].year == 2025
