"""Who may stop whose work: people their own, and nothing of who may do more; whoever speaks at the machine all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.principal import AccessLevel, Identification, Principal
from tests.support.gate import SET_FAN, rules
from tests.support.hall import Hall, open_hall

pytestmark = [pytest.mark.req("T3"), pytest.mark.req("R7")]

MACHINE = "I cannot stop a machine. Use the stop button at the machine."
GOES_ON = "You may not stop that. Who asked for it may, and whoever speaks at the machine."
CRITICAL = rules(writes=[{"tags": ["motor_3.fan_speed"], "access": "critical"}])


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path, rules=CRITICAL) as hall:
        yield hall
        hall.bus.open_gate.set()


def holder(level: AccessLevel, by: str) -> Principal:
    return Principal(by, Identification.TOKEN, level.word, level, f"tok_{by}_{level.word}")


ENGINEER = holder(AccessLevel.CRITICAL, "ana")
OPERATOR = holder(AccessLevel.OPERATOR, "olga")
VISITOR = holder(AccessLevel.PUBLIC, "vic")
ANA_AS_VISITOR = holder(AccessLevel.PUBLIC, "ana")  # with a token that may do less, in the same lane


async def told(hall: Hall, text: str, who: Principal) -> str:
    admitted = await hall.console_door.admit(text, "en", who.by, holder=who)
    ended = await hall.ended(admitted.admission)
    return " ".join(await hall.said(ended.turn_id))


@pytest.mark.parametrize("who", [VISITOR, OPERATOR, ANA_AS_VISITOR], ids=["visitor", "operator", "same name"])
@pytest.mark.parametrize("said", ["stop everything", "stop that", "cancel the first step", "no"])
async def test_an_engineers_question_stays_open_whatever_others_type(hall: Hall, who: Principal, said: str) -> None:
    await told(hall, SET_FAN, ENGINEER)
    (question,) = await hall.questions()
    answered = await told(hall, said, who)
    assert await hall.questions() == [question], answered
    if who is ANA_AS_VISITOR or said == "stop everything":
        assert GOES_ON in answered or answered == "You may not answer that. My question stays open for somebody who may."
    assert "I am stopping" not in answered and "say stop everything" not in answered
    await told(hall, "stop everything", ENGINEER)
    assert await hall.questions() == []


@pytest.mark.req("X5")
async def test_who_speaks_at_the_machine_stops_everything(hall: Hall) -> None:
    await told(hall, SET_FAN, ENGINEER)
    ended = await hall.utter("stop everything")
    assert await hall.said(ended.turn_id) == [f"{MACHINE} I am stopping: {SET_FAN}."]
    assert await hall.questions() == []


async def test_what_may_be_stopped_is_and_what_goes_on_is_named(hall: Hall) -> None:
    await told(hall, SET_FAN, ENGINEER)
    await told(hall, "create a work order for motor three", OPERATOR)
    answered = await told(hall, "stop everything", holder(AccessLevel.OPERATOR, "otto"))
    assert answered == (f"{MACHINE} I am stopping: create a work order for motor three. I go on with: {SET_FAN}. {GOES_ON}")
    assert len(await hall.questions()) == 1
    await told(hall, "stop everything", ENGINEER)


async def test_a_visitor_stops_no_alarm_and_does_not_say_no_to_it_and_an_operator_does(hall: Hall) -> None:
    await hall.alarm()
    await hall.speak_all()
    (question,) = await hall.questions()
    assert GOES_ON in await told(hall, "stop everything", VISITOR)
    assert await told(hall, "no", VISITOR) == "You may not answer that. My question stays open for somebody who may."
    assert await hall.questions() == [question]
    assert "I am stopping" in await told(hall, "stop everything", OPERATOR)
    assert await hall.questions() == []


async def test_a_visitor_stops_what_a_visitor_asked_for(hall: Hall) -> None:
    asked = "what is the temperature of motor three"
    hall.bus.open_gate.clear()
    admission = (await hall.console_door.admit(asked, "en", "vic", holder=VISITOR)).admission
    assert GOES_ON in await told(hall, "stop everything", holder(AccessLevel.PUBLIC, "eve"))
    assert await told(hall, "stop that", VISITOR) == f"I am stopping: {asked}."
    assert (await hall.ended(admission)).outcome == "interrupted"
