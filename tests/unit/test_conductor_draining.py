"""Draining before an update: no talk is begun and none is lost; alarms and interjections go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import Outcome
from tests.support.hall import LOW_PRESSURE, Hall, hot, open_hall
from tests.support.waiting import until

TEMPERATURE = "what is the temperature of motor three"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.open_gate.set()


@pytest.mark.req("R10")
async def test_what_runs_ends_nothing_is_begun_and_what_waits_is_led_afterwards(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    running = (await hall.console_door.admit(TEMPERATURE, "en", "ann")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    hall.conductor.lanes.drain()
    waiting = [(await hall.console_door.admit("help", "en", by)).admission for by in ("ann", "bob", "cy", "bob")]
    drained = asyncio.create_task(hall.conductor.lanes.drained())
    assert (await hall.say("what are you doing", by="dee")).outcome is Outcome.DONE  # an interjection
    assert not drained.done()
    hall.bus.open_gate.set()
    await asyncio.wait_for(drained, 20)
    assert (await hall.look(running)).outcome is Outcome.DONE
    assert [(await hall.look(each)).status for each in waiting] == ["queued"] * 4
    hall.conductor.lanes.undrain()
    for admission in waiting:
        assert (await hall.ended(admission)).outcome is Outcome.DONE


@pytest.mark.req("R10", "F7")
async def test_alarms_go_on(hall: Hall) -> None:
    hall.conductor.lanes.drain()
    await hall.conductor.lanes.drained()  # at once: nothing runs
    talk = (await hall.console_door.admit("help", "en", "console")).admission
    assert (await hall.alarm()).outcome is Outcome.DONE
    assert (await hall.alarm(**LOW_PRESSURE)).outcome is Outcome.DONE
    assert hall.conductor.lanes.is_draining and (await hall.look(talk)).status == "queued"
    hall.conductor.lanes.undrain()
    assert (await hall.ended(talk)).outcome is Outcome.DONE


@pytest.mark.req("R10", "R2")
async def test_after_a_restart_an_alarms_conversation_goes_on_and_talk_waits(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    talk = (await hall.console_door.admit(TEMPERATURE, "en", "console")).admission
    alarm = (await hall.alarm_door.admit(hot(hall.bench))).admission
    assert alarm is not None
    await until(lambda: hall.bus.reading == 2, "both read the machine")
    await hall.die()
    hall.bus.open_gate.set()
    resumed = {each.resumes: each for each in (await hall.restart()).resumed}
    hall.conductor.lanes.drain()
    hall.open()
    assert (await hall.ended(resumed[alarm.id])).outcome is Outcome.DONE
    assert (await hall.look(resumed[talk.id])).status == "queued"
    hall.conductor.lanes.undrain()
    assert (await hall.ended(resumed[talk.id])).outcome is Outcome.DONE


@pytest.mark.req("R10", "R7")
async def test_a_running_turn_can_be_stopped_while_draining(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    running = (await hall.console_door.admit(TEMPERATURE, "en", "console")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    hall.conductor.lanes.drain()
    await hall.say("stop that")
    await asyncio.wait_for(hall.conductor.lanes.drained(), 20)
    assert (await hall.look(running)).outcome is Outcome.INTERRUPTED
    hall.conductor.lanes.undrain()
