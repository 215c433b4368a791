"""A yes or no goes to the question it was meant for, and to no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.conductor import Rooms
from appliance.contracts.admission import Admission, Outcome
from appliance.contracts.effect import Confirmation
from appliance.contracts.store import Transaction
from appliance.session.questions import Questions
from appliance.store import deliveries
from tests.support.hall import LOW_PRESSURE, Hall, hot, open_hall
from tests.support.waiting import until

WAITING = "I am not sure which question you mean. I am waiting for an answer to this: "
ORDER, SET = "Shall I create a work order for motor 3?", "Set the fan speed of motor 3 to 80 percent. Say yes, confirm."
SET_FAN = "set the fan speed of motor three to eighty percent"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


async def effects(hall: Hall) -> list[tuple[str, str]]:
    rows = await hall.bench.rows("SELECT tool, status FROM effect ORDER BY seq")
    return [(row["tool"], row["status"]) for row in rows]


@pytest.mark.req("S7", "V4")
async def test_yes_answers_the_question_just_asked(hall: Hall) -> None:
    alarm = await hall.alarm()
    answer = await hall.say("yes")
    assert (answer.outcome, answer.turn_id) == (Outcome.DONE, alarm.turn_id)
    turn = await hall.turn(alarm.turn_id)
    assert (turn["state"], turn["intent"]) == ("idle", "alarm_raised")
    assert (await hall.said(turn["id"]))[-1] == "The work order is created."
    order = await hall.bench.one("SELECT * FROM work_order")
    assert (order["asset"], order["turn_id"]) == ("motor_3", turn["id"])
    asked = await hall.bench.one("SELECT * FROM confirmation")
    assert (asked["status"], asked["answered_by"]) == ("yes", answer.id)
    assert await effects(hall) == [("write_report", "applied")]
    report = next((hall.procedures.worktree / "reports").iterdir()).read_text("utf-8")
    assert "work order wanted: yes" in report
    assert '"answers"' in turn["context"] and f'"admission":"{answer.id}"' in turn["context"]


@pytest.mark.req("S7", "V4")
@pytest.mark.parametrize("by", ["console", "voice"])
async def test_no_changes_nothing(hall: Hall, by: str) -> None:
    await (hall.utter(SET_FAN) if by == "voice" else hall.say(SET_FAN))
    await hall.speak_all()
    answer = await (hall.utter("no") if by == "voice" else hall.say("no"))
    assert answer.outcome is Outcome.DONE
    assert (await hall.said())[-1] == "Cancelled. Nothing was changed."
    assert hall.bus.writes == [] and await effects(hall) == [] and await hall.questions() == []


@pytest.mark.parametrize("answer", ["yes", "no", "yes confirm"])
async def test_an_answer_to_nothing_is_said_to_be_one(hall: Hall, answer: str) -> None:
    turn = await hall.turn((await hall.say(answer)).turn_id)
    assert (turn["state"], turn["intent"]) == ("idle", "nothing_pending")
    assert await hall.said() == ["I have not asked anything."]


@pytest.mark.req("V4")
async def test_a_write_wants_its_keyword_and_stays_open_for_it(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)
    too_little = await hall.turn((await hall.say("yes")).turn_id)
    assert too_little["intent"] == "needs_keyword" and (await hall.said())[-1] == "Please say yes, confirm."
    assert hall.bus.writes == [] and await hall.questions() == [SET]
    assert (await hall.turn(asked.turn_id))["state"] == "confirming"
    assert (await hall.say("yes confirm")).turn_id == asked.turn_id
    assert hall.bus.writes == [("motor_3.fan_speed", 80)] and await effects(hall) == [("write_tag", "applied")]
    assert (await hall.said())[-1] == "The fan speed of motor 3 is now 80 percent."
    assert (await hall.turn((await hall.say("yes confirm")).turn_id))["intent"] == "nothing_pending"
    assert len(hall.bus.writes) == 1


@pytest.mark.req("V4")
@pytest.mark.field("FC-R11")
async def test_of_several_questions_a_bare_yes_takes_the_one_just_asked_and_no_old_one(hall: Hall) -> None:
    hot = await hall.alarm()
    hall.bench.clock.advance(100)
    low = await hall.alarm(**LOW_PRESSURE)
    hall.bench.clock.advance(119)
    assert (await hall.say("no")).turn_id == low.turn_id
    assert await hall.questions() == [ORDER]
    low_again = await hall.alarm(**LOW_PRESSURE | {"activation": "7-3"})
    hall.bench.clock.advance(121)
    for answer in ("yes", "no", "yes confirm"):
        assert (await hall.turn((await hall.say(answer)).turn_id))["intent"] == "which_one"
    both = f"{ORDER} {ORDER.replace('motor', 'pump')}"
    assert (await hall.said())[-1] == f"{WAITING}{both} Name the machine with your answer, for example: yes for pump 3."
    assert await hall.questions() == [ORDER, ORDER.replace("motor", "pump")]
    assert {(await hall.turn(a.turn_id))["state"] for a in (hot, low_again)} == {"confirming"}
    assert (await hall.say("yes for motor three")).turn_id == hot.turn_id
    assert (await hall.say("no, pump three")).turn_id == low_again.turn_id
    assert await hall.questions() == []


@pytest.mark.req("V4", "X5")
async def test_a_write_asked_for_long_ago_is_not_carried_out_on_a_late_yes(hall: Hall) -> None:
    await hall.say(SET_FAN)
    hall.bench.clock.advance(121)
    assert (await hall.turn((await hall.say("yes confirm")).turn_id))["intent"] == "asked_too_long_ago"
    assert (await hall.said())[-1] == "I asked that too long ago, so it is not done. Please say again what you want."
    asked = await hall.bench.one("SELECT status, turn.state, failure FROM confirmation JOIN turn ON turn.id = turn_id")
    assert (asked["status"], asked["state"], asked["failure"]) == ("abandoned", "abandoned", "the yes came too late")
    assert (await hall.turn((await hall.say("yes confirm")).turn_id))["intent"] == "nothing_pending"
    assert hall.bus.writes == []


@pytest.mark.req("V4")
async def test_a_late_no_closes_what_its_speaker_was_asked(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)
    hall.bench.clock.advance(121)
    assert (await hall.say("no")).turn_id == asked.turn_id
    assert await hall.questions() == [] and (await hall.said())[-1] == "Cancelled. Nothing was changed."


@pytest.mark.req("V4")
@pytest.mark.parametrize("answer", ["don't confirm", "do not confirm", "no confirm", "I do not confirm"])
async def test_not_to_confirm_is_a_no(hall: Hall, answer: str) -> None:
    asked = await hall.say(SET_FAN)
    assert (await hall.say(answer)).turn_id == asked.turn_id
    assert hall.bus.writes == [] and await hall.questions() == []


@pytest.mark.req("V4", "X5")
async def test_a_newer_wish_replaces_an_older_one_so_two_confirms_write_once(hall: Hall) -> None:
    older = await hall.say("set the fan speed of motor three to thirty percent")
    await hall.say(SET_FAN)
    assert await hall.questions() == [SET]
    replaced = await hall.turn(older.turn_id)
    assert (replaced["state"], replaced["failure"]) == ("abandoned", "replaced by a newer wish")
    await hall.say("yes confirm")
    assert (await hall.turn((await hall.say("yes confirm")).turn_id))["intent"] == "nothing_pending"
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]


@pytest.mark.req("V4")
@pytest.mark.field("FC-R11")
async def test_a_voice_answers_what_sounded_last_not_what_was_asked_last(hall: Hall) -> None:
    hot = await hall.alarm()
    wish = await hall.say(SET_FAN)  # typed: its question goes before what the alarm has to say besides its announcement
    await hall.speak_all()
    assert await hall.questions() == [ORDER, SET]
    assert (await hall.utter("yes confirm")).turn_id == hot.turn_id
    assert hall.bus.writes == [] and await hall.questions() == [SET]
    assert (await hall.turn(wish.turn_id))["state"] == "confirming"


@pytest.mark.req("V4")
async def test_a_clock_set_back_makes_no_old_question_a_new_one(hall: Hall) -> None:
    for alarm in ({}, LOW_PRESSURE):
        await hall.alarm(**alarm)
    asked_utc = hall.bench.clock.now
    hall.bench.clock.advance(600)
    hall.bench.clock.now = asked_utc
    assert (await hall.turn((await hall.say("yes")).turn_id))["intent"] == "which_one"


@pytest.mark.req("V4")
@pytest.mark.field("FC-R11")
async def test_a_voice_answers_only_what_it_had_heard(hall: Hall) -> None:
    clock = hall.bench.clock
    hot = await hall.alarm()
    await hall.speak_all()
    clock.advance(3)
    low = await hall.alarm(**LOW_PRESSURE)  # its question waits for the loudspeaker
    assert (await hall.utter("no")).turn_id == hot.turn_id
    assert (await hall.turn((await hall.utter("no")).turn_id))["intent"] == "nothing_pending"
    spoke_mono_ns = clock.monotonic_ns()
    clock.advance(1)
    await hall.speak_all()  # it sounds after the answer was spoken, and before the answer is led
    late = await hall.utter("yes", spoke_mono_ns=spoke_mono_ns)
    assert (await hall.turn(late.turn_id))["intent"] == "nothing_pending"
    clock.advance(1)
    assert (await hall.utter("yes")).turn_id == low.turn_id


@pytest.mark.req("V4", "R5")
@pytest.mark.parametrize("ends", ["cut short by a restart", "cannot be said", "spoken before the last boot"])
async def test_a_question_that_may_have_been_heard_can_be_answered(hall: Hall, ends: str) -> None:
    alarm = await hall.alarm()
    clock = hall.bench.clock

    def work(tx: Transaction) -> None:
        while (delivery := deliveries.begin_next(tx, clock)) is not None:
            if ends == "cannot be said":
                deliveries.fail(tx, clock, delivery.id, why="no such script")
            elif ends == "cut short by a restart":
                if "work order" in delivery.text:
                    break
                deliveries.finish(tx, clock, delivery.id, first_audio_mono_ns=1)
            else:
                deliveries.finish(tx, clock, delivery.id, first_audio_mono_ns=clock.monotonic_ns())
        deliveries.recover(tx, clock)

    await hall.bench.database.transaction(work)
    if ends == "spoken before the last boot":
        clock.boot_id, clock.mono_ns = "boot-2", 500_000_000  # its monotonic clock began anew
    was_this_boot = ends != "spoken before the last boot"
    assert (await hall.utter("yes" if was_this_boot else "yes for motor three")).turn_id == alarm.turn_id


@pytest.mark.req("R1", "V4")
@pytest.mark.field("FC-R02")
async def test_an_answer_waits_for_the_lane_of_the_question(hall: Hall) -> None:
    asked = await hall.alarm()
    await hall.speak_all()
    reading = await alarm_that_reads(hall)
    answering = asyncio.create_task(hall.utter("yes"))
    await until(lambda: hall.conductor.running_turns == 2, "the answer is being led")
    assert await hall.questions() == [ORDER]
    hall.bus.open_gate.set()
    assert (await answering).turn_id == asked.turn_id
    assert (await hall.ended(reading)).outcome is Outcome.DONE
    order = [row["id"] for row in await hall.bench.rows("SELECT id FROM admission ORDER BY ended_utc, seq")]
    assert order.index(reading.id) < order.index((await answering).id)
    assert len(await hall.bench.rows("SELECT * FROM work_order")) == 1


async def alarm_that_reads(hall: Hall) -> Admission:
    """Another alarm of the same machine, whose turn stands in the middle of reading it."""
    hall.bus.open_gate.clear()
    journalled = await hall.alarm_door.admit(hot(hall.bench, activation="7-9"))
    assert journalled.admission is not None
    await until(lambda: hall.bus.reading == 1, "the lane of the question is busy")
    return journalled.admission


class WatchedQuestions(Questions):
    """Counts how often it was asked whether a question is still open."""

    looks = 0

    async def is_open(self, question: Confirmation) -> bool:
        answer = await super().is_open(question)
        self.looks += 1
        return answer


@pytest.mark.req("S7", "V4")
async def test_an_answer_whose_question_closes_meanwhile_goes_to_no_other(tmp_path: Path) -> None:
    def watch(rooms: Rooms) -> Rooms:
        return replace(rooms, questions=WatchedQuestions(rooms.ledger, rooms.clock))

    async with open_hall(tmp_path, change=watch) as hall:
        watched = hall.rooms.questions
        assert isinstance(watched, WatchedQuestions)
        asked = await hall.alarm()
        await hall.speak_all()
        await hall.rooms.turns.abandon_unanswered()  # the wait is counted from this look on
        hall.bench.clock.advance(1000)
        other = await hall.alarm(**LOW_PRESSURE)  # its question has not sounded yet
        await alarm_that_reads(hall)
        answering = asyncio.create_task(hall.utter("yes confirm for motor three"))
        await until(lambda: watched.looks == 1, "the answer waits for the lane")
        hall.bench.clock.advance(801)
        async with abandoning(hall):
            answer = await answering
        assert hall.bus.reading == 1  # the lane is still busy
        assert (await hall.turn(answer.turn_id))["intent"] == "nothing_pending"
        assert await hall.questions() == [ORDER.replace("motor", "pump")]
        hall.bus.open_gate.set()
        assert (await hall.turn(asked.turn_id))["state"] == "abandoned"
        assert (await hall.turn(other.turn_id))["state"] == "confirming"


@pytest.mark.req("R1")
@pytest.mark.field("FC-R02")
async def test_two_answers_at_once_are_one_answer(hall: Hall) -> None:
    asked = await hall.alarm()
    await hall.speak_all()
    answers = await asyncio.gather(hall.utter("yes"), hall.say("yes"), hall.say("no", by="other"))
    assert {answer.outcome for answer in answers} == {Outcome.DONE}
    assert [answer.turn_id for answer in answers].count(asked.turn_id) == 1
    assert len(await hall.bench.rows("SELECT * FROM confirmation WHERE status IN ('yes', 'no')")) == 1
    assert len(await hall.bench.rows("SELECT * FROM work_order")) <= 1


@pytest.mark.req("S7")
async def test_silence_is_never_consent_and_its_end_is_said(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)
    assert await hall.rooms.turns.abandon_unanswered() == []
    hall.bench.clock.advance(1799)
    assert await hall.rooms.turns.abandon_unanswered() == []
    hall.bench.clock.advance(2)
    said = hall.delivered
    async with abandoning(hall):
        await until(lambda: hall.delivered > said, "the end of the question is said")
    turn = await hall.turn(asked.turn_id)
    assert (turn["state"], turn["failure"]) == ("abandoned", "no answer within 30 minutes")
    assert (await hall.said(asked.turn_id))[-1] == "Nobody answered my question, so it is not done."
    assert hall.bus.writes == [] and await hall.questions() == []
    assert (await hall.turn((await hall.say("yes confirm")).turn_id))["intent"] == "nothing_pending"


@asynccontextmanager
async def abandoning(hall: Hall) -> AsyncIterator[None]:
    """Look for questions nobody answered, as the running core does."""
    looking = asyncio.create_task(hall.conductor.unanswered.run())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


@pytest.mark.req("R5", "V4")
async def test_a_question_answered_before_it_sounded_is_not_asked_any_more(hall: Hall) -> None:
    await hall.say(SET_FAN)
    await hall.say("yes confirm")
    await hall.speak_all()
    told = await hall.bench.rows("SELECT text, status FROM delivery ORDER BY seq")
    assert [(row["text"], row["status"]) for row in told] == [
        (SET, "abandoned"),
        ("The fan speed of motor 3 is now 80 percent.", "delivered"),
    ]
