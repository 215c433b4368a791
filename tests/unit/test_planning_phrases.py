"""What people say, and what it is understood as; what must not be understood; how a phrase file's faults are named."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.contracts.errors import Malformed
from tests.support.planning import PHRASES, shipped_phrasebook

TEMPERATURE = {"asset": "motor_3", "tag": "motor_3.temperature"}
FAN = {"asset": "motor_3", "tag": "motor_3.fan_speed"}
SHELVED = {"alarm": "motor_3_over_temperature"}
BELT = {"asset": "conveyor_3", "tag": "conveyor_3.speed"}

ENGLISH: list[tuple[str, str, dict[str, Any]]] = [
    ("what is the temperature of motor three", "read_tag", TEMPERATURE),
    ("What's the temperature of motor 3?", "read_tag", TEMPERATURE),
    ("WHAT IS THE TEMPERATURE OF THE MOTOR THREE", "read_tag", TEMPERATURE),
    ("please tell me the temperature on motor three", "read_tag", TEMPERATURE),
    ("could you please read the motor three temperature", "read_tag", TEMPERATURE),
    ("check motor three vibration please", "read_tag", {"asset": "motor_3", "tag": "motor_3.vibration"}),
    ("how is the load of motor three", "read_tag", {"asset": "motor_3", "tag": "motor_3.load"}),
    ("give me the pressure at pump three", "read_tag", {"asset": "pump_3", "tag": "pump_3.pressure"}),
    ("what is the flow of the pump three now", "read_tag", {"asset": "pump_3", "tag": "pump_3.flow"}),
    ("what is the belt speed of conveyor three", "read_tag", BELT),
    ("what is the speed of conveyor three", "read_tag", BELT),
    ("read the current of conveyor three", "read_tag", {"asset": "conveyor_3", "tag": "conveyor_3.current"}),
    ("is pump three running", "read_tag", {"asset": "pump_3", "tag": "pump_3.running"}),
    ("is the conveyor three running now", "read_tag", {"asset": "conveyor_3", "tag": "conveyor_3.running"}),
    (
        "what is the temperature of pump three",
        "read_tag",
        {"asset": "pump_3", "quantity": "temperature", "refusal": "no_such_tag"},
    ),
    ("is motor three running", "read_tag", {"asset": "motor_3", "quantity": "running", "refusal": "no_such_tag"}),
    ("list the alarms", "list_alarms", {}),
    ("please read all the active alarms", "list_alarms", {}),
    ("what alarms are there", "list_alarms", {}),
    ("which alarms are active", "list_alarms", {}),
    ("are there any alarms", "list_alarms", {}),
    ("any open alarms?", "list_alarms", {}),
    ("acknowledge the alarm", "acknowledge_alarm", {}),
    ("acknowledge the alarms", "acknowledge_alarm", {"every": True}),
    ("please acknowledge all alarms", "acknowledge_alarm", {"every": True}),
    ("I have seen the alarm.", "acknowledge_alarm", {}),
    ("reset the alarm", "reset_alarm", {}),
    ("please reset all alarms", "reset_alarm", {"every": True}),
    ("shelve the motor three over temperature alarm for thirty minutes", "shelve_alarm", {**SHELVED, "minutes": 30}),
    (
        "please shelve motor 3 over temperature for 45 minutes because of maintenance",
        "shelve_alarm",
        {**SHELVED, "minutes": 45, "reason": "maintenance"},
    ),
    (
        "shelve the motor three over temperature alarm for an hour because of a broken sensor please",
        "shelve_alarm",
        {**SHELVED, "minutes": 60, "reason": "a broken sensor"},
    ),
    ("unshelve the motor three over temperature alarm", "unshelve_alarm", SHELVED),
    ("set the fan speed of motor three to eighty percent", "set_tag", {**FAN, "amount": 80, "unit": "%"}),
    ("set the fan speed of motor 3 to 80%", "set_tag", {**FAN, "amount": 80, "unit": "%"}),
    ("please set motor three fan speed to ninety five percent", "set_tag", {**FAN, "amount": 95, "unit": "%"}),
    ("set motor three fan speed to ninety-five", "set_tag", {**FAN, "amount": 95}),
    ("change the fan speed of motor three to one hundred percent please", "set_tag", {**FAN, "amount": 100, "unit": "%"}),
    ("can you adjust the fan speed on the motor three to a hundred percent", "set_tag", {**FAN, "amount": 100, "unit": "%"}),
    ("put the fan speed of motor three to one hundred and fifty percent", "set_tag", {**FAN, "amount": 150, "unit": "%"}),
    ("set the fan speed of motor three to minus ten percent", "set_tag", {**FAN, "amount": -10, "unit": "%"}),
    ("set the fan speed of motor three to 12.5 percent", "set_tag", {**FAN, "amount": 12.5, "unit": "%"}),
    (
        "set the belt speed of conveyor three to one point five meters per second",
        "set_tag",
        {**BELT, "amount": 1.5, "unit": "m/s"},
    ),
    ("set the speed of conveyor three to one percent", "set_tag", {**BELT, "amount": 1, "unit": "%"}),
    ("set the fan speed of motor three to zero", "set_tag", {**FAN, "amount": 0}),
    (
        "set the pressure of motor three to ten bar",
        "set_tag",
        {"asset": "motor_3", "quantity": "pressure", "refusal": "no_such_tag", "amount": 10, "unit": "bar"},
    ),
    ("set the fan speed of motor three to maximum", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("please set the fan speed of motor three to the maximum", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("set the fan speed of motor three to full speed", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("run the fan speed of motor three at full speed", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("turn motor three fan speed to its minimum", "set_tag_to_limit", {**FAN, "limit": "low"}),
    ("set the belt speed of conveyor three to minimum please", "set_tag_to_limit", {**BELT, "limit": "low"}),
    ("create a work order for motor three", "create_work_order", {"asset": "motor_3"}),
    ("please open a work order for the pump three", "create_work_order", {"asset": "pump_3"}),
    ("conveyor three needs a work order", "create_work_order", {"asset": "conveyor_3"}),
    ("the work order of motor three is done", "work_order_done", {"asset": "motor_3"}),
    (
        "note a broken sensor in the work order for the pump three",
        "work_order_note",
        {"asset": "pump_3", "reason": "a broken sensor"},
    ),
    ("check the temperature of motor three in ten minutes", "schedule_check", {**TEMPERATURE, "minutes": 10}),
    ("in half an hour check motor three temperature please", "schedule_check", {**TEMPERATURE, "minutes": 30}),
    ("please check the temperature of motor three again in a minute", "schedule_check", {**TEMPERATURE, "minutes": 1}),
    ("how did the temperature of motor three change", "trend_of_tag", TEMPERATURE),
    ("how has motor three temperature changed in the last ten minutes", "trend_of_tag", {**TEMPERATURE, "minutes": 10}),
    ("How did the temperature of motor three change in the last half hour", "trend_of_tag", {**TEMPERATURE, "minutes": 30}),
    ("what is the trend of motor 3 temperature in the last quarter of an hour", "trend_of_tag", {**TEMPERATURE, "minutes": 15}),
    ("is the temperature of motor three rising", "trend_of_tag", TEMPERATURE),
    ("what checks are there", "list_checks", {}),
    ("cancel the checks", "cancel_checks", {}),
    ("please cancel the check", "cancel_checks", {}),
    ("how are you doing", "vitals", {}),
    ("How are you feeling?", "vitals", {}),
    ("how is your power supply", "vitals", {}),
    ("yes", "confirm", {}),
    ("Yes, please.", "confirm", {}),
    ("go ahead", "confirm", {}),
    ("okay", "confirm", {}),
    ("yes confirm", "confirm", {"keyword": True}),
    ("Yes, confirm!", "confirm", {"keyword": True}),
    ("confirm", "confirm", {"keyword": True}),
    ("yes I confirm", "confirm", {"keyword": True}),
    ("ok confirm", "confirm", {"keyword": True}),
    ("ok, confirm 4 7 1", "confirm", {"keyword": True, "code": "471"}),
    ("yes for motor three", "confirm", {"asset": "motor_3"}),
    ("Yes, motor 3.", "confirm", {"asset": "motor_3"}),
    ("yes, confirm for motor three", "confirm", {"keyword": True, "asset": "motor_3"}),
    ("no", "deny", {}),
    ("No, thanks.", "deny", {}),
    ("cancel that", "deny", {"that": True}),
    ("no cancel that", "deny", {}),
    ("do not do it", "deny", {}),
    ("don't do that", "deny", {}),
    ("never mind", "deny", {}),
    ("do not confirm", "deny", {}),
    ("Don't confirm.", "deny", {}),
    ("no, don't confirm that", "deny", {}),
    ("no confirm", "deny", {}),
    ("no, for motor three", "deny", {"asset": "motor_3"}),
    ("repeat that please", "repeat", {}),
    ("say that again", "repeat", {}),
    ("what did you say?", "repeat", {}),
    ("stop", "stop", {}),
    ("stop now", "stop", {}),
    ("be quiet please", "stop", {"words": True}),
    ("stop that", "stop_work", {}),
    ("stop what you are doing", "stop_work", {}),
    ("Please cancel what I asked.", "stop_work", {}),
    ("stop everything", "stop_work", {"every": True}),
    ("stop the work on motor three", "stop_work", {"asset": "motor_3"}),
    ("cancel the third step", "cancel_step", {"step": 3}),
    ("Cancel the third step of what I just asked.", "cancel_step", {"step": 3}),
    ("cancel step two of what I asked", "cancel_step", {"step": 2}),
    ("skip the tenth step", "cancel_step", {"step": 10}),
    ("what are you doing?", "report_work", {}),
    ("which step are you at", "report_work", {}),
    ("are you there", "status", {}),
    ("system status", "status", {}),
    ("what is your status", "status", {}),
    ("what are you waiting for", "what_pending", {}),
    ("what was the question", "what_pending", {}),
    ("what procedures do you have", "list_playbooks", {}),
    ("please list all the procedures", "list_playbooks", {}),
    ("read me the procedure over temperature", "read_playbook", {"playbook": "over-temperature"}),
    ("please read the procedure for low pressure to me", "read_playbook", {"playbook": "low-pressure"}),
    ("run the procedure motor check", "run_playbook", {"playbook": "check-motor"}),
    ("run the procedure motor check for motor three", "run_playbook", {"playbook": "check-motor", "asset": "motor_3"}),
    ("Check motor 3, please.", "run_playbook", {"playbook": "check-motor", "asset": "motor_3"}),
    ("is everything okay with motor three", "run_playbook", {"playbook": "check-motor", "asset": "motor_3"}),
    ("check pump three", "run_playbook", {"playbook": "check-motor", "asset": "pump_3", "refusal": "playbook_not_for"}),
    ("how has the temperature of motor three changed", "trend_of_tag", TEMPERATURE),
    ("help", "help", {}),
    ("what can I say", "help", {}),
]

CHINESE: list[tuple[str, str, dict[str, Any]]] = [
    ("复位报警", "reset_alarm", {}),
    ("请复位所有报警", "reset_alarm", {"every": True}),
    ("把三号电机温度过高的报警搁置三十分钟", "shelve_alarm", {**SHELVED, "minutes": 30}),
    ("请把三号电机温度过高报警搁置一小时因为检修", "shelve_alarm", {**SHELVED, "minutes": 60, "reason": "检修"}),
    ("搁置三号电机温度过高45分钟，因为传感器故障", "shelve_alarm", {**SHELVED, "minutes": 45, "reason": "传感器 故障"}),
    ("取消搁置三号电机温度过高的报警", "unshelve_alarm", SHELVED),
    ("三号电机的温度是多少", "read_tag", TEMPERATURE),
    ("三号电机的温度是多少？", "read_tag", TEMPERATURE),
    ("3号电机温度多少", "read_tag", TEMPERATURE),
    ("三号 电机 的 温度 是 多少", "read_tag", TEMPERATURE),
    ("请告诉我三号电机的温度", "read_tag", TEMPERATURE),
    ("请读一下三号电机的温度", "read_tag", TEMPERATURE),
    ("查询三号电机负载", "read_tag", {"asset": "motor_3", "tag": "motor_3.load"}),
    ("三号电机的负荷怎么样", "read_tag", {"asset": "motor_3", "tag": "motor_3.load"}),
    ("看一下三号电机的振动", "read_tag", {"asset": "motor_3", "tag": "motor_3.vibration"}),
    ("三号泵的压力是多少", "read_tag", {"asset": "pump_3", "tag": "pump_3.pressure"}),
    ("三号水泵的流量现在是多少", "read_tag", {"asset": "pump_3", "tag": "pump_3.flow"}),
    ("现在三号输送带的速度是多少", "read_tag", BELT),
    ("三号传送带的电流是多少", "read_tag", {"asset": "conveyor_3", "tag": "conveyor_3.current"}),
    ("三号泵在运行吗", "read_tag", {"asset": "pump_3", "tag": "pump_3.running"}),
    ("三号输送带现在在运行吗", "read_tag", {"asset": "conveyor_3", "tag": "conveyor_3.running"}),
    ("三号泵的温度是多少", "read_tag", {"asset": "pump_3", "quantity": "温度", "refusal": "no_such_tag"}),
    ("三号电机的工单完成了", "work_order_done", {"asset": "motor_3"}),
    ("在三号泵的工单里注明误报", "work_order_note", {"asset": "pump_3", "reason": "误报"}),
    ("十分钟后检查三号电机的温度", "schedule_check", {**TEMPERATURE, "minutes": 10}),
    ("请过半个小时看一下三号电机的温度", "schedule_check", {**TEMPERATURE, "minutes": 30}),
    ("三号电机的温度怎么变化", "trend_of_tag", TEMPERATURE),
    ("过去半小时3号电机的温度怎么变化", "trend_of_tag", {**TEMPERATURE, "minutes": 30}),
    ("三号电机的温度在上升吗", "trend_of_tag", TEMPERATURE),
    ("有哪些检查", "list_checks", {}),
    ("取消所有检查", "cancel_checks", {}),
    ("你怎么样", "vitals", {}),
    ("你的电源正常吗", "vitals", {}),
    ("有哪些报警", "list_alarms", {}),
    ("现在有报警吗", "list_alarms", {}),
    ("有没有警报", "list_alarms", {}),
    ("请列出所有报警", "list_alarms", {}),
    ("查看当前的报警", "list_alarms", {}),
    ("确认报警", "acknowledge_alarm", {}),
    ("请确认所有报警", "acknowledge_alarm", {"every": True}),
    ("报警知道了", "acknowledge_alarm", {}),
    ("报警收到了", "acknowledge_alarm", {}),
    ("把三号电机的风扇转速设为百分之八十", "set_tag", {**FAN, "amount": 80, "unit": "%"}),
    ("请把三号电机的风扇转速设为80%", "set_tag", {**FAN, "amount": 80, "unit": "%"}),
    ("将三号电机风扇速度调到百分之九十五", "set_tag", {**FAN, "amount": 95, "unit": "%"}),
    ("把三号电机的风扇转速设为百分之百", "set_tag", {**FAN, "amount": 100, "unit": "%"}),
    ("把三号电机的风扇转速设为百分之一百五十", "set_tag", {**FAN, "amount": 150, "unit": "%"}),
    ("把三号电机的风扇转速改为五十", "set_tag", {**FAN, "amount": 50}),
    ("设置三号电机的风扇转速为百分之三十", "set_tag", {**FAN, "amount": 30, "unit": "%"}),
    ("把三号电机的风扇转速设到八十个百分点", "set_tag", {**FAN, "amount": 80, "unit": "%"}),
    ("把三号输送带的速度调到一点五米每秒", "set_tag", {**BELT, "amount": 1.5, "unit": "m/s"}),
    ("将三号传送带的速度设为1.5", "set_tag", {**BELT, "amount": 1.5}),
    ("把三号电机的风扇转速设为零", "set_tag", {**FAN, "amount": 0}),
    ("把三号电机的风扇转速设为最大", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("请把三号电机的风扇转速开到全速", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("三号电机的风扇转速调到最高", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("把三号电机的风扇转速调到最大值", "set_tag_to_limit", {**FAN, "limit": "high"}),
    ("把三号输送带的速度降到最低", "set_tag_to_limit", {**BELT, "limit": "low"}),
    ("三号输送带的速度降到最小", "set_tag_to_limit", {**BELT, "limit": "low"}),
    ("给三号电机创建工单", "create_work_order", {"asset": "motor_3"}),
    ("请为三号泵开一张工单", "create_work_order", {"asset": "pump_3"}),
    ("三号输送带需要工单", "create_work_order", {"asset": "conveyor_3"}),
    ("是", "confirm", {}),
    ("是的", "confirm", {}),
    ("好的", "confirm", {}),
    ("可以", "confirm", {}),
    ("是的，确认", "confirm", {"keyword": True}),
    ("确认", "confirm", {"keyword": True}),
    ("我确认", "confirm", {"keyword": True}),
    ("确认四七幺", "confirm", {"keyword": True, "code": "471"}),
    ("好的，确认，代码幺两零", "confirm", {"keyword": True, "code": "120"}),
    ("确认执行", "confirm", {"keyword": True}),
    ("是的，三号电机", "confirm", {"asset": "motor_3"}),
    ("确认三号电机", "confirm", {"keyword": True, "asset": "motor_3"}),
    ("不", "deny", {}),
    ("不用了", "deny", {}),
    ("取消", "deny", {}),
    ("不要执行", "deny", {}),
    ("算了", "deny", {}),
    ("不确认", "deny", {}),
    ("不要确认", "deny", {}),
    ("我不确认", "deny", {}),
    ("不要，三号电机", "deny", {"asset": "motor_3"}),
    ("请再说一遍", "repeat", {}),
    ("你刚才说什么", "repeat", {}),
    ("停", "stop", {}),
    ("停下来", "stop", {}),
    ("别说了", "stop", {"words": True}),
    ("停止这项工作", "stop_work", {}),
    ("取消所有工作", "stop_work", {"every": True}),
    ("全部停止", "stop_work", {"every": True}),
    ("停止三号电机的工作", "stop_work", {"asset": "motor_3"}),
    ("取消第三步", "cancel_step", {"step": 3}),
    ("取消我刚才说的第三步", "cancel_step", {"step": 3}),
    ("把第二步取消", "cancel_step", {"step": 2}),
    ("取消这个", "deny", {"that": True}),
    ("你现在在做什么", "report_work", {}),
    ("进行到哪一步了", "report_work", {}),
    ("你在吗", "status", {}),
    ("系统状态", "status", {}),
    ("你在等什么", "what_pending", {}),
    ("还有什么待确认的", "what_pending", {}),
    ("有哪些流程", "list_playbooks", {}),
    ("请读一下过热的流程", "read_playbook", {"playbook": "over-temperature"}),
    ("执行流程电机检查", "run_playbook", {"playbook": "check-motor"}),
    ("对三号电机执行电机检查", "run_playbook", {"playbook": "check-motor", "asset": "motor_3"}),
    ("请检查一下三号电机", "run_playbook", {"playbook": "check-motor", "asset": "motor_3"}),
    ("三号电机没问题吗", "run_playbook", {"playbook": "check-motor", "asset": "motor_3"}),
    ("三号电机的温度怎么变化", "trend_of_tag", TEMPERATURE),
    ("帮助", "help", {}),
    ("我能说什么", "help", {}),
]

NOT_UNDERSTOOD: list[tuple[str, str]] = [
    ("", "en"),
    ("...", "en"),
    ("motor three", "en"),
    ("what is the temperature of", "en"),  # a recogniser's partial path
    ("set the fan speed of motor three to", "en"),
    ("set the fan speed of motor three", "en"),
    ("set the fan speed to eighty percent", "en"),
    ("set the fan speed of motor three to eighty ninety", "en"),
    ("set the fan speed of motor three to one fifty percent", "en"),
    ("set the fan speed of motor three to eighty percent and stop", "en"),
    ("what is the temperature of motor thirty three", "en"),
    ("what is the temperature of motor four", "en"),
    ("stop the conveyor", "en"),
    ("stop motor three", "en"),
    ("yes no", "en"),
    ("never confirm", "en"),
    ("yes but not now", "en"),
    ("i said yes to my colleague", "en"),
    ("create a work order", "en"),
    ("acknowledge motor three", "en"),
    ("tell me a joke", "en"),
    ("temperature motor three of", "en"),
    ("set it to eighty percent", "en"),
    ("先不要确认", "zh"),
    ("三号电机", "zh"),
    ("三十三号电机的温度是多少", "zh"),
    ("四号电机的温度是多少", "zh"),
    ("把三号电机的风扇转速设为", "zh"),
    ("把风扇转速设为百分之八十", "zh"),
    ("把三号电机的风扇转速设为百分之八十再停机", "zh"),
    ("停止三号输送带", "zh"),
    ("今天天气怎么样", "zh"),
    ("是不是", "zh"),
]


@pytest.mark.req("V3", "V6", "A1")
@pytest.mark.parametrize(("said", "intent", "slots"), ENGLISH, ids=[row[0] for row in ENGLISH])
def test_english_is_understood(said: str, intent: str, slots: dict[str, Any]) -> None:
    heard = shipped_phrasebook().understand(said, "en")
    assert heard is not None
    assert (heard.name, dict(heard.slots), heard.language, heard.text) == (intent, slots, "en", said)


@pytest.mark.req("V3", "V6", "A1")
@pytest.mark.parametrize(("said", "intent", "slots"), CHINESE, ids=[row[0] for row in CHINESE])
def test_chinese_is_understood(said: str, intent: str, slots: dict[str, Any]) -> None:
    heard = shipped_phrasebook().understand(said, "zh")
    assert heard is not None
    assert (heard.name, dict(heard.slots)) == (intent, slots)


def test_the_tables_are_long_enough_and_touch_every_intent() -> None:
    for language, table in (("en", ENGLISH), ("zh", CHINESE)):
        assert len(table) >= 60
        assert {intent for _, intent, _ in table} == set(shipped_phrasebook().phrases(language).file.intents)


@pytest.mark.req("V3", "V4")
@pytest.mark.field("FC-V08")
@pytest.mark.parametrize(("said", "language"), NOT_UNDERSTOOD)
def test_near_misses_are_not_understood(said: str, language: str) -> None:
    assert shipped_phrasebook().understand(said, language) is None


@given(st.text(max_size=60))
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_understanding(text: str) -> None:
    for language in ("en", "zh"):
        shipped_phrasebook().understand(text, language)


@given(st.lists(st.sampled_from(" ".join(said for said, _, _ in ENGLISH).split()), min_size=1, max_size=9))
@settings(max_examples=150, deadline=None)
def test_a_write_is_only_understood_from_a_sentence_that_says_one(words: list[str]) -> None:
    heard = shipped_phrasebook().understand(" ".join(words), "en")
    if heard is not None and heard.name.startswith("set_tag"):
        assert {"set", "change", "adjust", "put", "turn", "run"} & {word.lower() for word in words}


def test_a_very_long_text_is_not_even_tried() -> None:
    assert shipped_phrasebook().understand("please " * 1000 + "help", "en") is None


def test_an_unknown_language_is_named_with_those_there_are() -> None:
    with pytest.raises(Malformed, match="'fr'; there are en, zh"):
        shipped_phrasebook().understand("oui", "fr")


def test_loading_does_not_import_the_matcher() -> None:
    code = (
        "import sys\n"
        "from tests.support.planning import shipped_phrasebook\n"
        "book = shipped_phrasebook()\n"
        "assert 'hassil' not in sys.modules\n"
        "book.prepare()\n"
        "assert 'hassil' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PHRASES.parents[1], timeout=60)
