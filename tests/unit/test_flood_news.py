"""What is told of floods is so when it is said: their end, and that they were there before anybody looked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.store import floods
from tests.support.flood_hall import at_rest, burst, flooded, serving, summaries, take, until_told
from tests.support.floods import cleared, raised
from tests.support.hall import Hall


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with flooded(tmp_path) as hall:
        yield hall


@pytest.mark.req("F6")
async def test_the_end_of_an_older_flood_is_not_told_while_its_alarms_are_there_again(hall: Hall) -> None:
    await burst(hall, 8)
    await hall.speak_all()
    hall.bench.clock.advance(30)
    async with serving(hall.floods):
        await until_told(hall, 2)
    told = await summaries(hall)
    await take(hall, [raised(hall.bench, number, activation="2") for number in range(20, 30)])  # a second one
    await take(hall, [cleared(hall.bench, number) for number in range(8)])
    async with serving(hall.floods):
        await until_told(hall, 3)
        await at_rest(hall)
    assert not [text for text in (await summaries(hall))[len(told) :] if "normal" in text]


@pytest.mark.req("F6")
async def test_the_end_of_a_flood_that_waited_to_be_said_is_not_told_once_there_is_another(hall: Hall) -> None:
    await burst(hall, 8)
    await hall.speak_all()
    hall.bench.clock.advance(30)
    async with serving(hall.floods):
        await until_told(hall, 2)
        await take(hall, [cleared(hall.bench, number) for number in range(8)])
        hall.floods.notify()
        await until_told(hall, 3)
        hall.bench.clock.advance(30)
        await take(hall, [raised(hall.bench, number, activation="2") for number in range(20, 30)])
    assert (await summaries(hall))[2] == "All 8 alarms of the flood are back to normal."
    await hall.speak_all()
    told = await summaries(hall)  # without what was abandoned
    assert not [text for text in told if "normal" in text or text.startswith("No more")] and told[-1].startswith("10 alarms")


@pytest.mark.req("F6")
@pytest.mark.parametrize("comes_back", ["before anybody looks", "before it is said"])
async def test_the_end_of_a_flood_is_not_told_when_one_of_its_alarms_has_come_back(hall: Hall, comes_back: str) -> None:
    await burst(hall, 8)
    await hall.speak_all()
    hall.bench.clock.advance(30)
    async with serving(hall.floods):
        await until_told(hall, 2)
    await take(hall, [cleared(hall.bench, number) for number in range(8)])
    if comes_back == "before it is said":
        async with serving(hall.floods):
            await until_told(hall, 3)
    await take(hall, [raised(hall.bench, 5, activation="2")])
    if comes_back == "before anybody looks":
        assert await hall.bench.database.transaction(floods.calm_down) == []
    await hall.speak_all()
    assert not [text for text in await summaries(hall) if "normal" in text]


@pytest.mark.req("F6")
async def test_of_two_floods_of_the_same_machines_one_end_is_told_once_nothing_is_left(hall: Hall) -> None:
    await burst(hall, 8)
    await hall.speak_all()
    hall.bench.clock.advance(30)
    async with serving(hall.floods):
        await until_told(hall, 2)
    # They go and come back before anybody looks, and the newer flood is over as well.
    await take(hall, [cleared(hall.bench, number) for number in range(8)])
    await take(hall, [raised(hall.bench, number, activation="2") for number in range(8)])
    hall.bench.clock.advance(30)
    async with serving(hall.floods):
        await until_told(hall, 4)
        assert not [text for text in await summaries(hall) if "normal" in text]
        await take(hall, [cleared(hall.bench, number, activation="2") for number in range(8)])
        hall.floods.notify()
        await until_told(hall, 5)
    assert [text for text in await summaries(hall) if "normal" in text] == ["All 8 alarms of the flood are back to normal."]


@pytest.mark.req("F6", "F7")
async def test_alarms_found_at_the_start_are_told_as_still_active_unless_one_is_new(hall: Hall) -> None:
    await take(hall, [raised(hall.bench, number, is_state=True) for number in range(20)])
    (told,) = await summaries(hall)
    assert told.startswith("20 alarms are still active. 5 critical, 5 high, 10 lower. In hall 0, ")


@pytest.mark.req("F6", "F7")
async def test_one_new_alarm_among_those_found_is_news(hall: Hall) -> None:
    await take(hall, [raised(hall.bench, number, is_state=number != 19) for number in range(20)])
    (told,) = await summaries(hall)
    assert told.startswith("20 alarms at once.")
