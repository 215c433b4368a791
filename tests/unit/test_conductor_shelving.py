"""Shelving by voice, from the sentence to what is not said, and what is said when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.alarm import Disposition
from appliance.store import admissions
from tests.support.hall import Hall, hot, open_hall

SHELVE = "shelve the motor three over temperature alarm for thirty minutes because of maintenance"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.mark.req("F6", "F7")
async def test_shelving_is_read_back_confirmed_and_told_when_it_ends(hall: Hall) -> None:
    asked = await hall.say(SHELVE, by="anna")
    assert await hall.said(asked.turn_id) == [
        "Shelve the alarm Motor three over temperature for 30 minutes, because of maintenance? I will not announce it meanwhile."
        " Say yes, confirm."
    ]
    assert await hall.bench.rows("SELECT 1 FROM alarm_inhibition") == []
    await hall.speak_all()
    await hall.say("yes confirm", by="anna")
    assert (await hall.said())[-1] == "Motor three over temperature is shelved for 30 minutes."
    held = await hall.bench.one("SELECT alarm_id, by, reason, for_s FROM alarm_inhibition")
    assert held == {"alarm_id": "motor_3_over_temperature", "by": "anna", "reason": "maintenance", "for_s": 1800.0}

    raised = await hall.alarm_door.admit(hot(hall.bench))
    assert raised.disposition is Disposition.SHELVED
    listed = await hall.say("what alarms are active")
    assert (await hall.said(listed.turn_id))[-1].endswith("shelved.")
    assert not [said for said in await hall.said() if said.startswith("Motor three over temperature.")]

    ended = await hall.say("unshelve the motor three over temperature alarm")
    assert await hall.said(ended.turn_id) == ["Motor three over temperature is not shelved any more."]
    assert await hall.alarms.changes.follow()  # the tool wrote an admission; this is how the queue hears of it
    told = await hall.bench.one("SELECT id FROM admission WHERE kind = 'alarm'")
    admission = await hall.ended(await hall.bench.database.transaction(lambda tx: admissions.by_id(tx, told["id"])))
    said = (await hall.said(admission.turn_id))[0]
    assert said.startswith("Motor three over temperature.") and "Still active" in said
    alarm = await hall.bench.one("SELECT session_id FROM alarm")
    assert alarm["session_id"] == (await hall.turn(admission.turn_id))["session_id"]


@pytest.mark.req("F6")
async def test_shelving_without_a_reason_is_refused_and_without_a_yes_not_done(hall: Hall) -> None:
    refused = await hall.say("shelve the motor three over temperature alarm for an hour")
    assert await hall.said(refused.turn_id) == ["I cannot do that. Please say why, for example because of maintenance."]
    await hall.say(SHELVE)
    await hall.speak_all()
    await hall.say("no")
    assert (await hall.said())[-1] == "Cancelled. Nothing was changed."
    assert await hall.bench.rows("SELECT 1 FROM alarm_inhibition") == []


@pytest.mark.req("F6")
async def test_there_is_nothing_to_reset(hall: Hall) -> None:
    asked = await hall.say("reset the alarm")
    assert await hall.said(asked.turn_id) == ["There is nothing to reset."]
