"""An alarm's question among other talk: a plain answer is to what was asked just now, any other names the machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.hall import Hall, open_hall

WAITING = "I am not sure which question you mean. I am waiting for an answer to this: "
ORDER = "Shall I create a work order for motor 3?"
SET_FAN = "set the fan speed of motor three to eighty percent"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.mark.req("V4", "S7")
@pytest.mark.field("FC-R11")
@pytest.mark.parametrize("by", ["console", "voice"])
@pytest.mark.parametrize("answer", ["yes", "no", "yes confirm", "yes for pump three"])
async def test_what_an_alarm_asked_earlier_is_answered_by_its_machines_name_only(hall: Hall, answer: str, by: str) -> None:
    alarm = await hall.alarm()
    await hall.speak_all()
    hall.bench.clock.advance(121)
    say = hall.utter if by == "voice" else hall.say
    assert await hall.said((await say(answer)).turn_id) == [
        f"{WAITING}{ORDER} Name the machine with your answer, for example: yes for motor 3."
    ]
    assert await hall.questions() == [ORDER] and await hall.bench.rows("SELECT * FROM work_order") == []
    hall.bench.clock.advance(1379)
    assert (await say("yes for motor three")).turn_id == alarm.turn_id
    assert len(await hall.bench.rows("SELECT * FROM work_order")) == 1


@pytest.mark.req("V4")
@pytest.mark.field("FC-R11")
@pytest.mark.parametrize("by", ["console", "voice"])
@pytest.mark.parametrize("age_s", [0, 121])
@pytest.mark.parametrize(
    "first", [[SET_FAN, "yes confirm"], [SET_FAN, "no"], ["set the fan speed of motor three to 101 percent"]]
)
async def test_a_second_yes_is_to_no_alarm_that_asked_before(hall: Hall, by: str, age_s: float, first: list[str]) -> None:
    alarm = await hall.alarm()
    await hall.speak_all()
    hall.bench.clock.advance(age_s)
    say = hall.utter if by == "voice" else hall.say
    for text in first:
        await say(text)
        await hall.speak_all()
    for answer in ("yes confirm", "yes", "no"):
        assert (await hall.turn((await say(answer)).turn_id))["intent"] == "which_one"
    assert await hall.questions() == [ORDER] and await hall.bench.rows("SELECT * FROM work_order") == []
    assert (await say("yes for motor three")).turn_id == alarm.turn_id


@pytest.mark.req("V4")
@pytest.mark.field("FC-R11")
async def test_a_second_yes_of_who_types_is_not_to_an_alarm_that_asked_in_between(hall: Hall) -> None:
    await hall.say(SET_FAN)
    await hall.alarm()
    await hall.say("yes confirm")
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]
    assert (await hall.turn((await hall.say("yes confirm")).turn_id))["intent"] == "which_one"
    assert await hall.questions() == [ORDER]


@pytest.mark.req("V4")
@pytest.mark.field("FC-R11")
@pytest.mark.parametrize("by", ["console", "voice"])
async def test_what_was_closed_before_an_alarm_asked_takes_no_plain_answer_from_it(hall: Hall, by: str) -> None:
    say = hall.utter if by == "voice" else hall.say
    for text in (SET_FAN, "yes confirm"):
        await say(text)
        await hall.speak_all()
    alarm = await hall.alarm()
    await hall.speak_all()
    assert (await say("no")).turn_id == alarm.turn_id


@pytest.mark.req("V4")
@pytest.mark.parametrize("by", ["console", "voice"])
@pytest.mark.parametrize("acknowledged", ["acknowledge the alarm", "i have seen the alarm", "acknowledge all alarms"])
async def test_who_acknowledges_an_alarm_first_answers_its_question_plainly(hall: Hall, acknowledged: str, by: str) -> None:
    alarm = await hall.alarm()
    await hall.speak_all()
    say = hall.utter if by == "voice" else hall.say
    await say(acknowledged)
    await hall.speak_all()
    assert (await say("yes")).turn_id == alarm.turn_id
    assert len(await hall.bench.rows("SELECT * FROM work_order")) == 1


@pytest.mark.req("V4")
async def test_what_was_not_understood_leaves_an_alarms_question_the_one_just_asked(hall: Hall) -> None:
    alarm = await hall.alarm()
    for text in ("yess yess", "say that again"):
        await hall.say(text)
    assert (await hall.say("yes")).turn_id == alarm.turn_id
