"""What people say about the work itself: it is heard past the work, stops it at once, and never stops what was not meant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Admission, Outcome
from appliance.contracts.interrupt import Cause
from appliance.contracts.store import Transaction
from appliance.store import interrupts, stopping
from tests.support.hall import LOW_PRESSURE, Hall, hot, open_hall
from tests.support.waiting import until, within

ASK_TEMPERATURE = "what is the temperature of motor three"
SET_FAN = "set the fan speed of motor three to eighty percent"
MACHINE = "I cannot stop a machine. Use the stop button at the machine."


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.open_gate.set()
        hall.bus.write_gate.set()


async def reading(hall: Hall, *, by: str = "console", text: str = ASK_TEMPERATURE) -> Admission:
    """A turn that stands in the middle of reading the machine."""
    hall.bus.open_gate.clear()
    before = hall.bus.reading
    admission = (await hall.console_door.admit(text, "en", by)).admission
    await until(lambda: hall.bus.reading == before + 1, "the turn reads the machine")
    return admission


async def told(hall: Hall, admission: Admission) -> str:
    (sentence,) = await hall.said(str(admission.turn_id))
    return sentence


async def steps_of(hall: Hall, turn_id: str | None) -> list[tuple[str, str]]:
    rows = await hall.bench.rows("SELECT step_id, state FROM action WHERE turn_id = ? ORDER BY position", turn_id)
    return [(row["step_id"], row["state"]) for row in rows]


@pytest.mark.req("R7", "R1")
async def test_a_stop_is_heard_past_the_busy_lane_and_ends_the_turn_within_a_second(hall: Hall) -> None:
    asked = await reading(hall)
    behind = (await hall.console_door.admit("help", "en", "console")).admission
    with within(1.0):
        stop = await hall.say("stop that")
        stopped = await hall.ended(asked)
    assert await told(hall, stop) == f"I am stopping: {ASK_TEMPERATURE}."
    turn = await hall.turn(stopped.turn_id)
    assert (stopped.outcome, turn["state"], turn["failure"]) == (Outcome.INTERRUPTED, "abandoned", "stop that")
    assert await steps_of(hall, stopped.turn_id) == [("read", "skipped"), ("answer", "skipped")]
    wish = await hall.bench.one("SELECT cause, by, reason, handled_utc FROM interrupt")
    assert (wish["cause"], wish["by"], wish["reason"]) == ("user", "console", "stop that") and wish["handled_utc"]
    assert (await hall.ended(behind)).outcome is Outcome.DONE  # the lane goes on
    assert await hall.said(stopped.turn_id) == []


@pytest.mark.req("R7")
async def test_a_tool_that_ignores_the_stop_does_not_hold_the_turn(hall: Hall) -> None:
    released = asyncio.Event()

    async def deaf(keys: Any) -> dict[str, Any]:
        hall.bus.reading += 1
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        hall.bus.reading -= 1
        return {}

    hall.bus.read = deaf  # type: ignore[method-assign]
    asked = await reading(hall)
    with within(1.5):  # a second, and what this machine needs for the rest
        await hall.say("stop that")
        assert (await hall.ended(asked)).outcome is Outcome.INTERRUPTED
    assert (await hall.say("help")).outcome is Outcome.DONE
    released.set()
    await until(lambda: hall.bus.reading == 0, "the tool has ended")


@pytest.mark.req("R7", "T7")
async def test_a_write_that_was_under_way_is_called_unknown_and_nothing_after_it_is_done(hall: Hall) -> None:
    await hall.say(SET_FAN)
    hall.bus.write_gate.clear()
    answer = (await hall.console_door.admit("yes confirm", "en", "console")).admission
    await until(lambda: hall.bus.writes, "the machine was written to")
    await hall.say("stop that")
    ended = await hall.ended(answer)
    assert ended.outcome is Outcome.INTERRUPTED
    assert (await hall.bench.one("SELECT status FROM effect"))["status"] == "unknown"
    await hall.speak_all()
    unknown = "I stopped while setting the fan speed of motor 3 to 80 percent. I do not know whether it happened."
    assert [text for text in await delivered(hall, ended.turn_id) if text.startswith(unknown)]
    assert (await steps_of(hall, ended.turn_id))[2:] == [("done", "skipped"), ("cancelled", "skipped")]
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]


async def delivered(hall: Hall, turn_id: str | None) -> list[str]:
    rows = await hall.bench.rows("SELECT text FROM delivery WHERE turn_id = ? AND status = 'delivered' ORDER BY seq", turn_id)
    return [row["text"] for row in rows]


@pytest.mark.req("R7", "T7")
async def test_who_wants_to_hear_nothing_more_is_still_told_what_was_done(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)
    await hall.say("yes confirm")
    await hall.say("stop talking")
    await hall.speak_all()
    assert await delivered(hall, asked.turn_id) == ["The fan speed of motor 3 is now 80 percent."]


@pytest.mark.req("R7")
async def test_a_stop_on_disk_before_the_plan_stops_the_turn_before_its_first_step(hall: Hall) -> None:
    """It lands before anything of the turn has started; no bell is needed for it."""
    await hall.die()
    admission = (await hall.console_door.admit(ASK_TEMPERATURE, "en", "console")).admission
    turn = await hall.rooms.turns.open(
        admission,
        language="en",
        intent="read_tag",
        context={"slots": {"tag": "motor_3.temperature"}, "by": "console"},
        offline=False,
    )
    await wish_to_stop(hall, turn.id)
    hall.open()
    lead = asyncio.create_task(hall.conductor._go_on_with(turn, admission))
    await lead
    assert (await hall.turn(turn.id))["state"] == "abandoned"
    assert hall.bus.most_reading == 0 and (await hall.look(admission)).outcome is Outcome.INTERRUPTED


async def wish_to_stop(hall: Hall, turn_id: str, cause: Cause = Cause.USER) -> None:
    bench = hall.bench

    def work(tx: Transaction) -> None:
        stopping.stop(tx, bench.clock, bench.ids, turn_id, cause=cause, by="technician", reason="not now")

    await bench.database.transaction(work)


@pytest.mark.req("R7", "S7")
async def test_a_turn_that_waits_for_an_answer_is_ended_with_its_question(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)
    stop = await hall.say("stop that")
    assert await told(hall, stop) == f"I am stopping: {SET_FAN}."
    turn = await hall.turn(asked.turn_id)
    assert (turn["state"], turn["failure"]) == ("abandoned", "stop that")
    assert await hall.questions() == []
    assert {state for _, state in await steps_of(hall, asked.turn_id)} == {"skipped"}
    (row,) = await hall.bench.rows("SELECT status FROM delivery WHERE turn_id = ?", asked.turn_id)
    assert row["status"] == "abandoned"  # nobody had begun to say it
    late = await hall.say("yes confirm")
    assert await told(hall, late) == "I have not asked anything." and hall.bus.writes == []


@pytest.mark.req("R7")
async def test_a_stop_of_what_has_ended_is_handled_at_once(hall: Hall) -> None:
    ended = await hall.say("help")
    await wish_to_stop(hall, str(ended.turn_id))
    assert (await hall.bench.one("SELECT handled_utc FROM interrupt"))["handled_utc"] is not None
    assert (await hall.turn(ended.turn_id))["state"] == "idle"
    assert await told(hall, await hall.say("stop that")) == f"{MACHINE} I am not doing anything that I could stop."


@pytest.mark.req("R7")
async def test_a_person_at_the_machine_may_mean_what_runs_but_nobody_guesses_among_several(hall: Hall) -> None:
    first = await reading(hall, by="ann")
    nothing = f"{MACHINE} I am doing nothing of yours. I am doing: {ASK_TEMPERATURE}. To stop that too, say stop everything."
    assert await told(hall, await hall.say("stop that", by="bob")) == nothing
    elsewhere = await told(hall, await hall.say("stop the work on pump three", by="bob"))
    assert elsewhere == nothing.replace("nothing of yours", "nothing there")
    second = await reading(hall, by="bob", text="what is the load of motor three")
    doubt = await told(hall, await hall.utter("stop that"))
    assert doubt.startswith(f"{MACHINE} I am doing more than one thing: what is the load of motor three; {ASK_TEMPERATURE}.")
    assert (await hall.look(first)).outcome is (await hall.look(second)).outcome is None
    assert await told(hall, await hall.say("stop that", by="bob")) == "I am stopping: what is the load of motor three."
    assert (await hall.ended(second)).outcome is Outcome.INTERRUPTED
    assert await told(hall, await hall.utter("stop that")) == f"I am stopping: {ASK_TEMPERATURE}."
    assert (await hall.ended(first)).outcome is Outcome.INTERRUPTED


@pytest.mark.req("R7", "R1")
async def test_everything_means_what_was_asked_for_and_not_begun_as_well(hall: Hall) -> None:
    running = [await reading(hall, by=by) for by in ("ann", "bob")]
    queued = (await hall.console_door.admit("help", "en", "ann")).admission
    others = (await hall.console_door.admit("help", "en", "bob")).admission
    waiting = await hall.say(SET_FAN, by="cy")
    sentence = await told(hall, await hall.say("stop everything", by="ann"))
    assert sentence == f"{MACHINE} I am stopping 3 jobs."
    for admission in running:
        assert (await hall.ended(admission)).outcome is Outcome.INTERRUPTED
    assert (await hall.turn(waiting.turn_id))["state"] == "abandoned"
    assert (await hall.ended(queued)).outcome is Outcome.INTERRUPTED
    assert (await hall.ended(others)).outcome is Outcome.DONE  # somebody else's wish is not ann's to take back


@pytest.mark.req("R7")
async def test_one_asset_can_be_named(hall: Hall) -> None:
    motor = await reading(hall, by="ann")
    pump = await reading(hall, by="bob", text="what is the pressure of pump three")
    stop = await hall.utter("stop the work on pump three")
    assert await told(hall, stop) == f"{MACHINE} I am stopping: what is the pressure of pump three."
    assert (await hall.ended(pump)).outcome is Outcome.INTERRUPTED
    assert (await hall.look(motor)).outcome is None


@pytest.mark.req("R7", "V4")
@pytest.mark.parametrize(
    ("language", "word", "first"), [("en", "stop", MACHINE), ("zh", "停", "我不能停机，请使用机器上的停止按钮。")]
)
async def test_the_word_alone_says_that_a_machine_stops_at_its_button_and_stops_our_own_work(
    hall: Hall, language: str, word: str, first: str
) -> None:
    asked = await reading(hall)
    stop = await hall.say(word, language=language)
    sentence = await told(hall, stop)
    assert sentence.startswith(first) and ASK_TEMPERATURE in sentence
    assert (await hall.ended(asked)).outcome is Outcome.INTERRUPTED
    assert (await told(hall, await hall.say(word, language=language))).startswith(first)  # also with nothing to stop


@pytest.mark.req("R7", "R5")
async def test_the_word_alone_silences_what_was_going_to_be_said_to_the_speaker(hall: Hall) -> None:
    answer, other = await hall.say(ASK_TEMPERATURE), await hall.say(ASK_TEMPERATURE, by="bob")
    await hall.say("be quiet")
    rows = await hall.bench.rows("SELECT turn_id, status FROM delivery ORDER BY seq")
    status = {row["turn_id"]: row["status"] for row in rows}
    assert (status[answer.turn_id], status[other.turn_id]) == ("abandoned", "pending")


@pytest.mark.req("R7", "V4")
async def test_cancel_that_is_about_the_work_while_there_is_some_and_about_the_question_otherwise(hall: Hall) -> None:
    alarm = await hall.alarm()
    asked = await reading(hall)
    await hall.say("cancel that")
    assert (await hall.ended(asked)).outcome is Outcome.INTERRUPTED
    assert await hall.questions() == ["Shall I create a work order for motor 3?"]
    hall.bus.open_gate.set()
    answer = await hall.say("cancel that")
    assert answer.turn_id == alarm.turn_id and (await hall.said(alarm.turn_id))[-1] == "No work order."
    assert await told(hall, await hall.say("cancel that")) == "I have not asked anything."


@pytest.mark.req("R7", "F7")
async def test_an_alarm_is_announced_whoever_wants_everything_stopped(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    alarm = (await hall.alarm_door.admit(hot(hall.bench, **LOW_PRESSURE))).admission
    assert alarm is not None
    await until(lambda: hall.bus.reading == 1, "the alarm's turn reads the machine")
    await hall.say("stop everything")
    ended = await hall.ended(alarm)
    assert ended.outcome is Outcome.INTERRUPTED
    rows = await hall.bench.rows("SELECT status, lead FROM delivery WHERE turn_id = ?", ended.turn_id)
    assert [row["status"] for row in rows] == ["pending"] and "low pressure" in rows[0]["lead"]


@pytest.mark.req("R7")
async def test_a_watchdogs_stop_is_a_failure_that_is_said(hall: Hall) -> None:
    asked = await reading(hall)
    turn_id = str((await hall.look(asked)).turn_id)
    await wish_to_stop(hall, turn_id, Cause.SYSTEM)
    ended = await hall.ended(asked)
    turn = await hall.turn(turn_id)
    assert (ended.outcome, turn["state"], turn["failure"]) == (Outcome.INTERRUPTED, "failed", "not now")
    assert await hall.said(turn_id) == ["That took too long, so I have stopped it. Please look at what it did."]
    assert (await hall.bench.one("SELECT cause FROM interrupt"))["cause"] == "system"


@pytest.mark.req("R7")
async def test_a_stop_from_elsewhere_rings_the_turn(hall: Hall) -> None:
    asked = await reading(hall)
    turn = await hall.conductor.stop_turn(str((await hall.look(asked)).turn_id), "technician", "maintenance")
    assert turn.state == "executing"
    assert (await hall.ended(asked)).outcome is Outcome.INTERRUPTED


# one step ----------------------------------------------------------------------------------------------------------
@pytest.mark.req("S1", "R7")
async def test_the_third_step_of_what_was_just_asked_is_found_and_not_done(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)  # confirm, write, done, cancelled
    cancel = await hall.say("Cancel the third step of what I just asked.")
    assert await told(hall, cancel) == "Step 3 is cancelled: telling what I know."
    assert (await steps_of(hall, asked.turn_id))[2] == ("done", "skipped")
    kept = await hall.bench.one("SELECT result FROM action WHERE turn_id = ? AND position = 2", asked.turn_id)
    assert json.loads(kept["result"])["error_code"] == "cancelled"
    await hall.say("yes confirm")
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]
    assert "The fan speed of motor 3 is now 80 percent." not in await hall.said()


@pytest.mark.req("S1", "R7")
async def test_a_step_under_way_is_cancelled_and_the_turn_goes_on_without_what_needs_it(hall: Hall) -> None:
    asked = await reading(hall)
    cancel = await hall.say("cancel step one")
    assert await told(hall, cancel) == "I am cancelling step 1: reading from the machine."
    ended = await hall.ended(asked)
    assert await steps_of(hall, ended.turn_id) == [("read", "skipped"), ("answer", "skipped")]
    assert ended.outcome is Outcome.DONE
    assert (await hall.bench.one("SELECT handled_utc FROM interrupt"))["handled_utc"] is not None


@pytest.mark.req("S1", "R7")
async def test_a_later_step_of_a_running_turn_is_cancelled(hall: Hall) -> None:
    asked = await reading(hall)
    assert await told(hall, await hall.say("cancel the second step")) == "Step 2 is cancelled: telling what I know."
    hall.bus.open_gate.set()
    ended = await hall.ended(asked)
    assert await steps_of(hall, ended.turn_id) == [("read", "done"), ("answer", "skipped")]
    assert await hall.said(ended.turn_id) == []


@pytest.mark.req("S1")
async def test_what_cannot_be_cancelled_is_said_with_its_name(hall: Hall) -> None:
    assert "not doing anything" in await told(hall, await hall.say("cancel the first step"))
    await hall.say(ASK_TEMPERATURE)
    assert await told(hall, await hall.say("cancel the first step")) == "Step 1 is done already: reading from the machine."
    assert await told(hall, await hall.say("cancel the ninth step")) == "There is no step 9. There are 2."
    await hall.say(SET_FAN)
    asks = await told(hall, await hall.say("cancel the first step"))
    assert asks == "Step 1 is a question: Set the fan speed of motor 3 to 80 percent. Say yes, confirm. Say no, or stop that."
    await hall.say("no")
    assert await told(hall, await hall.say("cancel step two")) == (
        "Step 2 is not done anyway: setting the fan speed of motor 3 to 80 percent."
    )


# what it is doing --------------------------------------------------------------------------------------------------
@pytest.mark.req("S1", "R7")
async def test_what_is_being_done_is_told_while_it_is_done(hall: Hall) -> None:
    assert await told(hall, await hall.say("what are you doing")) == "I am not doing anything now."
    await hall.say(SET_FAN, by="bob")
    asked = await reading(hall)
    sentence = await told(hall, await hall.say("what are you doing"))
    assert sentence == (
        f"I am doing: {ASK_TEMPERATURE}. Step 1 of 2: reading from the machine."
        " I am waiting for an answer: Set the fan speed of motor 3 to 80 percent. Say yes, confirm."
    )
    assert (await hall.look(asked)).outcome is None
    chinese = await told(hall, await hall.say("你在做什么", language="zh"))
    assert "第1步，共2步：从机器读取数值。" in chinese


@pytest.mark.req("R7", "R2")
async def test_a_stop_holds_whatever_dies(hall: Hall) -> None:
    """The process dies between the wish and its fulfilment: the turn is ended, not gone on with."""
    asked = await reading(hall)
    turn_id = str((await hall.look(asked)).turn_id)
    await hall.die()
    await wish_to_stop(hall, turn_id)
    hall.bus.open_gate.set()
    recovered = await hall.restart()
    assert (recovered.resumed, [turn.id for turn in recovered.stopped]) == ([], [turn_id])
    assert (await hall.turn(turn_id))["state"] == "abandoned"
    assert (await hall.look(asked)).outcome is Outcome.INTERRUPTED
    assert await hall.bench.database.transaction(lambda tx: interrupts.open_of(tx, turn_id)) == []
    hall.open()
    assert await hall.said(turn_id) == []
