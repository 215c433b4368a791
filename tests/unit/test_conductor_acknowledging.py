"""Acknowledging by voice and by typing, from the sentence to whose alarm it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.hall import LOW_PRESSURE, Hall, open_hall


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


async def open_alarms(hall: Hall) -> list[str]:
    rows = await hall.bench.rows("SELECT alarm_id FROM alarm WHERE state = 'unacknowledged' ORDER BY seq")
    return [row["alarm_id"] for row in rows]


@pytest.mark.req("F7")
async def test_nobody_acknowledges_aloud_what_has_not_sounded(hall: Hall) -> None:
    await hall.alarm()
    await hall.speak_all()
    await hall.alarm(**LOW_PRESSURE)  # its words wait
    for sentence, told in (
        ("acknowledge the alarm", "Acknowledged: Motor three over temperature."),
        ("acknowledge all alarms", "There is nothing to acknowledge."),
    ):
        assert (await hall.said((await hall.utter(sentence)).turn_id)) == [told]
        assert await open_alarms(hall) == ["pump_3_low_pressure"]
    await hall.speak_all()
    told = (await hall.said((await hall.utter("acknowledge the alarm")).turn_id))[0]
    assert told.startswith("Acknowledged: Pump three low pressure") and await open_alarms(hall) == []


@pytest.mark.req("F7")
async def test_who_types_may_have_read_of_it_and_one_is_one(hall: Hall) -> None:
    await hall.alarm()
    await hall.alarm(**LOW_PRESSURE)
    await hall.say("acknowledge the alarm", by="anna")
    assert await open_alarms(hall) == ["motor_3_over_temperature"]
    await hall.say("acknowledge all alarms", by="anna")
    assert await open_alarms(hall) == []
    assert (await hall.bench.one("SELECT DISTINCT acknowledged_by AS who FROM alarm"))["who"] == "anna"
