"""After a restart every turn that was under way goes on where the ledger says it stopped, and nothing is done or said twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import PRIORITY_RESUME, Admission, Door, Outcome, Request, RequestKind
from appliance.contracts.planning import Asked
from tests.support.hall import Hall, hot, open_hall
from tests.support.waiting import until

ORDER, SET = "Shall I create a work order for motor 3?", "Set the fan speed of motor 3 to 80 percent. Say yes, confirm."
SET_FAN = "set the fan speed of motor three to eighty percent"
ANNOUNCED = "Motor three over temperature. It is at 94 degrees Celsius."


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


async def reopen(hall: Hall) -> list[Admission]:
    """Restart, lead on, and return the successors once they have ended."""
    resumed = (await hall.restart()).resumed
    hall.open()
    return [await hall.ended(admission) for admission in resumed]


@pytest.mark.req("R2", "S1")
async def test_a_turn_without_a_plan_is_planned_again(hall: Hall) -> None:
    await hall.die()
    admission = (await hall.alarm_door.admit(hot(hall.bench))).admission
    turn = await hall.rooms.turns.open(
        admission,
        language="en",
        intent="alarm_raised",
        context={"alarm": dict(admission.payload)},
        offline=False,
        asset="motor_3",
    )
    (successor,) = await reopen(hall)
    assert (successor.kind, successor.outcome, successor.resumes) == (RequestKind.RESUME, Outcome.DONE, admission.id)
    assert (await hall.turn(turn.id))["state"] == "confirming"
    assert (await hall.look(admission)).outcome is Outcome.INTERRUPTED
    assert (await hall.said())[0] == ANNOUNCED and await hall.questions() == [ORDER]


@pytest.mark.req("R2", "R6", "S3")
async def test_a_turn_stopped_while_reading_goes_on_and_says_nothing_twice(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    admission = (await hall.alarm_door.admit(hot(hall.bench))).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    await hall.die()
    hall.bus.open_gate.set()
    (successor,) = await reopen(hall)
    turn = await hall.turn(successor.turn_id)
    assert (turn["state"], turn["admission_id"]) == ("confirming", admission.id)
    said = await hall.said()
    assert said.count(ANNOUNCED) == 1 and said.count(ORDER) == 1
    assert (await hall.say("yes")).turn_id == turn["id"]
    assert len(await hall.bench.rows("SELECT * FROM work_order")) == 1


@pytest.mark.req("R2", "S7")
async def test_a_turn_stopped_between_asking_and_waiting_asks_once(hall: Hall) -> None:
    await hall.die()
    admission = (await hall.console_door.admit(SET_FAN, "en", "console")).admission
    turns, planner = hall.rooms.turns, hall.rooms.planner
    intent = hall.rooms.phrasebook.understand(SET_FAN, "en")
    assert intent is not None
    opened = await turns.open(
        admission, language="en", intent=intent.name, context={"slots": dict(intent.slots), "said": SET_FAN}, offline=False
    )
    plan = await hall.rooms.gate.prepare(planner.plan(intent, {}), Asked(intent))
    assert (await hall.rooms.runner.run(await turns.plan(opened, plan))).kind == "waiting"
    assert (await hall.turn(opened.id))["state"] == "executing"
    resumed = (await hall.restart()).resumed
    answered = (await hall.console_door.admit("yes confirm", "en", "console")).admission  # the answer is there first
    hall.open()
    for each in (*resumed, answered):
        assert (await hall.ended(each)).outcome is Outcome.DONE
    assert await hall.said() == [SET, "The fan speed of motor 3 is now 80 percent."]
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]
    assert (await hall.turn(opened.id))["state"] == "idle"


@pytest.mark.req("R2", "T7", "R6")
async def test_a_write_cut_off_is_unknown_then_checked_and_never_repeated(hall: Hall) -> None:
    await hall.say(SET_FAN)
    hall.bus.write_gate.clear()
    await hall.console_door.admit("yes confirm", "en", "console")
    await until(lambda: hall.bus.writes, "the machine was written to")
    await hall.die()
    hall.bus.write_gate.set()
    (successor,) = await reopen(hall)
    assert successor.outcome is Outcome.DONE and hall.bus.writes == [("motor_3.fan_speed", 80)]
    effect = await hall.bench.one("SELECT * FROM effect")
    assert (effect["status"], effect["was_unknown"], effect["settled_by"]) == ("applied", 1, "verify")
    what = "setting the fan speed of motor 3 to 80 percent"
    assert (await hall.said())[1:] == [
        f"I was interrupted while {what}. I do not know yet whether it happened. I am checking.",
        f"I checked. It was done: {what}.",
        "The fan speed of motor 3 is now 80 percent.",
    ]


@pytest.mark.req("S7", "R2")
async def test_a_question_outlives_the_process_without_being_led(hall: Hall) -> None:
    alarm = await hall.alarm()
    await hall.die()
    assert (await hall.restart()).resumed == []
    hall.open()
    assert (await hall.say("yes")).turn_id == alarm.turn_id
    assert (await hall.said()).count(ORDER) == 1


@pytest.mark.req("R2")
async def test_a_successor_of_a_turn_that_ended_does_nothing(hall: Hall) -> None:
    ended = await hall.say("help")
    said = await hall.said()
    successor = await resume(hall, str(ended.turn_id))
    assert successor.outcome is Outcome.DONE and await hall.said() == said


@pytest.mark.req("R2")
async def test_a_successor_of_no_turn_is_a_failure_that_is_said(hall: Hall) -> None:
    successor = await resume(hall, "tr_none")
    assert successor.outcome is Outcome.FAILED
    assert await hall.said() == ["That did not work. There is no turn tr_none."]


async def resume(hall: Hall, turn_id: str) -> Admission:
    request = Request(
        Door.RECOVERY, RequestKind.RESUME, "console:console", f"resume:{turn_id}", {"turn_id": turn_id}, PRIORITY_RESUME
    )
    return await hall.ended((await hall.gate.admit(request)).admission)


@pytest.mark.req("R1", "R2")
@pytest.mark.field("FC-R13")
async def test_what_had_not_begun_is_led_by_the_next_process(hall: Hall) -> None:
    await hall.die()
    waiting = [(await hall.console_door.admit("help", "en", "console")).admission for _ in range(2)]
    alarm = (await hall.alarm_door.admit(hot(hall.bench))).admission
    assert await reopen(hall) == []
    for admission in (*waiting, alarm):
        assert (await hall.ended(admission)).outcome is Outcome.DONE
    assert len(await hall.bench.rows("SELECT * FROM turn")) == 3


@pytest.mark.req("R2", "S1")
async def test_a_language_that_was_taken_away_meanwhile_is_no_loop(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    admission = (await hall.console_door.admit("3号电机温度是多少", "zh", "console")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    await hall.die()
    await hall.bench.database.transaction(lambda tx: tx.execute("UPDATE turn SET language = 'ko', state = 'planning'"))
    await hall.bench.database.transaction(lambda tx: tx.execute("DELETE FROM action"))
    hall.bus.open_gate.set()
    (successor,) = await reopen(hall)
    assert (successor.outcome, (await hall.turn(successor.turn_id))["state"]) == (Outcome.REFUSED, "failed")
    assert successor.resumes == admission.id
    (row,) = await hall.bench.rows("SELECT language, text FROM delivery")
    assert row["language"] == "en" and row["text"].startswith("I cannot do that. ")


async def test_stopping_lets_running_turns_end_and_takes_nothing_new(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    running = (await hall.console_door.admit("what is the temperature of motor three", "en", "console")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    closing = asyncio.create_task(hall.close())
    await until(hall.closing.is_set, "the core is told to stop")
    late = (await hall.console_door.admit("help", "en", "other")).admission
    assert not closing.done()
    hall.bus.open_gate.set()
    await closing
    assert (await hall.look(running)).outcome is Outcome.DONE
    assert (await hall.look(late)).status == "queued"
    await reopen(hall)
    assert (await hall.ended(late)).outcome is Outcome.DONE


@pytest.mark.req("R4")
async def test_a_restart_in_the_middle_of_work_is_told_and_so_is_work_put_aside(hall: Hall) -> None:
    await hall.die()
    for number in range(3):
        hall.bus.open_gate.clear()
        if number == 0:
            await hall.console_door.admit("what is the temperature of motor three", "en", "console")
        recovered = await hall.restart() if number else None
        if recovered is not None:
            await hall.conductor.tell_recovered(len(recovered.resumed), recovered.suspended)
        hall.open()
        await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
        await hall.die()
    hall.bus.open_gate.set()
    recovered = await hall.restart()
    assert recovered.resumed == [] and len(recovered.suspended) == 1
    await hall.conductor.tell_recovered(0, recovered.suspended)
    restarted = "I was restarted and go on where I stopped."
    what = "what is the temperature of motor three"
    aside = f"I was interrupted too often, or too long ago, so I have put this aside: {what}. Please look at what was done of it."
    assert await hall.said() == [restarted, aside]  # not again while it still waits to be said
    assert (await hall.said(recovered.suspended[0].id)) == [aside]
    hall.open()


async def test_a_start_with_nothing_under_way_says_nothing(hall: Hall) -> None:
    await hall.conductor.tell_recovered(0, [])
    assert await hall.said() == [] and hall.delivered == 0
