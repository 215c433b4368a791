"""A turn executes only what passes every guard; a bad plan is made again twice, and then it is said why nothing is done."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Outcome
from appliance.contracts.errors import Malformed
from appliance.contracts.hold import HoldSource
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Plan, Step
from appliance.contracts.planning import Asked, PlanMaker
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.planning.on_hold import without_held
from appliance.planning.plan_check import MOST_STEPS, check
from appliance.session.settings import SessionSettings
from appliance.store import holds, views
from tests.support.hall import Change, Hall, open_hall

TEMPERATURE = "what is the temperature of motor three"
SET_FAN = "set the fan speed of motor three to eighty percent"
SAY = Step("answer", "say", {"text": "hello"})


@dataclass
class Scripted:
    """Hands out plans in their order, then the real ones."""

    script: list[Plan]
    real: PlanMaker

    async def plan(self, asked: Asked) -> Plan | None:
        return self.script.pop(0) if self.script else await self.real.plan(asked)


def scripted(*plans: Plan) -> Change:
    return lambda rooms: replace(rooms, planners=Scripted(list(plans), rooms.planners))


def plan(*steps: Step, estimate_s: float = 1.0) -> Plan:
    return Plan("read_tag", "model:test", steps, estimate_s)


async def moves(hall: Hall, turn_id: str | None) -> list[tuple[str, str]]:
    rows = await hall.bench.rows(
        "SELECT payload FROM operation WHERE lane = ? AND entity = ? AND kind LIKE 'turn.%' ORDER BY seq",
        OperationLane.P1,
        turn_id,
    )
    return [(told["event"], told["reason"]) for told in (json.loads(row["payload"]) for row in rows)]


BAD: list[tuple[Plan, str]] = [
    (plan(), "steps: List should have at least 1 item"),
    (plan(SAY, SAY), "answer: there are two steps of this id"),
    (plan(Step("answer", "shout", {})), "answer: there is no tool shout"),
    (plan(Step("answer", "say", {})), "answer.text: Field required"),
    (plan(Step("answer", "say", {"text": "x", "loud": True})), "answer.loud: Extra inputs are not permitted"),
    (plan(Step("answer", "say", {"text": "x"}, "confirm")), "answer: 'confirm' names no earlier step"),
    (plan(Step("a b", "say", {"text": "x"})), "steps.0.id: String should match pattern"),
    (
        plan(SAY, estimate_s=10_000),
        "the plan needs 18000.0 s, 1.8 times its estimate of 10000.0 s, and the turn has 300.0 s left",
    ),
]


@pytest.mark.req("S5", "S8")
@pytest.mark.parametrize(("bad", "why"), BAD, ids=[why[:30] for _, why in BAD])
async def test_a_bad_plan_is_made_again_twice_then_the_turn_fails_and_says_why(tmp_path: Path, bad: Plan, why: str) -> None:
    async with open_hall(tmp_path, change=scripted(bad, bad, bad)) as hall:
        admission = await hall.say(TEMPERATURE)
        turn = await hall.turn(admission.turn_id)
        assert (admission.outcome, turn["state"]) == (Outcome.REFUSED, "failed")
        assert why in turn["failure"]
        told = await moves(hall, admission.turn_id)
        assert [event for event, _ in told] == ["heard", "plan_rejected", "plan_rejected", "plan_rejected", "failed"]
        assert all(why in reason for _, reason in told[1:])
        (said,) = await hall.said(admission.turn_id)
        assert said.startswith("I cannot do that. ") and said.endswith(".") and ".." not in said
        told_whole = "That would take 5 hours, and I have only 5 minutes left. Please ask for less at once."
        assert (told_whole if "18000" in why else "I could not make a sound plan for that. Please put it another way.") in said
        assert await hall.bench.rows("SELECT 1 FROM action") == []


@pytest.mark.req("S5")
async def test_the_third_plan_may_be_the_good_one(tmp_path: Path) -> None:
    bad = plan(Step("answer", "shout", {}))
    async with open_hall(tmp_path, change=scripted(bad, bad)) as hall:
        admission = await hall.say(TEMPERATURE)
        assert admission.outcome is Outcome.DONE
        assert await hall.said(admission.turn_id) == ["The temperature of motor 3 is 94 degrees Celsius."]
        told = [event for event, _ in await moves(hall, admission.turn_id)]
        assert told == ["heard", "plan_rejected", "plan_rejected", "planned", "finished"]


@pytest.mark.req("S5")
async def test_what_will_not_be_done_is_no_bad_plan(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        admission = await hall.say("set the fan speed of motor three to one hundred and fifty percent")
        assert [event for event, _ in await moves(hall, admission.turn_id)] == ["heard", "failed"]


class Unready(Toolbox):
    """A toolbox with tools that are not READY."""

    def __init__(self, whole: Toolbox, why: Mapping[str, str]) -> None:
        self.__dict__ |= whole.__dict__
        self._why = why

    def not_ready(self, names: Any) -> dict[str, str]:
        return {name: self._why[name] for name in names if name in self._why}


def unready(**why: str) -> Change:
    return lambda rooms: replace(rooms, toolbox=Unready(rooms.toolbox, why))


@pytest.mark.req("S8", "S5")
async def test_a_tool_that_is_not_ready_is_named_with_its_reason(tmp_path: Path) -> None:
    async with open_hall(tmp_path, change=unready(write_tag="the link to the PLC is down")) as hall:
        admission = await hall.say(SET_FAN)
        assert admission.outcome is Outcome.REFUSED
        assert await hall.said(admission.turn_id) == [
            "I cannot do that. I am not ready for writing to the machine: the link to the PLC is down."
        ]
        assert [event for event, _ in await moves(hall, admission.turn_id)].count("plan_rejected") == 3
        assert (await hall.say(TEMPERATURE)).outcome is Outcome.DONE  # what does not need it is done


@pytest.mark.req("S8")
async def test_a_step_that_may_fail_needs_no_tool_that_is_ready(tmp_path: Path) -> None:
    """An alarm is announced whatever is away: its playbook reads the machine if it can."""
    async with open_hall(tmp_path, change=unready(read_tags="away", read_plc_log="away", write_report="away")) as hall:
        alarm = await hall.alarm()
        assert (await hall.turn(alarm.turn_id))["state"] == "confirming"


@pytest.mark.req("S8", "S2")
async def test_all_three_guards_have_to_hold(tmp_path: Path) -> None:
    async with open_hall(tmp_path, session=SessionSettings(base_conversation_s=5.0, floor_s=1.0)) as hall:
        admission = await hall.say(TEMPERATURE)
        assert admission.outcome is Outcome.REFUSED
        (said,) = await hall.said(admission.turn_id)
        assert said.startswith("I cannot do that. That would take ") and "I have only 5 seconds left." in said


def test_what_is_filled_in_later_is_checked_later() -> None:
    contracts = {tool.name: tool for tool in _contracts()}
    check(plan(Step("read", "read_tags", {"keys": "{alarm.keys}"}), Step("a", "say", {"text": "{steps.read.value}"})), contracts)
    with pytest.raises(Malformed, match=r"read\.keys"):
        check(plan(Step("read", "read_tags", {"keys": "{{not a name}}"})), contracts)
    with pytest.raises(Malformed, match=r"steps: List should have at most"):
        check(plan(*(replace(SAY, id=f"s{n}") for n in range(MOST_STEPS + 1))), contracts)


def _contracts() -> Sequence[Any]:
    from appliance.execution.tools.read_tags import ReadTags
    from appliance.execution.tools.say import Say

    return [ReadTags.contract, Say.contract]


HELD = "I am on hold by ann and carry nothing out. The reason: cleaning."


# on hold -----------------------------------------------------------------------------------------------------------
@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        bench = hall.bench
        await bench.database.transaction(lambda tx: holds.begin(tx, bench.clock, HoldSource.PERSON, by="ann", reason="cleaning"))
        yield hall


@pytest.mark.req("R10")
async def test_on_hold_nobody_is_asked_for_what_would_be_refused(held: Hall) -> None:
    admission = await held.say(SET_FAN)
    assert admission.outcome is Outcome.REFUSED
    assert await held.said(admission.turn_id) == [f"I cannot do that. {HELD}"]
    assert await held.questions() == [] and held.bus.writes == []
    assert (await held.say(TEMPERATURE)).outcome is Outcome.DONE  # reading changes nothing


@pytest.mark.req("R10")
@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("en", "create a work order for motor three", f"I cannot do that. {HELD}"),
        ("zh", "把三号电机的风扇转速设为百分之八十", "我不能这样做。ann已让我暂停，我不执行任何操作。原因：cleaning。"),
        ("zh", "为三号电机创建工单", "我不能这样做。ann已让我暂停，我不执行任何操作。原因：cleaning。"),
    ],
)
async def test_every_refusal_of_a_plan_names_who_holds_and_why(held: Hall, language: str, text: str, said: str) -> None:
    admission = await held.say(text, language=language)
    assert (admission.outcome, await held.said(admission.turn_id)) == (Outcome.REFUSED, [said])


@pytest.mark.req("R10", "F7")
async def test_on_hold_an_alarm_is_told_and_nothing_of_it_is_executed(held: Hall) -> None:
    alarm = await held.alarm()
    assert alarm.outcome is Outcome.DONE
    said = await held.said(alarm.turn_id)
    assert said[0] == "Motor three over temperature. It is at 94 degrees Celsius."
    assert await held.bench.rows("SELECT 1 FROM effect") == []
    assert "write_report" not in {row["tool"] for row in await held.bench.rows("SELECT tool FROM action")}


def test_a_plan_without_what_is_held_keeps_what_does_not_need_it() -> None:
    steps = (
        SAY,
        Step("confirm", "ask", {"question": "shall I?"}),
        Step("write", "write_tag", {"key": "x", "value": 1}, "confirm"),
        Step("done", "say", {"text": "it is {steps.write.shown}"}, "confirm"),
        Step("no", "say", {"text": "nothing"}, "not confirm"),
        Step("after", "say", {"text": "it was {steps.write.shown}"}),
        Step("other", "ask", {"question": "more?"}),
        Step("yes", "say", {"text": "more"}, "other"),
    )
    kept = without_held(plan(*steps), {"write_tag"})
    assert [step.id for step in kept.steps] == ["answer", "other", "yes"]
    assert without_held(plan(*steps), {"shout"}).steps == steps


async def test_turns_are_listed_by_what_was_done_and_who_understood_it(tmp_path: Path) -> None:
    of_no_intent = replace(plan(SAY), intent="not_understood")
    async with open_hall(tmp_path, change=scripted(plan(SAY), of_no_intent)) as hall:
        for said in ("is motor three warm enough to fry an egg", "and a steak", "fry an egg"):
            await hall.say(said)
        newest, second, first = await views.turns(hall.bench.database, session_id=None, limit=10)
        assert (first["intent"], first["source"]) == ("read_tag", "model:test"), "what was done, and who understood it"
        assert (second["intent"], second["source"]) == (None, "model:test"), "a model understood it, as none of our sentences"
        assert (newest["intent"], newest["source"]) == ("not_understood", "phrase:not_understood")
