"""A steer joins the running turn after its current step, a redirect replaces what is left of it; either is done once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.alarm_turns import AlarmTurns
from appliance.conductor import Rooms
from appliance.contracts.admission import PRIORITY_CONSOLE, Admission, Arrival, Door, Outcome, Request, RequestKind
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Plan
from appliance.session.settings import SessionSettings
from tests.support.hall import Hall, hot, open_hall
from tests.support.waiting import until

TEMPERATURE, LOAD = "what is the temperature of motor three", "what is the load of motor three"
SAID = {
    TEMPERATURE: "The temperature of motor 3 is 94 degrees Celsius.",
    LOAD: "The load of motor 3 is 80 percent.",
}
SET_FAN = "set the fan speed of motor three to eighty percent"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.open_gate.set()


async def reading(hall: Hall) -> Admission:
    """A turn of the console's lane that stands in the middle of its first step."""
    hall.bus.open_gate.clear()
    admission = (await hall.console_door.admit(TEMPERATURE, "en", "console")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    return await hall.look(admission)


async def join(hall: Hall, text: str, arrival: Arrival, language: str = "en") -> Admission:
    """Admit what wants to join the turn of the console's lane; if there is one, return once it knows."""
    admission = (await hall.console_door.admit(text, language, "console", arrival=arrival)).admission
    led = [signal for lane, signal in hall.conductor.bells._led.values() if lane == admission.lane]
    await until(lambda: all(signal.steered for signal in led), "the turn knows")
    return admission


async def events(hall: Hall, turn_id: str | None) -> list[str]:
    rows = await hall.bench.rows(
        "SELECT payload FROM operation WHERE lane = ? AND entity = ? AND kind LIKE 'turn.%' ORDER BY seq",
        OperationLane.P1,
        turn_id,
    )
    return [json.loads(row["payload"])["event"] for row in rows]


async def steps(hall: Hall, turn_id: str | None) -> list[tuple[int, str, str]]:
    rows = await hall.bench.rows("SELECT position, step_id, state FROM action WHERE turn_id = ? ORDER BY position", turn_id)
    return [(row["position"], row["step_id"], row["state"]) for row in rows]


@pytest.mark.req("R7", "R1", "S3")
@pytest.mark.field("FC-R02")
async def test_a_steer_adds_its_steps_to_the_same_turn_after_the_current_one(hall: Hall) -> None:
    asked = await reading(hall)
    steer = await join(hall, LOAD, Arrival.STEER)
    assert (await hall.look(steer)).status == "queued"
    hall.bus.open_gate.set()
    for admission in (asked, steer):
        assert (await hall.ended(admission)).outcome is Outcome.DONE
    assert (await hall.look(steer)).turn_id == asked.turn_id
    assert await steps(hall, asked.turn_id) == [
        (0, "read", "done"), (1, "answer", "done"), (2, "read_2", "done"), (3, "answer_2", "done"),
    ]  # fmt: skip
    assert await hall.said() == [SAID[TEMPERATURE], SAID[LOAD]]
    assert await events(hall, asked.turn_id) == ["heard", "planned", "steered", "finished"]
    assert len(await hall.bench.rows("SELECT 1 FROM turn")) == 1
    turn = await hall.turn(asked.turn_id)
    plan, context = Plan.from_json(json.loads(turn["plan"])), json.loads(turn["context"])
    assert [step.id for step in plan.steps] == ["read", "answer", "read_2", "answer_2"]
    assert [each["admission"] for each in context["joined"]] == [steer.id]


@pytest.mark.req("R7", "R1", "S3")
@pytest.mark.field("FC-R02")
async def test_a_redirect_skips_what_is_left_and_plans_the_same_turn_anew(hall: Hall) -> None:
    asked = await reading(hall)
    redirect = await join(hall, LOAD, Arrival.REDIRECT)
    hall.bus.open_gate.set()
    for admission in (asked, redirect):
        assert (await hall.ended(admission)).outcome is Outcome.DONE
    assert (await hall.look(redirect)).turn_id == asked.turn_id
    assert await steps(hall, asked.turn_id) == [
        (0, "read", "done"), (1, "answer", "skipped"), (2, "read_2", "done"), (3, "answer_2", "done"),
    ]  # fmt: skip
    assert await hall.said() == [SAID[LOAD]]
    assert await events(hall, asked.turn_id) == ["heard", "planned", "redirected", "planned", "finished"]
    turn = await hall.turn(asked.turn_id)
    context = json.loads(turn["context"])
    assert (context["said"], context["before"]) == (LOAD, [TEMPERATURE])
    assert [step["id"] for step in json.loads(turn["plan"])["steps"]] == ["read_2", "answer_2"]


@pytest.mark.req("R7")
@pytest.mark.parametrize("way", ["redirect", "stop"])
async def test_planning_for_what_is_not_wanted_any_more_is_cancelled(tmp_path: Path, way: str) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    def slow(rooms: Rooms) -> Rooms:
        class Waiting(AlarmTurns):
            async def plan(self, turn: Any, rejected: int = 0) -> Any:
                began.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()

        alarms = Waiting(**{name: getattr(rooms.alarms, name) for name in AlarmTurns.__slots__})
        return replace(rooms, alarms=alarms)

    async with open_hall(tmp_path, change=slow) as hall:
        turn_id = await planning_for_ever(hall, began)
        if way == "stop":
            await hall.conductor.stop_turn(turn_id, "technician", "not now")
        else:
            await redirect_in(hall, (await hall.turn(turn_id))["lane"])
        await asyncio.wait_for(cancelled.wait(), 20)
        await until_state(hall, turn_id, "abandoned" if way == "stop" else "idle")
        if way == "redirect":
            assert await hall.said(turn_id) == [SAID[LOAD]]
            assert await events(hall, turn_id) == ["heard", "redirected", "planned", "finished"]


async def planning_for_ever(hall: Hall, began: asyncio.Event) -> str:
    admission = (await hall.alarm_door.admit(hot(hall.bench))).admission
    assert admission is not None
    await asyncio.wait_for(began.wait(), 20)
    return str((await hall.look(admission)).turn_id)


async def redirect_in(hall: Hall, lane: str) -> None:
    payload = {"text": LOAD, "language": "en", "by": "console"}
    request = Request(Door.CONSOLE, RequestKind.UTTERANCE, lane, "redirect", payload, PRIORITY_CONSOLE, Arrival.REDIRECT)
    await hall.gate.admit(request)


async def until_state(hall: Hall, turn_id: str, state: str) -> None:
    async with asyncio.timeout(10):
        while (await hall.turn(turn_id))["state"] != state:  # noqa: ASYNC110 - it is looked at in the ledger
            await asyncio.sleep(0)


@pytest.mark.req("R7")
@pytest.mark.parametrize(
    ("text", "language", "sentence"),
    [
        ("mumble mumble", "en", "I did not understand that."),
        (
            "set the fan speed of motor three to one hundred and fifty percent",
            "en",
            "I cannot do that. Fan speed can be set from 0 to 100",
        ),
        ("quelle heure est-il", "fr", "I cannot do that. No phrases for the language"),
    ],
)
@pytest.mark.parametrize("arrival", [Arrival.STEER, Arrival.REDIRECT])
async def test_what_cannot_join_is_said_to_be_so_and_the_turn_goes_on(
    hall: Hall, text: str, language: str, sentence: str, arrival: Arrival
) -> None:
    asked = await reading(hall)
    joining = await join(hall, text, arrival, language)
    hall.bus.open_gate.set()
    joined = await hall.ended(joining)
    assert (joined.turn_id, joined.outcome) == (asked.turn_id, Outcome.REFUSED)
    assert (await hall.ended(asked)).outcome is Outcome.DONE
    said = await hall.said(asked.turn_id)
    assert len(said) == 2 and said[0].startswith(sentence) and said[1] == SAID[TEMPERATURE]


@pytest.mark.req("R7", "S8")
async def test_a_steer_that_does_not_fit_into_the_lifespan_is_refused_with_the_numbers(tmp_path: Path) -> None:
    session = SessionSettings(base_tool_s=40.0, tool_factor=0.1, floor_s=1.0)
    async with open_hall(tmp_path, session=session) as hall:
        asked = await reading(hall)
        steer = await join(hall, LOAD, Arrival.STEER)
        hall.bus.open_gate.set()
        assert (await hall.ended(steer)).turn_id == (await hall.ended(asked)).turn_id
        refused, answered = await hall.said(asked.turn_id)
        assert "That would take" in refused and "seconds left." in refused and answered == SAID[TEMPERATURE]


@pytest.mark.req("R1")
async def test_an_answer_is_no_steer_and_stays_in_the_queue(hall: Hall) -> None:
    await hall.say(SET_FAN)
    asked = await reading(hall)
    answer = await join(hall, "yes confirm", Arrival.STEER)
    hall.bus.open_gate.set()
    assert (await hall.ended(answer)).turn_id != (await hall.ended(asked)).turn_id
    assert hall.bus.writes == [("motor_3.fan_speed", 80)]


@pytest.mark.req("R1")
@pytest.mark.field("FC-R13")
async def test_a_steer_that_comes_too_late_is_next_in_its_lane(hall: Hall) -> None:
    """Nothing runs in the lane any more: it is an input like any other."""
    first = await hall.say(TEMPERATURE)
    steer = await hall.ended((await hall.console_door.admit(LOAD, "en", "console", arrival=Arrival.STEER)).admission)
    assert steer.outcome is Outcome.DONE and steer.turn_id != first.turn_id
    assert await hall.said(steer.turn_id) == [SAID[LOAD]]


@pytest.mark.req("R1", "R2")
@pytest.mark.field("FC-R13", "FC-R02")
async def test_a_steer_that_was_not_taken_up_outlives_the_process(hall: Hall) -> None:
    asked = await reading(hall)
    steer = await join(hall, LOAD, Arrival.STEER)
    await hall.die()
    hall.bus.open_gate.set()
    (successor,) = (await hall.restart()).resumed
    hall.open()
    assert (await hall.ended(successor)).turn_id == asked.turn_id
    assert (await hall.ended(steer)).outcome is Outcome.DONE
    assert await hall.said() in ([SAID[TEMPERATURE], SAID[LOAD]], [SAID[LOAD], SAID[TEMPERATURE]])


@pytest.mark.req("R7")
async def test_several_join_in_the_order_they_came(hall: Hall) -> None:
    asked = await reading(hall)
    joined = [await join(hall, text, Arrival.STEER) for text in (LOAD, "help")]
    hall.bus.open_gate.set()
    for admission in joined:
        assert (await hall.ended(admission)).turn_id == asked.turn_id
    said = await hall.said()
    assert said[:2] == [SAID[TEMPERATURE], SAID[LOAD]] and said[2].startswith("Ask me for")
