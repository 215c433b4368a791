"""An answer that had to wait is to what had been asked when it came, and to nothing that was asked or closed since."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import Admission, Arrival
from appliance.contracts.speech import Utterance
from appliance.contracts.store import Transaction
from appliance.session.settings import SessionSettings
from appliance.store import deliveries
from tests.support.hall import LOW_PRESSURE, Hall, hot, open_hall
from tests.support.waiting import until

pytestmark = [pytest.mark.req("V4", "R1"), pytest.mark.field("FC-R11")]

MOTOR, PUMP = "Shall I create a work order for motor 3?", "Shall I create a work order for pump 3?"
SET_FAN = "set the fan speed of motor three to eighty percent"
TEMPERATURE = "what is the temperature of motor three"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.open_gate.set()


async def typed(hall: Hall, text: str, by: str = "console", arrival: Arrival = Arrival.QUEUE) -> Admission:
    return (await hall.console_door.admit(text, "en", by, arrival=arrival)).admission


def spoken(hall: Hall, text: str) -> Utterance:
    """A sentence whose last word has just been spoken."""
    hall.heard += 1
    now_ns = hall.bench.clock.monotonic_ns()
    return Utterance(f"ut_{hall.heard}", text, "en", "test", None, now_ns - 10**9, now_ns, now_ns)


async def led_as(hall: Hall, answer: Admission) -> str:
    """What an answer was taken for: the intent of the turn that it belongs to."""
    return str((await hall.turn((await hall.ended(answer)).turn_id))["intent"])


async def restart(hall: Hall) -> None:
    await hall.die()
    hall.bus.open_gate.set()
    await hall.restart()
    hall.open()


@pytest.mark.req("R10")
@pytest.mark.parametrize("text", ["yes", "no", "yes confirm"])
async def test_what_waits_while_it_drains_is_to_no_question_asked_meanwhile(hall: Hall, text: str) -> None:
    hall.conductor.lanes.drain()
    answer = await typed(hall, text)
    alarm = await hall.alarm()
    assert await hall.questions() == [MOTOR]
    hall.conductor.lanes.undrain()
    assert await led_as(hall, answer) == "nothing_pending"
    assert (await hall.turn(alarm.turn_id))["state"] == "confirming" and await hall.questions() == [MOTOR]
    assert await hall.bench.rows("SELECT * FROM work_order") == []


@pytest.mark.req("R10")
async def test_what_waits_while_it_drains_is_to_the_question_before_and_not_to_the_newer_one(hall: Hall) -> None:
    meant = await hall.alarm()
    hall.conductor.lanes.drain()
    answer = await typed(hall, "yes")
    await hall.alarm(**LOW_PRESSURE)
    hall.bench.clock.advance(600)  # it was given at once, however long it waits
    hall.conductor.lanes.undrain()
    assert (await hall.ended(answer)).turn_id == meant.turn_id
    assert await hall.questions() == [PUMP]


@pytest.mark.req("R10")
@pytest.mark.parametrize("text", ["yes", "no"])
async def test_a_second_answer_to_one_question_goes_to_no_other(hall: Hall, text: str) -> None:
    await hall.alarm()
    await hall.alarm(**LOW_PRESSURE)
    hall.conductor.lanes.drain()
    first, second = await typed(hall, "yes", "ann"), await typed(hall, text, "bob")
    hall.conductor.lanes.undrain()
    taken = {await led_as(hall, first), await led_as(hall, second)}
    assert taken == {"alarm_raised", "nothing_pending"} and await hall.questions() == [MOTOR]
    assert len(await hall.bench.rows("SELECT * FROM work_order")) <= 1
    third = await typed(hall, "yes")  # it comes when only one is open, and may be to the one that was asked later
    assert await led_as(hall, third) == "which_one" and await hall.questions() == [MOTOR]
    assert await led_as(hall, await typed(hall, "yes for motor three")) == "alarm_raised" and await hall.questions() == []


@pytest.mark.req("R7")
@pytest.mark.parametrize("arrival", list(Arrival))
@pytest.mark.parametrize("text", ["yes confirm", "no"])
async def test_an_answer_behind_the_turn_that_asks_is_not_to_its_question(hall: Hall, arrival: Arrival, text: str) -> None:
    hall.bus.open_gate.clear()
    running = await typed(hall, TEMPERATURE)
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    wish, answer = await typed(hall, SET_FAN), await typed(hall, text, arrival=arrival)
    hall.bus.open_gate.set()
    assert await led_as(hall, answer) == "nothing_pending"
    assert hall.bus.writes == [] and len(await hall.questions()) == 1
    assert (await hall.ended(running)).turn_id != (await hall.ended(wish)).turn_id
    again = await typed(hall, "yes confirm")
    assert (await hall.ended(again)).turn_id == (await hall.look(wish)).turn_id
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]


async def test_an_answer_that_waits_for_a_free_slot_is_to_no_question_asked_meanwhile(tmp_path: Path) -> None:
    async with open_hall(tmp_path, sessions=1) as hall:
        hall.bus.open_gate.clear()
        alarm = await hall.alarm_door.admit(hot(hall.bench))
        await until(lambda: hall.bus.reading == 1, "the alarm's turn has the only slot")
        answer = await typed(hall, "yes")
        hall.bus.open_gate.set()
        assert await led_as(hall, answer) == "nothing_pending"
        assert alarm.admission is not None and (await hall.ended(alarm.admission)).outcome == "done"
        assert await hall.questions() == [MOTOR]


@pytest.mark.req("R2")
@pytest.mark.parametrize("by", ["console", "voice"])
async def test_over_a_restart_an_answer_is_still_to_its_question_and_to_no_newer_one(hall: Hall, by: str) -> None:
    meant = await hall.alarm()
    await hall.speak_all()
    hall.conductor.lanes.drain()
    if by == "voice":
        hall.bench.clock.advance(1)
        answer = (await hall.voice_door.admit(spoken(hall, "yes"))).admission
    else:
        answer = await typed(hall, "yes")
    await hall.alarm(**LOW_PRESSURE)
    await hall.speak_all()
    await restart(hall)
    assert (await hall.ended(answer)).turn_id == meant.turn_id
    assert await hall.questions() == [PUMP]


@pytest.mark.req("R2", "X5")
async def test_a_write_is_not_carried_out_on_a_yes_of_before_a_power_cut(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)
    hall.conductor.lanes.drain()
    answer = await typed(hall, "yes confirm")
    await hall.die()
    hall.bench.clock.boot_id, hall.bench.clock.mono_ns = "boot-2", 500_000_000
    await hall.restart()
    hall.open()
    assert await led_as(hall, answer) == "asked_too_long_ago"
    assert hall.bus.writes == [] and (await hall.turn(asked.turn_id))["state"] == "abandoned"


@pytest.mark.req("R2")
async def test_a_voice_of_before_a_power_cut_does_not_answer_what_sounded_after_it(hall: Hall) -> None:
    await hall.alarm()
    hall.conductor.lanes.drain()
    hall.bench.clock.advance(100)  # later than anything of the next boot
    answer = (await hall.voice_door.admit(spoken(hall, "yes"))).admission  # nothing has sounded yet
    await hall.die()
    hall.bench.clock.boot_id, hall.bench.clock.mono_ns = "boot-2", 500_000_000
    await hall.restart()
    await hall.speak_all()
    hall.open()
    assert await led_as(hall, answer) == "nothing_pending" and await hall.questions() == [MOTOR]


@pytest.mark.req("R5")
async def test_a_voice_does_not_answer_what_was_only_begun_after_it(hall: Hall) -> None:
    """Cut short by a restart, nobody knows how much of it was heard; but none of it was before it was begun."""
    await hall.alarm()
    hall.conductor.lanes.drain()
    answer = (await hall.voice_door.admit(spoken(hall, "yes"))).admission

    def cut_short(tx: Transaction) -> None:
        while (delivery := deliveries.begin_next(tx, hall.bench.clock)) is not None and "work order" not in delivery.text:
            deliveries.finish(tx, hall.bench.clock, delivery.id, first_audio_mono_ns=hall.bench.clock.monotonic_ns())
        deliveries.recover(tx, hall.bench.clock)

    await hall.bench.database.transaction(cut_short)
    hall.conductor.lanes.undrain()
    assert await led_as(hall, answer) == "nothing_pending" and await hall.questions() == [MOTOR]
    assert await led_as(hall, (await hall.voice_door.admit(spoken(hall, "yes"))).admission) == "alarm_raised"


@pytest.mark.req("S7")
async def test_a_question_abandoned_while_its_answer_waits_leaves_it_to_no_other(tmp_path: Path) -> None:
    async with open_hall(tmp_path, session=SessionSettings()) as hall:
        await hall.alarm(**LOW_PRESSURE)
        hall.bench.clock.advance(10)
        await hall.alarm()
        await hall.speak_all()
        hall.conductor.lanes.drain()
        answer = await typed(hall, "yes")
        newest = await hall.bench.one("SELECT turn_id FROM confirmation ORDER BY asked_seq DESC LIMIT 1")
        await hall.conductor.stop_turn(newest["turn_id"], "ann", "not needed")
        assert await hall.questions() == [PUMP]
        hall.conductor.lanes.undrain()
        assert await led_as(hall, answer) == "nothing_pending" and await hall.questions() == [PUMP]
