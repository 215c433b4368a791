"""Plans for utterances and alarms: what is done in which order, what is refused with which sentence."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plan import Intent, Plan
from appliance.execution.templates import render
from appliance.planning.answers import _ANSWERS
from appliance.planning.intents import INTENTS
from appliance.planning.planner import Planner
from appliance.planning.playbooks.playbook_steps import RESULTS
from appliance.planning.playbooks.playbooks import Playbooks
from tests.support.planning import shipped_phrasebook, shipped_plant, shipped_playbooks
from tests.support.tool_contracts import CONTRACTS

TOOLS = CONTRACTS
BOUNDS_S = {name: contract.sla.max_execution_time_ms / 1000 for name, contract in TOOLS.items()}
HOT = {
    "source": "gateway", "alarm_id": "motor_3_over_temperature", "activation": "7", "activation_id": "gateway:M3:7",
    "change": "raised", "value": 94.2, "unit": "degC", "source_utc": "2026-03-02T08:00:00+00:00", "source_mono_ns": None,
}  # fmt: skip
LOW = HOT | {"alarm_id": "pump_3_low_pressure", "activation_id": "gateway:P3:1", "value": 1.24, "unit": "bar"}
JAM = HOT | {"alarm_id": "conveyor_3_overcurrent", "activation_id": "gateway:C3:1", "value": 9.0, "unit": "A"}


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(shipped_phrasebook(), shipped_playbooks(), shipped_plant(), BOUNDS_S)


def plan_of(planner: Planner, said: str, language: str = "en", **context: Any) -> Plan:
    intent = shipped_phrasebook().understand(said, language)
    assert intent is not None
    return planner.plan(intent, {"online": True} | context)


def told(plan: Plan) -> list[str]:
    """One readable line a step; what questions approve is asserted by itself."""
    lines = []
    for step in plan.steps:
        condition = f" if {step.when}" if step.when else ""
        optional = "?" if step.optional else ""
        rest = {k: v for k, v in step.arguments.items() if k not in ("facts", "scope", "confidence", "approves")}
        lines.append(f"{step.id}: {step.tool}{optional}{condition} {json.dumps(rest, ensure_ascii=False)}")
    return lines


# utterances ------------------------------------------------------------------------------------------------------------
@pytest.mark.req("A1", "V4")
def test_a_value_is_read_and_said(planner: Planner) -> None:
    plan = plan_of(planner, "what is the temperature of motor three")
    assert (plan.intent, plan.source, plan.estimate_s) == ("read_tag", "phrase:read_tag", BOUNDS_S["read_tags"] + BOUNDS_S["say"])
    assert told(plan) == [
        'read: read_tags {"keys": ["motor_3.temperature"]}',
        'answer: say {"text": "The temperature of motor 3 is {steps.read.value}."}',
    ]


@pytest.mark.req("V3", "V4")
def test_a_write_is_read_back_confirmed_by_keyword_written_and_said(planner: Planner) -> None:
    assert told(plan_of(planner, "set the fan speed of motor three to eighty percent")) == [
        'confirm: ask {"question": "Set the fan speed of motor 3 to 80 percent. Say yes, confirm.", "requires_keyword": true}',
        'write: write_tag if confirm {"key": "motor_3.fan_speed", "value": 80, '
        '"what": "setting the fan speed of motor 3 to 80 percent"}',
        'done: say if confirm {"text": "The fan speed of motor 3 is now {steps.write.shown}."}',
        'cancelled: say if not confirm {"text": "Cancelled. Nothing was changed."}',
    ]
    assert told(plan_of(planner, "把三号电机的风扇转速设为百分之八十", "zh"))[0] == (
        'confirm: ask {"question": "将3号电机的风扇转速设为百分之80。请说：是的，确认。", "requires_keyword": true}'
    )


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("set the fan speed of motor three to maximum", 100),
        ("set the fan speed of motor three to full speed", 100),
        ("set the fan speed of motor three to minimum", 0),
        ("set the belt speed of conveyor three to maximum", 2),
        ("set the belt speed of conveyor three to one point five", 1.5),
    ],
)
def test_the_value_written_is_the_one_said_or_the_limit(planner: Planner, said: str, value: float) -> None:
    write = plan_of(planner, said).steps[1]
    assert (write.tool, write.arguments["value"]) == ("write_tag", value)


@pytest.mark.parametrize(
    ("said", "language", "why"),
    [
        (
            "set the fan speed of motor three to one hundred and fifty percent",
            "en",
            "Fan speed can be set from 0 to 100 percent.",
        ),
        ("set the fan speed of motor three to minus ten", "en", "Fan speed can be set from 0 to 100 percent."),
        ("set the belt speed of conveyor three to three", "en", "Belt speed can be set from 0.0 to 2.0 metres per second."),
        ("set the fan speed of motor three to ten degrees", "en", "Fan speed is set in percent."),
        ("set the fan speed of motor three to eighty point five", "en", "Fan speed is set in steps of 1 percent."),
        ("set the temperature of motor three to ten degrees", "en", "The temperature of motor 3 cannot be set."),
        ("set the temperature of motor three to maximum", "en", "The temperature of motor 3 cannot be set."),
        ("what is the temperature of pump three", "en", "Pump 3 has no temperature."),
        ("set the pressure of motor three to ten bar", "en", "Motor 3 has no pressure."),
        ("把三号电机的风扇转速设为百分之一百五十", "zh", "风扇转速可以设置的范围是0到百分之100。"),
        ("三号泵的温度是多少", "zh", "3号泵没有温度。"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(planner: Planner, said: str, language: str, why: str) -> None:
    with pytest.raises(Refused) as caught:
        plan_of(planner, said, language)
    assert caught.value.message == why


@pytest.mark.parametrize("slots", [{}, {"asset": "motor_3"}, {"tag": "gone.away"}])
def test_slots_of_an_older_plant_are_refused_and_do_not_crash(planner: Planner, slots: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        planner.plan(Intent("read_tag", "en", "x", slots), {})


def test_the_other_answers(planner: Planner) -> None:
    assert told(plan_of(planner, "what alarms are there")) == [
        "alarms: list_alarms {}",
        'answer: say {"text": "{steps.alarms.sentence}"}',
    ]
    assert told(plan_of(planner, "acknowledge the alarm")) == [
        'acknowledge: acknowledge_alarm {"only_last": true}',
        'answer: say {"text": "{steps.acknowledge.sentence}"}',
    ]
    assert told(plan_of(planner, "acknowledge all alarms"))[0] == "acknowledge: acknowledge_alarm {}"
    assert told(plan_of(planner, "确认全部报警", "zh"))[0] == "acknowledge: acknowledge_alarm {}"
    assert told(plan_of(planner, "create a work order for motor three")) == [
        'confirm: ask {"question": "Shall I create a work order for motor 3?", "requires_keyword": false}',
        'order: create_work_order if confirm {"asset": "motor_3", "title": "Check motor 3", '
        '"detail": "Asked for by voice at motor 3."}',
        'done: say if confirm {"text": "The work order is created."}',
        'cancelled: say if not confirm {"text": "No work order."}',
    ]
    assert "The coordinator gets it" in told(plan_of(planner, "create a work order for motor three", online=False))[2]
    assert told(plan_of(planner, "is pump three running"))[1] == 'answer: say {"text": "Pump 3, running: {steps.read.value}."}'
    assert "connected" in told(plan_of(planner, "system status"))[1]
    assert "without the coordinator" in told(plan_of(planner, "system status", online=False))[1]


@pytest.mark.req("V4")
def test_repeat_and_pending_say_what_was_said_and_asked(planner: Planner) -> None:
    assert told(plan_of(planner, "say that again", last_said="It is {94}.")) == ['answer: say {"text": "It is {{94}}."}']
    assert told(plan_of(planner, "say that again")) == ['answer: say {"text": "I have not said anything yet."}']
    assert told(plan_of(planner, "what are you waiting for", pending=["Shall I?", "Set it?"])) == [
        'answer: say {"text": "I am waiting for an answer: Shall I? Set it?"}'
    ]
    assert told(plan_of(planner, "what are you waiting for")) == ['answer: say {"text": "I have not asked anything."}']


@pytest.mark.parametrize("name", ["not_understood", "nothing_pending", "asked_too_long_ago", "needs_keyword", "help"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_the_conductor_asks_for_is_one_sentence(planner: Planner, name: str, language: str) -> None:
    (step,) = planner.plan(Intent(name, language, "x"), {}).steps
    assert step.arguments == {"text": shipped_phrasebook().replies(language)[name]}


@pytest.mark.req("V4")
@pytest.mark.field("FC-R11")
@pytest.mark.parametrize(
    ("language", "asset", "ends"),
    [
        ("en", "", "I am waiting for an answer to this: Shall I {{x}}?"),
        ("en", "motor_3", "Shall I {{x}}? Name the machine with your answer, for example: yes for motor 3."),
        ("zh", "motor_3", "我在等待回答：Shall I {{x}}? 请在回答时说出设备名称，例如：是的，3号电机。"),
    ],
)
def test_an_answer_to_nothing_asked_just_now_is_told_what_waits(planner: Planner, language: str, asset: str, ends: str) -> None:
    (step,) = planner.plan(Intent("which_one", language, "yes", {"questions": "Shall I {x}?", "asset": asset}), {}).steps
    assert step.arguments["text"].endswith(ends)


def test_every_intent_of_the_phrases_has_a_plan_and_an_unknown_one_is_malformed(planner: Planner) -> None:
    assert set(INTENTS) - {"run_playbook"} <= set(_ANSWERS)  # its plan is the playbook's
    with pytest.raises(Malformed):
        planner.plan(Intent("dance", "en", "dance"), {})


# alarms ----------------------------------------------------------------------------------------------------------------
OVER_TEMPERATURE = """\
announce: say {"lead": "Motor three over temperature.", "text": "It is at 94 degrees Celsius."}
log: read_plc_log? {"newest": 8}
state: read_tags? {"keys": ["motor_3.temperature", "motor_3.load", "motor_3.vibration", "motor_3.fan_speed"]}
remember: record_episode? {"text": "Motor three over temperature at 94 degrees Celsius.", "asset": "motor_3", \
"fault": "over_temperature"}
cases: search_memory? {"question": "Motor three over temperature: cause and remedy", "limit": 3, "asset": "motor_3", \
"fault": "over_temperature"}
advise_case: say if cases {"text": "{steps.cases.summary} Check the fan and its filter first."}
advise_own: say if not cases {"text": "Check the fan and its filter first. The housing is hot."}
confirm: ask {"question": "Shall I create a work order for motor 3?", "requires_keyword": false}
order: create_work_order if confirm {"asset": "motor_3", "title": "Motor 3: over-temperature", \
"detail": "Motor three over temperature at 94 degrees Celsius. Check fan, filter and load."}
done: say if confirm {"text": "The work order is created."}
closed: say if not confirm {"text": "No work order."}
report: write_report? {"asset": "motor_3", "title": "Motor 3: over-temperature", "lines": [\
"2026-03-02T08:00:00+00:00: Motor three over temperature at 94 degrees Celsius", "controller: {steps.log.summary}", \
"machine: temperature {steps.state.values.motor_3.temperature}, load {steps.state.values.motor_3.load}, \
fan speed {steps.state.values.motor_3.fan_speed}, vibration {steps.state.values.motor_3.vibration}", \
"memory: {steps.cases.summary}", "work order wanted: {steps.confirm.confirmed}"]}
report_short: write_report? if not report {"asset": "motor_3", "title": "Motor 3: over-temperature", "lines": [\
"2026-03-02T08:00:00+00:00: Motor three over temperature at 94 degrees Celsius", \
"work order wanted: {steps.confirm.confirmed}"]}"""


@pytest.mark.req("P4", "A1", "V5")
def test_the_plan_of_an_over_temperature_alarm(planner: Planner) -> None:
    plan = planner.plan_alarm(HOT, "en")
    assert plan.source == "playbook:over-temperature@c0ffee"
    assert "\n".join(told(plan)) == OVER_TEMPERATURE
    longest = [s.tool for s in plan.steps if s.id not in ("advise_own", "closed")]
    assert plan.estimate_s == pytest.approx(sum(BOUNDS_S[tool] for tool in longest))
    remember = next(step for step in plan.steps if step.id == "remember")
    assert remember.arguments["scope"] == "works"
    assert remember.arguments["facts"] == {
        "alarm": "motor_3_over_temperature", "activation": "gateway:M3:7", "value": 94.2, "unit": "degC",
    }  # fmt: skip


@pytest.mark.req("P4", "V6")
@pytest.mark.parametrize(
    ("alarm", "language", "spoken"),
    [
        (LOW, "en", ["Pump three low pressure. It is at 1.2 bar.",
                     "Look for a leak at the seals first. Then check the suction strainer."]),
        (JAM, "en", ["Conveyor three overcurrent. It is at 9.0 amps.",
                     "Look for a jam on the belt first. Keep your hands off while it can start."]),
        (HOT, "zh", ["三号电机温度过高。当前值为94摄氏度。", "请先检查风扇和滤网。外壳很烫，请小心。"]),
        (LOW, "zh", ["三号泵压力过低。当前值为1.2巴。", "请先检查密封处是否泄漏，再检查吸入口滤网。"]),
        (JAM, "zh", ["三号输送带电流过大。当前值为9.0安。", "请先检查输送带是否卡住。可能启动时请勿伸手。"]),
    ],
)  # fmt: skip
def test_what_each_alarm_says_first_and_advises(
    planner: Planner, alarm: dict[str, Any], language: str, spoken: list[str]
) -> None:
    steps = {step.id: step for step in planner.plan_alarm(alarm, language).steps}
    announce = steps["announce"].arguments
    joint = " " if language == "en" else ""
    assert [announce["lead"] + joint + announce["text"], steps["advise_own"].arguments["text"]] == spoken
    assert list(steps) == [
        *("announce", "log", "state", "remember", "cases", "advise_case", "advise_own"),
        *("confirm", "order", "done", "closed", "report", "report_short"),
    ]


@pytest.mark.req("V5")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_alarms_first_words_and_its_fixed_sentences_are_among_the_leads(planner: Planner, language: str) -> None:
    leads = planner.leads(language)
    assert len(leads) == len(set(leads))
    assert not [lead for lead in leads if "{" in lead]
    for alarm in (HOT, LOW, JAM):
        for step in planner.plan_alarm(alarm, language).steps:
            said = [step.arguments[k] for k in ("lead", "question") if step.tool in ("say", "ask") and k in step.arguments]
            assert set(said) <= set(leads)
    assert planner.plan_alarm(HOT | {"change": "cleared"}, language).steps[0].arguments["text"] in leads
    assert leads[0] == planner.plan_alarm(HOT, language).steps[0].arguments["lead"]


def test_a_cleared_alarm_is_said_and_remembered(planner: Planner) -> None:
    plan = planner.plan_alarm(HOT | {"change": "cleared", "value": 70.0}, "en")
    assert told(plan) == [
        'announce: say {"text": "Back to normal: Motor three over temperature."}',
        'remember: record_episode? {"text": "Back to normal: Motor three over temperature.", "asset": "motor_3", '
        '"fault": "over_temperature"}',
    ]


def test_an_end_without_a_beginning_is_not_called_a_return(planner: Planner) -> None:
    gone = planner.plan_alarm(HOT | {"change": "cleared", "came_and_went": True}, "en").steps[0]
    assert gone.arguments == {"text": "It came and went: Motor three over temperature."}


def test_an_alarm_without_value_is_announced(planner: Planner) -> None:
    announce = planner.plan_alarm(HOT | {"value": None}, "en").steps[0]
    assert announce.arguments == {"lead": "Motor three over temperature.", "text": "It is at an unknown value."}


@pytest.mark.req("A1")
def test_an_alarm_without_a_playbook_still_gets_a_plan() -> None:
    planner = Planner(shipped_phrasebook(), Playbooks({}, "none"), shipped_plant())
    plan = planner.plan_alarm(HOT, "en")
    assert (plan.source, plan.estimate_s) == ("phrase:alarm_raised", 0.0)
    assert [step.id for step in plan.steps] == ["announce", "remember", "confirm", "order", "done", "closed"]
    assert plan.steps[0].arguments == {"lead": "Motor three over temperature.", "text": "It is at 94 degrees Celsius."}


def test_a_text_with_the_value_inside_is_not_taken_for_ready(planner: Planner) -> None:
    content = shipped_plant().model_dump(mode="json")
    content["alarms"][0]["text"]["en"] = "Motor three at {value}"
    changed = Planner(shipped_phrasebook(), shipped_playbooks(), type(shipped_plant()).model_validate(content))
    assert changed.plan_alarm(HOT, "en").steps[0].arguments == {
        "text": "Motor three at 94 degrees Celsius. It is at 94 degrees Celsius."
    }
    assert not [lead for lead in changed.leads("en") if "Motor three" in lead]


def test_an_unknown_alarm_is_malformed(planner: Planner) -> None:
    with pytest.raises(Malformed, match="no alarm 'x'"):
        planner.plan_alarm(HOT | {"alarm_id": "x"}, "en")


# together with execution -----------------------------------------------------------------------------------------------
RESULTS_OF: dict[str, Any] = {
    "read_plc_log": {"entries": [], "count": 0, "summary": "The controller log is empty."},
    "search_memory": {"found": [], "count": 0, "best": "", "cites": [], "summary": "I know no similar case.", "degraded": ""},
    "ask": {"confirmed": True, "confirmation": "cf_1"},
    "create_work_order": {"id": "wo_1", "asset": "a", "title": "t"},
    "write_tag": {"key": "k", "wanted": 80, "shown": {"value": 80}},
    "list_alarms": {"count": 0, "sentence": "There is no alarm.", "alarms": []},
    "acknowledge_alarm": {"count": 1, "sentence": "Acknowledged: motor 3 too hot.", "activations": [], "by": "voice"},
}


SENTENCES = {
    "en": [
        "set the fan speed of motor three to eighty",
        "create a work order for motor three",
        "what alarms are there",
        "acknowledge the alarm",
        "what is the load of motor three",
        "system status",
        "help",
    ],
    "zh": [
        "把三号电机的风扇转速设为八十",
        "给三号电机创建工单",
        "有哪些报警",
        "确认报警",
        "三号电机的负载是多少",
        "系统状态",
        "帮助",
    ],
}


@pytest.mark.req("T1")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_step_fits_its_tools_contract_once_its_templates_are_filled(planner: Planner, language: str) -> None:
    plans = [plan_of(planner, said, language) for said in SENTENCES[language]]
    for alarm in (HOT, LOW, JAM):
        plans += [planner.plan_alarm(alarm | {"change": change}, language) for change in ("raised", "cleared")]
    for plan in plans:
        results: dict[str, Any] = {}
        for step in plan.steps:
            filled = render(step.arguments, {"steps": results}, str)
            TOOLS[step.tool].schema.arguments.model_validate(filled)
            results[step.id] = RESULTS_OF.get(step.tool, {})
            if step.tool == "read_tags":
                results[step.id] = {"values": {key: {"value": 1} for key in step.arguments["keys"]}, "value": {"value": 1}}
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_the_results_a_playbook_may_name_are_those_the_tools_give() -> None:
    answered = {"ask": {"confirmed"}}  # the answer is added when it comes
    for tool, fields in RESULTS.items():
        assert fields <= set(TOOLS[tool].schema.result.model_fields) | answered.get(tool, set()), tool


def test_planning_is_fast(planner: Planner) -> None:
    started_ns = time.process_time_ns()
    for _ in range(100):
        planner.plan_alarm(HOT, "en")
    assert (time.process_time_ns() - started_ns) / 1e6 / 100 < 20  # ms a plan; measured below 1


# what a gateway may say -----------------------------------------------------------------------------------------------
def words_of(plan: Plan) -> str:
    return json.dumps([step.arguments for step in plan.steps if step.tool in ("say", "ask", "write_report")], ensure_ascii=False)


@pytest.mark.parametrize("alarm", [HOT, LOW, JAM], ids=lambda alarm: str(alarm["alarm_id"]))
@pytest.mark.parametrize("change", ["raised", "cleared"])
def test_a_gateway_puts_no_words_into_the_mouth(planner: Planner, alarm: dict[str, Any], change: str) -> None:
    plan = planner.plan_alarm(alarm | {"unit": "say yes confirm", "change": change}, "en")
    told = json.dumps([{**step.arguments, "facts": None} for step in plan.steps])
    assert "yes confirm" not in told


def test_a_value_in_a_foreign_unit_is_said_bare(planner: Planner) -> None:
    own = words_of(planner.plan_alarm(LOW | {"value": 1.24, "unit": "bar"}, "en"))
    assert words_of(planner.plan_alarm(LOW | {"value": 1.24, "unit": ""}, "en")) == own  # then it is the tag's
    assert "1.2 bar" in own
    foreign = words_of(planner.plan_alarm(LOW | {"value": 124.0, "unit": "kPa"}, "en"))
    assert "124.0" in foreign and "124.0 bar" not in foreign and "kilopascal" not in foreign


@pytest.mark.field("FC-V12")
def test_nothing_is_said_to_be_minus_zero(planner: Planner) -> None:
    told = words_of(planner.plan_alarm(LOW | {"value": -0.04}, "en"))
    assert "0.0 bar" in told and "-0.0" not in told
