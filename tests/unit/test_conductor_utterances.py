"""What people type and say becomes turns: understood or not, in order inside a lane, side by side between lanes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import Outcome
from appliance.contracts.speech import Utterance
from appliance.session.settings import SessionSettings
from tests.support.hall import Hall, open_hall
from tests.support.waiting import until

ASK_TEMPERATURE = "what is the temperature of motor three"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.mark.req("S1", "A1")
async def test_a_question_about_a_value_is_answered(hall: Hall) -> None:
    admission = await hall.say(ASK_TEMPERATURE)
    turn = await hall.turn(admission.turn_id)
    assert (admission.outcome, turn["state"], turn["intent"]) == (Outcome.DONE, "idle", "read_tag")
    assert await hall.said(turn["id"]) == ["The temperature of motor 3 is 94 degrees Celsius."]
    assert turn["id"].startswith("tr_") and len(turn["state_hash"]) == 64 and turn["lifespan_s"] > 0
    assert turn["offline"] == 0


@pytest.mark.req("V4")
async def test_the_account_of_an_utterance_tells_how_long_understanding_took(hall: Hall) -> None:
    clock = hall.bench.clock
    spoken = await hall.utter("what alarms are active", spoke_mono_ns=clock.monotonic_ns() - 412_000_000)
    context = json.loads((await hall.turn(spoken.turn_id))["context"])
    assert context["heard"] == {"admission": spoken.id, "intent": "list_alarms", "ms": 412.0}
    assert (context["by"], context["said"]) == ("voice", "what alarms are active")
    typed = json.loads((await hall.turn((await hall.say("what alarms are active")).turn_id))["context"])
    assert typed["heard"]["ms"] is None and typed["by"] == "console"


async def test_an_utterance_from_before_a_power_cut_has_no_such_time(tmp_path: Path) -> None:
    async with open_hall(tmp_path, is_open=False) as hall:
        speaking = asyncio.create_task(hall.utter("what alarms are active"))
        await until(lambda: hall.gate_notified > 0, "the utterance is on disk")
        hall.bench.clock.boot_id, hall.bench.clock.mono_ns = "boot-2", 5
        hall.open()
        context = json.loads((await hall.turn((await speaking).turn_id))["context"])
        assert context["heard"]["ms"] is None


@pytest.mark.parametrize("text", ["mumble mumble", ""])
async def test_what_is_not_understood_is_said_to_be_so(hall: Hall, text: str) -> None:
    turn = await hall.turn((await hall.utter(text)).turn_id)
    assert (turn["state"], turn["intent"]) == ("idle", "not_understood")
    assert await hall.said() == ["I did not understand that."]


async def test_a_value_outside_its_limits_is_refused_with_the_limits(hall: Hall) -> None:
    admission = await hall.say("set the fan speed of motor three to one hundred and fifty percent")
    turn = await hall.turn(admission.turn_id)
    assert (admission.outcome, turn["state"], turn["intent"]) == (Outcome.REFUSED, "failed", "set_tag")
    assert await hall.said() == ["I cannot do that. Fan speed can be set from 0 to 100 percent."]
    assert turn["failure"] == "Fan speed can be set from 0 to 100 percent."
    assert await hall.questions() == [] and hall.bus.writes == []
    assert hall.delivered > 0


@pytest.mark.req("S8")
async def test_a_turn_without_enough_lifespan_is_refused_with_the_numbers(tmp_path: Path) -> None:
    async with open_hall(tmp_path, session=SessionSettings(base_conversation_s=2, floor_s=1)) as hall:
        admission = await hall.say(ASK_TEMPERATURE)
        turn = await hall.turn(admission.turn_id)
        assert (admission.outcome, turn["state"]) == (Outcome.REFUSED, "failed")
        (said,) = await hall.said()
        assert said.startswith("I cannot do that. That would take ")
        assert said.endswith(", and I have only 2 seconds left. Please ask for less at once.")
        assert await hall.bench.rows("SELECT * FROM action") == []


@pytest.mark.req("R1", "S1")
@pytest.mark.field("FC-R04")
async def test_a_sentence_sent_again_while_its_slow_turn_runs_is_the_same_turn(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    now_ns = hall.bench.clock.monotonic_ns()
    sentence = Utterance("ut_9", ASK_TEMPERATURE, "en", "test", None, now_ns, now_ns, now_ns)
    first = await hall.voice_door.admit(sentence)
    await until(lambda: hall.bus.reading == 1, "the slow turn reads")
    again = await hall.voice_door.admit(sentence)
    assert (again.is_duplicate, again.admission.id) == (True, first.admission.id)
    hall.bus.open_gate.set()
    ended = await hall.ended(first.admission)
    late = await hall.voice_door.admit(sentence)
    assert (late.is_duplicate, late.admission.turn_id) == (True, ended.turn_id)
    assert len(await hall.said()) == len(await hall.bench.rows("SELECT 1 FROM turn")) == 1


@pytest.mark.req("R1")
@pytest.mark.field("FC-R01")
async def test_a_lane_is_led_in_order_one_at_a_time(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    typed = [(await hall.console_door.admit(ASK_TEMPERATURE, "en", "console")).admission for _ in range(5)]
    await until(lambda: hall.bus.reading == 1, "the first one reads")
    assert hall.conductor.running_turns == 1
    hall.bus.open_gate.set()
    ended = [await hall.ended(admission) for admission in typed]
    assert {admission.outcome for admission in ended} == {Outcome.DONE} and hall.bus.most_reading == 1
    opened = await hall.bench.rows("SELECT admission_id FROM turn ORDER BY seq")
    assert [row["admission_id"] for row in opened] == [admission.id for admission in typed]
    assert len({(await hall.turn(admission.turn_id))["session_id"] for admission in ended}) == 1


@pytest.mark.req("R1")
async def test_lanes_are_led_side_by_side(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    typed = [(await hall.console_door.admit(ASK_TEMPERATURE, "en", f"person {n}")).admission for n in range(3)]
    await until(lambda: hall.bus.reading == 3, "all three read")
    assert hall.conductor.running_turns == 3
    hall.bus.open_gate.set()
    for admission in typed:
        assert (await hall.ended(admission)).outcome is Outcome.DONE


@pytest.mark.req("R1")
async def test_no_more_lanes_than_allowed_and_alarms_go_first(tmp_path: Path) -> None:
    async with open_hall(tmp_path, sessions=1) as hall:
        hall.bus.open_gate.clear()
        first, second = [(await hall.console_door.admit(ASK_TEMPERATURE, "en", f"person {n}")).admission for n in range(2)]
        await until(lambda: hall.bus.reading == 1, "the first one reads")
        alarm = asyncio.create_task(hall.alarm())
        await until(lambda: hall.gate_notified == 3, "the alarm is on disk")
        assert hall.conductor.running_turns == 1
        hall.bus.open_gate.set()
        await asyncio.gather(hall.ended(first), hall.ended(second), alarm)
        opened = await hall.bench.rows("SELECT admission_id FROM turn ORDER BY seq")
        assert [row["admission_id"] for row in opened] == [first.id, alarm.result().id, second.id]


@pytest.mark.req("R1", "V4")
async def test_what_was_said_last_and_what_is_open_can_be_asked_for(hall: Hall) -> None:
    await hall.alarm()
    await hall.speak_all()
    assert (await hall.said((await hall.say("what are you waiting for")).turn_id)) == [
        "I am waiting for an answer: Shall I create a work order for motor 3?"
    ]
    assert (await hall.said((await hall.say("say that again")).turn_id)) == ["Shall I create a work order for motor 3?"]


@pytest.mark.req("S1")
async def test_a_turn_knows_that_it_is_led_offline(hall: Hall) -> None:
    for _ in range(2):
        await hall.availability.missed("no route")
    turn = await hall.turn((await hall.say("are you there")).turn_id)
    assert turn["offline"] == 1
    assert await hall.said() == ["I am here, working without the coordinator. There is no alarm."]
