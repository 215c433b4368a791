"""An alarm's conversation, from the door to the question and on to its end."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import Outcome
from appliance.contracts.alarm import AlarmChange
from appliance.contracts.plant import Plant
from appliance.execution.approval.settings import ApprovalRules, ApprovalSettings, CallRule
from appliance.planning.playbooks.playbooks import Playbooks
from tests.support.hall import LOW_PRESSURE, Hall, open_hall
from tests.support.planning import CONFIG, shipped_plant


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.mark.req("S1", "S7", "F7")
async def test_an_alarm_is_announced_advised_on_and_ends_in_a_question(hall: Hall) -> None:
    admission = await hall.alarm()
    assert admission.outcome is Outcome.DONE
    turn = await hall.turn(admission.turn_id)
    assert (turn["state"], turn["intent"], turn["lane"]) == ("confirming", "alarm_raised", "asset:motor_3")
    assert turn["blocking_reason"] == "waiting for an answer"
    announced, *advice, asked = await hall.said(turn["id"])
    assert announced == "Motor three over temperature. It is at 94 degrees Celsius."
    assert advice == ["I know no similar case. Check the fan and its filter first."]
    assert asked == "Shall I create a work order for motor 3?" and await hall.questions() == [asked]
    alarm = await hall.bench.one("SELECT * FROM alarm")
    assert (alarm["session_id"], alarm["state"]) == (turn["session_id"], "unacknowledged")
    assert [row["priority"] for row in await hall.bench.rows("SELECT priority FROM delivery ORDER BY seq")] == [11, 8, 8]
    done = await hall.bench.rows("SELECT step_id FROM action WHERE state = 'done' ORDER BY position")
    assert [row["step_id"] for row in done] == ["announce", "log", "state", "remember", "cases", "advise_case"]
    assert hall.delivered >= 2 and hall.beats >= 2
    assert hall.conductor.running_turns == 0


@pytest.mark.req("F7")
async def test_its_end_is_told_in_the_same_conversation(hall: Hall) -> None:
    raised = await hall.turn((await hall.alarm()).turn_id)
    cleared = await hall.turn((await hall.alarm(change=AlarmChange.CLEARED)).turn_id)
    assert (cleared["state"], cleared["intent"], cleared["session_id"]) == ("idle", "alarm_cleared", raised["session_id"])
    assert await hall.said(cleared["id"]) == ["Back to normal: Motor three over temperature."]
    assert await hall.questions() == ["Shall I create a work order for motor 3?"]  # what was asked stays asked
    assert (await hall.bench.one("SELECT state FROM alarm"))["state"] == "returned_unacknowledged"


@pytest.mark.req("F7")
async def test_every_activation_has_its_conversation_and_a_repeat_none_of_its_own(hall: Hall) -> None:
    first = await hall.alarm()
    again = await hall.alarm()
    other = await hall.alarm(**LOW_PRESSURE)
    assert again.id == first.id
    turns = await hall.bench.rows("SELECT session_id FROM turn")
    assert len(turns) == 2 and other.turn_id != first.turn_id
    bound = {row["session_id"] for row in await hall.bench.rows("SELECT session_id FROM alarm")}
    assert bound == {turn["session_id"] for turn in turns}


@pytest.mark.req("F7")
async def test_a_silent_plc_does_not_keep_an_alarm_from_being_told(hall: Hall) -> None:
    hall.bus.is_away = True
    turn = await hall.turn((await hall.alarm()).turn_id)
    assert turn["state"] == "confirming"
    assert (await hall.said(turn["id"]))[0] == "Motor three over temperature. It is at 94 degrees Celsius."
    assert await hall.say("no") and (await hall.turn(turn["id"]))["state"] == "idle"
    states = {row["step_id"]: row["state"] for row in await hall.bench.rows("SELECT step_id, state FROM action")}
    assert (states["log"], states["report_short"]) == ("failed", "done")


@pytest.mark.req("F7")
async def test_a_unit_the_gateway_made_up_is_neither_spoken_nor_breaks_the_list(hall: Hall) -> None:
    await hall.alarm(unit="say yes confirm")
    listed = await hall.say("what alarms are active")
    assert listed.outcome is Outcome.DONE
    assert (await hall.said(listed.turn_id))[-1].startswith("One alarm: Motor three over temperature")
    assert not [said for said in await hall.said() if "yes" in said]


@pytest.mark.req("V4", "F7")
async def test_who_speaks_is_answered_before_what_alarms_still_have_to_say(hall: Hall) -> None:
    alarm = await hall.alarm()
    asked = await hall.utter("what alarms are active")
    yes = await hall.say("yes")
    assert yes.turn_id == alarm.turn_id
    rows = await hall.bench.rows("SELECT turn_id, text FROM delivery WHERE status = 'pending' ORDER BY priority DESC, seq")
    assert [row["turn_id"] for row in rows[:2]] == [asked.turn_id, alarm.turn_id]
    assert rows[1]["text"] == "The work order is created." and rows[2]["text"] == "It is at 94 degrees Celsius."


@pytest.mark.req("F7")
async def test_each_alarms_question_names_its_machine(hall: Hall) -> None:
    await hall.alarm()
    await hall.alarm(**LOW_PRESSURE)
    assert await hall.questions() == [f"Shall I create a work order for {machine}?" for machine in ("motor 3", "pump 3")]


BAD_STEP = '  - {id: office, tool: notify, arguments: {text: hot, topic: "office/motors/"}}\n'
LONG = "It is at {alarm.value}. " + "x" * 4_000


@pytest.mark.req("F7", "S5")
@pytest.mark.parametrize(
    ("old", "new"),
    [("", BAD_STEP), ("It is at {alarm.value}.", LONG)],
    ids=["an argument its tool does not take", "a text too long"],
)
async def test_an_alarm_whose_playbook_makes_no_plan_is_told_and_asked_about_without_it(
    tmp_path: Path, old: str, new: str
) -> None:
    shutil.copytree(CONFIG / "playbooks", tmp_path / "playbooks")
    steps = tmp_path / "playbooks" / "over-temperature" / "steps.yaml"
    told = steps.read_text("utf-8")
    steps.write_text(told.replace(old, new) if old else told + new, "utf-8")
    async with open_hall(tmp_path, playbooks=Playbooks.load(tmp_path / "playbooks", "c0ffee")) as hall:
        turn = await hall.turn((await hall.alarm()).turn_id)
        assert (await hall.said(turn["id"]))[0].startswith("Motor three over temperature. ")
        assert turn["state"] == "confirming"


@pytest.mark.req("F7")
@pytest.mark.parametrize("text", ["Motor three { hot.", "Motor three {too} hot.", "Motor three is hot. " + "x" * 500])
async def test_an_alarm_is_told_whatever_its_text_is(tmp_path: Path, text: str) -> None:
    told = shipped_plant().model_dump(by_alias=True)
    alarms = [alarm | {"text": {"en": text, "zh": text}} for alarm in told["alarms"]]
    async with open_hall(tmp_path, plant=Plant.model_validate(told | {"alarms": alarms})) as hall:
        turn = await hall.turn((await hall.alarm()).turn_id)
        assert (await hall.said(turn["id"]))[0].startswith(text)


@pytest.mark.req("F7", "X2")
async def test_an_alarm_whose_plan_may_not_speak_is_told_all_the_same(tmp_path: Path) -> None:
    rules = ApprovalSettings(ApprovalRules(deny=[CallRule(tools=["say"])]))
    async with open_hall(tmp_path, rules=rules) as hall:
        turn = await hall.turn((await hall.alarm()).turn_id)
        assert "Motor three over temperature." in await hall.said(turn["id"])
        cleared = await hall.turn((await hall.alarm(change=AlarmChange.CLEARED)).turn_id)
        assert "Back to normal: Motor three over temperature." in await hall.said(cleared["id"])
