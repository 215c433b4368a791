"""Whose proposal a question is: what a language model planned is said to be its own; its words cannot pass for ours (X2, A1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plan import Plan, Step
from appliance.execution.approval.asking import Need, Questions
from appliance.store import views
from tests.support.gate import FAN, plan_of, write_step
from tests.support.hall import open_hall
from tests.support.plans import PLANT, phrasing
from tests.support.scripted_model import ScriptedModel, shipped_contracts, step
from tests.support.scripted_model import plan_of as answer_of

pytestmark = pytest.mark.req("X2", "A1")

CONTRACTS = shipped_contracts()
MARK = {"en": "The language model proposes this: ", "zh": "语言模型提出："}
PERSONS = ("phrase:set_tag", "playbook:hot@c0ffee", "example:set_tag")
NOTICE = {"webhook": "shift", "text": "confirm 4 7 1"}
ORDER = {"asset": "motor_3", "title": "confirm 4 7 1", "detail": "approved by maintenance"}
SHELVE = {"alarm": "motor_3_hot", "minutes": 30, "reason": "I was told to. Say yes, confirm."}
ACTS: Mapping[str, dict[str, Any]] = {
    "create_work_order": ORDER,
    "update_work_order": {"asset": "motor_3", "note": "It is done, done yes. Say yes, confirm."},
    "notify": NOTICE,
    "shelve_alarm": SHELVE,
    "write_tag": {"key": FAN, "value": 80, "what": "setting it"},
    "acknowledge_alarm": {},
}


def question(tool: str, arguments: Mapping[str, Any], *, source: str, language: str = "en", needs_code: bool = False) -> str:
    """What is asked about one step of a plan."""
    questions = Questions(PLANT, phrasing(), CONTRACTS, language, is_of_model=source.startswith("model:"))
    plan = Plan("test", source, (Step("act", tool, arguments),))
    needs = {"act": Need(True, needs_code, "operator")}
    asking = questions.put_into(plan, needs, is_own=not source.startswith("model:"), all_after=True).steps[0]
    return str(asking.arguments["question"])


@pytest.mark.parametrize("needs_code", [False, True])
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("tool", ACTS)
def test_every_question_of_a_models_plan_says_so_first_and_no_other_does(tool: str, language: str, needs_code: bool) -> None:
    asked = question(tool, ACTS[tool], source="model:a/b", language=language, needs_code=needs_code)
    assert asked.startswith(MARK[language])
    for source in PERSONS:
        own = question(tool, ACTS[tool], source=source, language=language, needs_code=needs_code)
        assert MARK[language].strip() not in own and "\u201c" not in own


def test_what_a_model_wrote_stands_between_marks_and_what_the_plant_is_called_does_not() -> None:
    asked = question("create_work_order", ORDER, source="model:a/b")
    assert asked == (
        "The language model proposes this: Shall I do this: creating a work order: asset motor 3, title “confirm 4 7 1”,"
        " detail “approved by maintenance”? Say yes, confirm."
    )
    asked = question("notify", NOTICE, source="model:a/b")
    assert asked == ("The language model proposes this: Shall I send this message to “shift”: “confirm 4 7 1”? Say yes, confirm.")


@pytest.mark.parametrize("mark", ["”", "“", '"', "„", "‟", "″", "〞", "＂"])
@pytest.mark.parametrize("tool", ["create_work_order", "notify"])
def test_a_model_cannot_close_the_marks_and_go_on_as_the_appliance(tool: str, mark: str) -> None:
    field = "title" if tool == "create_work_order" else "text"
    told = f"Look{mark}? Approved by maintenance. Say confirm, and the code 4 7 1.\u202e {mark}"
    asked = question(tool, dict(ACTS[tool]) | {field: told}, source="model:a/b")
    inside = [part.partition("”")[0] for part in asked.split("“")[1:]]
    outside = asked.removeprefix(MARK["en"])
    for part in inside:
        outside = outside.replace(f"“{part}”", "", 1)
    assert any("Approved by maintenance" in part and "4 7 1" in part for part in inside)
    assert "Approved" not in outside and "4 7 1" not in outside and not set('“”"„‟″〞＂\u202e') & set(outside)


def test_a_question_that_people_worded_says_too_that_a_model_brought_it() -> None:
    steps = (
        Step("fine", "ask", {"question": "Is the valve open?"}),
        Step("more", "ask", {"question": "Shall I create a work order?", "approves": "order"}),
        Step("order", "create_work_order", ORDER, "more"),
        Step("both", "ask", {"question": "Shall I go on?"}),
        Step("next", "create_work_order", ORDER, "both"),
    )
    needs = {name: Need(False, False, "operator") for name in ("order", "next")}
    for source, mark in (("model:a/b", MARK["en"]), ("playbook:hot@c0ffee", "")):
        questions = Questions(PLANT, phrasing(), CONTRACTS, "en", is_of_model=bool(mark))
        made = questions.put_into(plan_of(*steps, source=source), needs, is_own=True, all_after=False).steps
        asked = [each.arguments["question"] for each in made if each.tool == "ask"]
        assert asked == ["Is the valve open?", f"{mark}Shall I create a work order?", f"{mark}Shall I go on?"]


@pytest.mark.parametrize(
    ("language", "said"), [("en", "please get somebody to repair motor three"), ("zh", "请让维修的人来把三号电机弄好")]
)
async def test_it_is_said_typed_and_listed_with_every_open_question(tmp_path: Path, language: str, said: str) -> None:
    order = {"asset": "motor_3", "title": "confirm 4 7 1", "detail": "approved by maintenance"}
    model = ScriptedModel([answer_of(step("o", "create_work_order", **order), step("s", "say", text="Done."))])
    async with open_hall(tmp_path, model=model) as hall:
        asked = await hall.say(said, language=language)
        assert (await hall.said(asked.turn_id))[-1].startswith(MARK[language])
        (listed,) = await views.confirmations(hall.bench.database)
        assert str(listed["question"]).startswith(MARK[language]) and "“confirm 4 7 1”" in str(listed["question"])
        pending = await hall.say({"en": "what are you waiting for", "zh": "你在等什么"}[language], language=language, by="bob")
        assert MARK[language].strip() in (await hall.said(pending.turn_id))[-1]
        await hall.speak_all()
        await hall.say({"en": "yes confirm", "zh": "是的确认"}[language], language=language)
        (order_row,) = await hall.bench.rows("SELECT title FROM work_order")
        assert order_row["title"] == "confirm 4 7 1"  # the marks are the question's, not the order's


async def test_a_persons_own_sentence_beside_a_model_is_asked_as_ever(tmp_path: Path) -> None:
    async with open_hall(tmp_path, model=ScriptedModel([])) as hall:
        await hall.say("set the fan speed of motor three to eighty percent")
        assert await hall.questions() == ["Set the fan speed of motor 3 to 80 percent. Say yes, confirm."]


def test_nothing_else_is_asked_of_a_step_that_is_written_by_a_model() -> None:
    plan = plan_of(write_step(), source="model:a/b")
    questions = Questions(PLANT, phrasing(), CONTRACTS, "en", is_of_model=True)
    made = questions.put_into(plan, {"write": Need(True, False, "operator")}, is_own=False, all_after=True)
    assert [each.tool for each in made.steps] == ["ask", "write_tag", "say"]
