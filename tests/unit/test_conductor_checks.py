"""What is asked for in advance, from the sentence to the words heard when it is due; work orders and the appliance itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.intake.schedule_door import ScheduleDoor
from appliance.store import admissions
from tests.support.hall import Hall, open_hall
from tests.support.plans import phrasing


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as opened:
        yield opened


def door_of(hall: Hall) -> ScheduleDoor:
    bench = hall.bench
    return ScheduleDoor(bench.database, hall.gate, bench.clock, bench.ids, phrasing(hall.plant))


async def made(hall: Hall, number: int) -> str:
    """Wait until the ``number``-th check that was started has ended; return its turn."""
    rows = await hall.bench.rows("SELECT * FROM admission WHERE door = 'schedule' ORDER BY seq")
    (row,) = await hall.bench.database.fetch("SELECT * FROM admission WHERE id = ?", (rows[number - 1]["id"],))
    return str((await hall.ended(admissions.to_admission(row))).turn_id)


@pytest.mark.field("FC-R07", "FC-R08")
@pytest.mark.req("V4", "X2")
async def test_a_check_is_made_when_it_is_due_and_heard_by_everybody(hall: Hall) -> None:
    """Asked by one person, at the console; said aloud later, in the language it was asked in, and by nobody's wish but that."""
    hall.bus.values["motor_3.temperature"] = 72.0
    asked = await hall.say("check the temperature of motor three in ten minutes", by="anna")
    assert await hall.said(asked.turn_id) == ["I will do that in 10 minutes: read the temperature of motor 3."]
    door = door_of(hall)
    assert await door.look() == 600
    listed = await hall.say("what checks are there", by="bert")
    assert await hall.said(listed.turn_id) == ["One check is waiting: in 10 minutes, read the temperature of motor 3."]
    hall.bench.clock.advance(600)
    assert (await door.look(), await door_of(hall).look()) == (None, None)
    turn_id = await made(hall, 1)
    assert (await hall.said())[-2:] == [
        "I was asked earlier to do this: read the temperature of motor 3.",
        "The temperature of motor 3 is 72 degrees Celsius.",
    ]
    turn = await hall.turn(turn_id)
    context = json.loads(turn["context"])
    assert (turn["lane"], turn["intent"], context["by"], context["unattended"]) == (
        "schedule:checks", "read_tag", "schedule", True,
    )  # fmt: skip
    assert context["principal"]["by"] == "anna"
    (shown,) = await door.checks(waiting_only=False, limit=10)
    assert (shown["status"], shown["outcome"], shown["turn"], shown["by"]) == ("started", "done", turn_id, "anna")


@pytest.mark.field("FC-R08")
async def test_a_check_that_was_admitted_when_the_process_died_is_made_after_the_restart(hall: Hall) -> None:
    hall.bus.values["motor_3.temperature"] = 72.0
    await hall.say("check the temperature of motor three in a minute")
    hall.bench.clock.advance(61)
    await hall.die()
    door = door_of(hall)
    await door.look()  # the row is started and its admission waits: then everything dies
    await hall.restart()
    hall.open()
    assert await door_of(hall).look() is None
    await made(hall, 1)
    assert (await hall.said()).count("The temperature of motor 3 is 72 degrees Celsius.") == 1


async def test_a_check_is_cancelled_by_a_sentence(hall: Hall) -> None:
    await hall.say("check the temperature of motor three in a minute")
    cancelled = await hall.say("cancel the checks")
    assert await hall.said(cancelled.turn_id) == ["This check is cancelled: read the temperature of motor 3."]
    hall.bench.clock.advance(61)
    assert await door_of(hall).look() is None
    assert await hall.bench.rows("SELECT 1 FROM admission WHERE door = 'schedule'") == []


@pytest.mark.req("P4")
async def test_that_a_work_order_is_done_is_asked_back_and_passed_on(hall: Hall) -> None:
    await hall.say("create a work order for motor three")
    await hall.say("yes")
    await hall.say("the work order of motor three is done")
    assert await hall.questions() == ["Shall I pass on that the work order of motor 3 is done?"]
    await hall.say("yes")
    assert (await hall.said())[-1] == "I have passed on that the work order of motor 3 is done."
    assert (await hall.bench.one("SELECT status FROM work_order"))["status"] == "done_requested"
    none = await hall.say("the work order of pump three is done")
    await hall.say("yes")
    assert (await hall.turn(none.turn_id))["state"] == "failed"
    assert "There is no work order of pump 3." in (await hall.said())[-1]


async def test_how_it_is_is_answered_in_one_sentence(hall: Hall) -> None:
    asked = await hall.say("how are you doing")
    assert await hall.said(asked.turn_id) == [
        "My processor is at 52 degrees Celsius, 30 percent of my disk is free and 41 percent of my memory is free."
    ]
