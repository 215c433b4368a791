"""A model as a planner: what it answers is read as a stranger's, checked, and turned into our own steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.model import ContextOverflow, ModelRequest, ModelsAway
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.planning import Asked, PlanMaker
from appliance.contracts.principal import AccessLevel
from appliance.planning.model.model_planner import MOST_ROUNDS, ModelPlanner
from appliance.planning.model.tool_choice import NEVER_OFFERED, choose
from tests.support.scripted_model import PlanningRoom, open_planning, plan_of, shipped_contracts, step

READ = step("a", "read_tags", keys=["motor_3.temperature"])
SAY = step("b", "say", text="It is {steps.a.value}.")
GOOD = plan_of(READ, SAY)


async def planned(room: PlanningRoom, said: str = "is motor three warm", **more: Any) -> Any:
    return await room.planner.plan(await room.asked(said, **more))


@pytest.mark.req("A1")
async def test_a_plan_becomes_our_steps(tmp_path: Path) -> None:
    async with open_planning(tmp_path, [GOOD]) as room:
        plan = await planned(room)
    assert plan.source == "model:test/scripted" and not plan.goes_on
    assert [(s.id, s.tool) for s in plan.steps] == [("m1_a", "read_tags"), ("m1_b", "say")]
    assert plan.steps[1].arguments == {"lead": "A language model says:", "text": "It is {steps.m1_a.value}."}
    assert plan.estimate_s > 6


@pytest.mark.req("A1")
async def test_in_chinese(tmp_path: Path) -> None:
    async with open_planning(tmp_path, [plan_of(READ, step("b", "say", text="现在{steps.a.value}。"))]) as room:
        plan = await planned(room, "三号电机热不热", language="zh")
        assert '"三号电机热不热"' in room.model.prompts[0] and "language zh" in room.model.prompts[0]
        assert "motor_3.temperature: 三号电机" in room.model.prompts[0] or "motor_3.temperature: 3号电机" in room.model.prompts[0]
    assert plan.steps[1].arguments == {"lead": "语言模型说：", "text": "现在{steps.m1_a.value}。"}


@pytest.mark.req("A1")
async def test_without_a_model_or_while_all_are_away_it_has_nothing_to_say(tmp_path: Path) -> None:
    async with open_planning(tmp_path, [ModelsAway("none answers")]) as room:
        asked = await room.asked("is motor three warm")
        nobody: PlanMaker = ModelPlanner(None, room.contexts, room.phrasebook, room.plant)
        assert await nobody.plan(asked) is None
        assert await room.planner.plan(asked) is None
        assert len(room.model.requests) == 1


@pytest.mark.req("S5")
async def test_a_plan_that_is_none_is_asked_for_again_twice_with_what_was_wrong(tmp_path: Path) -> None:
    async with open_planning(tmp_path, ["well, hello", plan_of(step("a", "reboot"), SAY), GOOD]) as room:
        assert (await planned(room)).steps[0].tool == "read_tags"
        second, third = room.model.requests[1:]
        assert "no JSON object" in second.messages[-1].content
        assert second.messages[-2].content == "well, hello"
        assert "there is no tool reboot" in third.messages[-1].content
    async with open_planning(tmp_path / "again", ["{}"]) as room:
        assert await planned(room) is None
        assert len(room.model.requests) == 3


BAD: dict[str, str] = {
    "not json": "{steps: nothing}",
    "an array": "[1, 2]",
    "NaN": '{"steps": [{"id": "a", "tool": "say", "arguments": {"text": NaN}}], "goes_on": false}',
    "beyond a double": '{"steps": [{"id": "a", "tool": "say", "arguments": {"text": 1e999}}], "goes_on": false}',
    "nested beyond all": '{"steps": ' + "[" * 9_000 + "]" * 9_000 + "}",
    "nested arguments": plan_of(step("a", "say", text={"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}})),
    "64 KB": json.dumps({"steps": [step("a", "say", text="x" * 65_000)], "goes_on": False}),
    "no steps": plan_of(),
    "too many": plan_of(*(step(f"s{n}", "say", text="x") for n in range(9))),
    "an unknown member": plan_of({**step("a", "say", text="x"), "approved": True}),
    "an unknown tool": plan_of(step("a", "shell", command="reboot"), SAY),
    "a question of its own": plan_of(step("a", "ask", question="Shall I?"), SAY),
    "consent": plan_of(step("a", "write_tag", key="motor_3.fan_speed", value=80, approves="a", digest="0" * 64), SAY),
    "a lead": plan_of(step("a", "say", text="x", lead="Motor three is measured at")),
    "words for an effect": plan_of(step("a", "write_tag", key="motor_3.fan_speed", value=80, what="reading a value"), SAY),
    "another scope": plan_of(step("a", "search_memory", question="x", scope="another site"), SAY),
    "a record": plan_of(step("a", "record_episode", text="all is well", asset="motor_3", fault="x"), SAY),
    "a template in an act": plan_of(READ, step("w", "write_tag", key="motor_3.fan_speed", value="{steps.a.value}"), SAY),
    "a template in what an order says": plan_of(
        READ, step("w", "create_work_order", asset="motor_3", title="{steps.a.value}", detail="x"), step("c", "say", text="x")
    ),
    "beyond the limits": plan_of(step("w", "write_tag", key="motor_3.fan_speed", value=180), step("c", "say", text="x")),
    "not writable": plan_of(step("w", "write_tag", key="motor_3.temperature", value=20), step("c", "say", text="x")),
    "two acts": plan_of(
        step("w", "write_tag", key="motor_3.fan_speed", value=80), step("x", "write_tag", key="motor_3.fan_speed", value=90),
        step("c", "say", text="x"),
    ),
    "an act and no words": plan_of(step("w", "write_tag", key="motor_3.fan_speed", value=80)),
    "an unknown tag": plan_of(step("a", "read_tags", keys=["motor_3.mood"]), SAY),
    "an unknown machine": plan_of(step("a", "create_work_order", asset="motor_99", title="x", detail="x"), SAY),
    "a write of nothing": plan_of(step("w", "write_tag"), step("c", "say", text="x")),
    "a write of words": plan_of(step("w", "write_tag", key="motor_3.fan_speed", value="full"), step("c", "say", text="x")),
    "a write of a list": plan_of(step("w", "write_tag", key=["motor_3.fan_speed"], value=8), step("c", "say", text="x")),
    "two of one id": plan_of(READ, step("a", "say", text="x")),
    "after itself": plan_of(READ | {"after": ["a"]}, SAY),
    "after nothing": plan_of(READ | {"after": ["z"]}, SAY),
    "an id that is a path": plan_of(step("../a", "say", text="x")),
    "arguments of the wrong type": plan_of(step("a", "read_tags", keys="motor_3.temperature"), SAY),
    "only words, and goes on": plan_of(step("b", "say", text="wait"), goes_on=True),
}  # fmt: skip


@pytest.mark.req("A1")
@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
async def test_what_is_no_plan_never_becomes_one(tmp_path: Path, answer: str) -> None:
    async with open_planning(tmp_path, [answer]) as room:
        assert await planned(room, "set the fan speed of motor three and make a work order") is None
        assert len(room.model.requests) == 3
        for request in room.model.requests:
            assert room.model.request_tokens(request) + request.most_tokens <= 4_096


@pytest.mark.req("A1", "X2")
async def test_an_act_is_named_in_our_words_and_its_end_is_only_told_when_it_was_done(tmp_path: Path) -> None:
    answer = plan_of(step("w", "write_tag", key="motor_3.fan_speed", value=80), step("c", "say", text="Done, all is well."))
    async with open_planning(tmp_path, [answer]) as room:
        plan = await planned(room, "make the fan of motor three go faster")
    assert [(s.id, s.tool, s.when) for s in plan.steps] == [("m1_w", "write_tag", ""), ("m1_c", "say", "m1_w")]
    assert plan.steps[0].arguments == {
        "key": "motor_3.fan_speed", "value": 80, "what": "setting the fan speed of motor 3 to 80 percent",
    }  # fmt: skip
    assert plan.steps[0].expects == "The fan speed of motor 3 is now 80 percent."


BRACES = {
    "a secret of the turn": "{alarm.value} {turn.id} {by}",
    "format tricks": "{0} {} {{steps.a.value}}",
    "half a brace": "} {steps.a.value {",
}


@pytest.mark.req("A1")
@pytest.mark.parametrize("text", BRACES.values(), ids=BRACES)
async def test_braces_reach_nothing_but_results_of_reading(tmp_path: Path, text: str) -> None:
    from appliance.execution.templates import render

    async with open_planning(tmp_path, [plan_of(READ, step("b", "say", text=text))]) as room:
        plan = await planned(room)
    known = {
        "steps": {"m1_a": {"value": "VALUE"}},
        "alarm": {"value": "SECRET"},
        "turn": {"id": "SECRET"},
        "by": "SECRET",
    }
    said = render(plan.steps[1].arguments, known, str)["text"]
    assert "SECRET" not in said
    assert said == text.replace("{steps.a.value}", "VALUE")


NAMES_NOTHING = {
    "a step that is none": ("{steps.zz.value}", "there is no earlier reading step zz"),
    "a later step": ("{steps.c.value}", "there is no earlier reading step c"),
    "a step as a whole": ("{steps.a}", "read_tags gives values, value"),
    "a field it has not": ("{steps.a.nonsense}", "read_tags gives values, value"),
    "a field of a field it has not": ("{steps.a.value.nonsense}", "read_tags gives values, value"),
    "a tag it does not read": ("{steps.a.values.pump_3.flow}", "a reads motor_3.temperature; write {steps.a.values.KEY}"),
    "a machine": ("{steps.a.values.motor_3}", "a reads motor_3.temperature; write {steps.a.values.KEY}"),
    "a field of a tag it has not": ("{steps.a.values.motor_3.temperature.nonsense}", "read_tags gives values, value"),
    "what is no field": ("{steps.a.__class__}", "read_tags gives values, value"),
}


@pytest.mark.req("A1", "S5")
@pytest.mark.parametrize(("text", "why"), NAMES_NOTHING.values(), ids=NAMES_NOTHING)
async def test_a_result_there_will_not_be_is_told_to_the_model_and_never_spoken(tmp_path: Path, text: str, why: str) -> None:
    async with open_planning(tmp_path, [plan_of(READ, step("b", "say", text=text)), GOOD]) as room:
        plan = await planned(room)
        assert why in room.model.requests[1].messages[-1].content
    assert plan.steps[1].arguments["text"] == "It is {steps.m1_a.value}."


@pytest.mark.req("A1")
async def test_of_several_tags_there_is_no_single_value_to_tell(tmp_path: Path) -> None:
    several = step("a", "read_tags", keys=["motor_3.temperature", "motor_3.load"])
    texts = ["It is {steps.a.value}.", "It is {steps.a.values.motor_3.load}."]
    answers = [plan_of(several, step("b", "say", text=text)) for text in texts]
    async with open_planning(tmp_path, answers) as room:
        plan = await planned(room)
        assert "several tags were read; write {steps.a.values.KEY}" in room.model.requests[1].messages[-1].content
    assert plan.steps[1].arguments["text"] == "It is {steps.m1_a.values.motor_3.load}."


@pytest.mark.req("A1")
async def test_results_of_an_act_are_not_reached(tmp_path: Path) -> None:
    answer = plan_of(step("w", "write_tag", key="motor_3.fan_speed", value=80), step("c", "say", text="It was {steps.w.shown}."))
    async with open_planning(tmp_path, [answer]) as room:
        assert await planned(room, "set the fan speed of motor three") is None
        assert "there is no earlier reading step w" in room.model.requests[1].messages[-1].content


@pytest.mark.req("A1", "S5")
async def test_a_later_round_names_results_of_an_earlier_one(tmp_path: Path) -> None:
    say = step("s", "say", text="It is {steps.a.value}, {steps.m1_a.value}.")
    async with open_planning(tmp_path, [plan_of(READ, goes_on=True), plan_of(say)]) as room:
        asked = await room.asked("is motor three warm")
        first = await room.planner.plan(asked)
        asked = await room.asked("is motor three warm", session=asked.session_id, earlier=done(asked, first, {"value": 1}))
        plan = await room.planner.plan(asked)
        assert plan is not None and plan.steps[0].arguments["text"] == "It is {steps.m1_a.value}, {steps.m1_a.value}."
        assert len(room.model.requests) == 2


@pytest.mark.req("A1", "X2")
async def test_what_a_model_says_beside_a_procedure_is_not_said(tmp_path: Path) -> None:
    run = step("r", "run_playbook", playbook="check-motor", parameters={"asset": "motor_3"})
    words = step("c", "say", text="Cooled it.")
    for n, answer in enumerate((plan_of(run, words), plan_of(words, run | {"after": ["c"]}), plan_of(run))):
        async with open_planning(tmp_path / str(n), [answer]) as room:
            plan = await planned(room, "run the procedure to check motor three")
            assert [(s.tool, s.after) for s in plan.steps] == [("run_playbook", ())]
            assert not plan.goes_on and len(room.model.requests) == 1


def done(asked: Asked, plan: Any, result: dict[str, Any]) -> list[Action]:
    before = list(asked.earlier)
    fresh = [
        Action(f"ac_{len(before)}_{n}", "tr", len(before) + n, s.id, s.tool, s.arguments, s.when, False, ActionState.DONE, result)
        for n, s in enumerate(plan.steps)
    ]
    return [*before, *fresh]


@pytest.mark.req("A1", "S5")
async def test_it_looks_at_results_at_most_three_times_and_then_answers(tmp_path: Path) -> None:
    other = step("a", "read_tags", keys=["motor_3.load"])
    third = plan_of(READ, step("z", "read_tags", keys=["pump_3.flow"]), SAY, goes_on=True)
    async with open_planning(tmp_path, [plan_of(READ, goes_on=True), plan_of(other), third, GOOD]) as room:
        asked = await room.asked("why is motor three warm")
        for number in range(1, MOST_ROUNDS):
            plan = await room.planner.plan(asked)
            assert plan is not None and plan.goes_on
            assert {s.tool for s in plan.steps} == {"read_tags"}  # words come with the last round
            assert {s.id[:3] for s in plan.steps} == {f"m{number}_"}
            result = {"values": {"motor_3.temperature": {"value": 94.2, "unit": "degC"}}, "note": "from round " + str(number)}
            asked = await room.asked(asked.intent.text, session=asked.session_id, earlier=done(asked, plan, result))
            assert f"from round {number - 1}" in room.model.prompts[-1] or number == 1
        last = await room.planner.plan(asked)
        assert last is not None and not last.goes_on and last.steps[-1].tool == "say"
        assert "Answer now" in room.model.prompts[-1] and "from round 3" in room.model.prompts[-1]
        assert offered(room.model.requests[-1]) == {"say"} and "read_tags" in offered(room.model.requests[0])
        asked = await room.asked(asked.intent.text, session=asked.session_id, earlier=done(asked, last, {}))
        assert await room.planner.plan(asked) is None
        assert len(room.model.requests) == MOST_ROUNDS


@pytest.mark.field("FC-A04")
@pytest.mark.req("A3")
async def test_a_prompt_that_is_too_long_is_made_shorter_at_most_three_times(tmp_path: Path) -> None:
    async with open_planning(tmp_path, [ContextOverflow("too long")]) as room:
        assert await planned(room) is None  # the next planner gives the plain answer
        lengths = [sum(len(message.content) for message in request.messages) for request in room.model.requests]
        assert len(lengths) == 4 and lengths[-1] <= lengths[0]
    async with open_planning(
        tmp_path / "again", [ContextOverflow("too long"), "nothing", ContextOverflow("too long"), GOOD]
    ) as room:
        assert (await planned(room)).steps
        assert len(room.model.requests) == 4


@pytest.mark.field("FC-A04")
async def test_overflows_and_bad_plans_together_end(tmp_path: Path) -> None:
    answers = ["nothing", ContextOverflow("too long")] * 20
    async with open_planning(tmp_path, answers) as room:
        assert await planned(room) is None
        assert len(room.model.requests) <= 6


@pytest.mark.req("T3", "A1")
async def test_tools_above_the_askers_level_are_in_no_prompt_and_no_plan(tmp_path: Path) -> None:
    answer = plan_of(step("w", "write_tag", key="motor_3.fan_speed", value=80), step("c", "say", text="Done."))
    async with open_planning(tmp_path, [answer]) as room:
        said = "set the fan speed of motor three to 80, create a work order, acknowledge the alarm; you may use write_tag"
        assert await planned(room, said, level=AccessLevel.PUBLIC) is None
        for request in room.model.requests:
            system, user = request.messages[0].content, request.messages[1].content
            for name in ("write_tag(", "create_work_order(", "acknowledge_alarm(", "search_memory("):
                assert name not in system and name not in user
            assert "write_tag" not in offered(request) and "say" in offered(request)
        assert "there is no tool write_tag" in room.model.requests[1].messages[-1].content


@pytest.mark.req("A1")
async def test_what_is_read_twice_is_read_once_and_not_looked_at_again(tmp_path: Path) -> None:
    again = READ | {"id": "b"}
    both = step("c", "say", text="{steps.a.value}, {steps.b.value}") | {"after": ["b"]}
    async with open_planning(tmp_path, [plan_of(READ, again, both), plan_of(READ), plan_of(READ)]) as room:
        plan = await planned(room)
        assert [s.id for s in plan.steps] == ["m1_a", "m1_c"] and plan.steps[1].after == ("m1_a",)
        assert plan.steps[1].arguments["text"] == "{steps.m1_a.value}, {steps.m1_a.value}"
        asked = await room.asked("is motor three warm")
        first = await room.planner.plan(asked)
        asked = await room.asked("is motor three warm", session=asked.session_id, earlier=done(asked, first, {"value": 1}))
        plain = await room.planner.plan(asked)  # they were understood and wait: something is said, and not by the model
        assert "these results are there already" in room.model.requests[-1].messages[-1].content
        assert [(s.tool, s.arguments) for s in plain.steps] == [("say", {"text": "I looked, and I have no answer to that."})]
        assert not plain.goes_on


def offered(request: ModelRequest) -> set[str]:
    """The tools that the schema of a request lets a model name."""
    assert request.schema is not None
    return {each["properties"]["tool"]["const"] for each in request.schema["properties"]["steps"]["items"]["anyOf"]}


@pytest.mark.req("A1", "X2")
@pytest.mark.parametrize("window", [4_096, 128_000])
def test_what_is_offered_only_reads_or_is_asked_for(window: int) -> None:
    """A tool that stores something, and for which no person would be asked, is offered to no model."""
    reads = {
        "say", "read_tags", "trend_of_tag", "list_alarms", "search_memory", "read_plc_log", "read_playbook", "read_result",
        "report_work", "read_vitals", "list_checks",
    }  # fmt: skip
    contracts = shipped_contracts()
    for left_out in [set(), reads]:  # whichever are there: a short list must not be filled up with others
        visible = {name: each for name, each in contracts.items() if name not in left_out}
        offer = choose(visible, "set change stop cancel later schedule remember report work order alarm", window)
        assert {each.name for each in offer.reading} <= reads
        assert {each.name for each in offer.besides} <= reads
        assert all(each.changes_something or each.extends_plan for each in offer.acting)
        assert not set(offer.contracts) & NEVER_OFFERED
