"""A question put to one person is answered by nobody else; what an alarm asks, anybody answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.conductor import Rooms
from appliance.contracts.admission import Outcome
from appliance.contracts.effect import Confirmation
from appliance.contracts.interrupt import Cause
from appliance.contracts.store import Transaction
from appliance.session.questions import Questions
from appliance.store import stopping
from tests.support.hall import Hall, open_hall

pytestmark = [pytest.mark.req("V4"), pytest.mark.field("FC-R11")]

ORDER, SET = "Shall I create a work order for motor 3?", "Set the fan speed of motor 3 to 80 percent. Say yes, confirm."
SET_FAN = "set the fan speed of motor three to eighty percent"
NOT_YOURS = "I have not asked you anything. I am waiting for {} to answer: " + SET


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.mark.parametrize("answer", ["yes confirm", "yes", "no"])
@pytest.mark.parametrize("by", ["bob", "voice"])
async def test_nobody_answers_what_another_person_was_asked(hall: Hall, answer: str, by: str) -> None:
    asked = await hall.say(SET_FAN, by="alice")
    await hall.speak_all()
    other = await (hall.utter(answer) if by == "voice" else hall.say(answer, by=by))
    assert other.turn_id != asked.turn_id and await hall.said(other.turn_id) == [NOT_YOURS.format("alice")]
    assert hall.bus.writes == [] and await hall.questions() == [SET]
    assert (await hall.say("yes confirm", by="alice")).turn_id == asked.turn_id
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]


async def test_what_was_asked_at_the_machine_is_answered_there(hall: Hall) -> None:
    asked = await hall.utter(SET_FAN)
    await hall.speak_all()
    other = await hall.say("yes confirm", by="bob")
    assert await hall.said(other.turn_id) == [NOT_YOURS.format("somebody at the machine")]
    assert hall.bus.writes == []
    assert (await hall.utter("yes confirm")).turn_id == asked.turn_id


async def test_of_many_who_confirm_at_once_only_the_one_asked_is_obeyed(hall: Hall) -> None:
    asked = await hall.say(SET_FAN, by="alice")
    hall.bench.clock.advance(119)
    people = ["alice", *(f"person {number}" for number in range(23))]
    answers = await asyncio.gather(*(hall.say("yes confirm", by=by) for by in people))
    assert [answer.turn_id == asked.turn_id for answer in answers] == [True] + [False] * 23
    told = {sentence for answer in answers[1:] for sentence in await hall.said(answer.turn_id)}
    assert told <= {NOT_YOURS.format("alice"), "I have not asked anything."}
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]


async def test_ones_own_question_goes_first_and_an_alarms_is_anybodys(hall: Hall) -> None:
    wish = await hall.say(SET_FAN, by="alice")
    alarm = await hall.alarm()
    assert (await hall.say("no", by="alice")).turn_id == wish.turn_id
    assert await hall.questions() == [ORDER]
    assert (await hall.say("yes", by="bob")).turn_id == alarm.turn_id
    assert hall.bus.writes == []


class StoppedInBetween(Questions):
    """Whose question is closed by a stop right after it was found open."""

    hall: Hall

    async def is_open(self, question: Confirmation) -> bool:
        was_open = await super().is_open(question)
        bench = self.hall.bench

        def stop(tx: Transaction) -> None:
            stopping.stop(tx, bench.clock, bench.ids, question.turn_id, cause=Cause.USER, by="bob", reason="no")

        await bench.database.transaction(stop)
        return was_open


@pytest.mark.req("R7")
async def test_a_confirm_that_loses_against_a_stop_is_no_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def racing(rooms: Rooms) -> Rooms:
        return replace(rooms, questions=StoppedInBetween(rooms.ledger, rooms.clock))

    async with open_hall(tmp_path, change=racing) as hall:
        questions = hall.rooms.questions
        assert isinstance(questions, StoppedInBetween)
        questions.hall = hall
        await hall.say(SET_FAN)
        answer = await hall.say("yes confirm")
        assert answer.outcome is Outcome.DONE and await hall.said(answer.turn_id) == ["I have not asked anything."]
        assert hall.bus.writes == [] and "turn.failed" not in caplog.text
