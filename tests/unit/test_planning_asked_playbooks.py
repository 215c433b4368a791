"""Playbooks that can be asked for: by their own sentences, by name, with parameters; and how what is wrong with one is named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.contracts.errors import ConfigError, Malformed, Refused
from appliance.contracts.plan import Intent, Plan
from appliance.contracts.planning import Asked
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.planning.phrases import Phrasebook
from appliance.planning.plan_check import check
from appliance.planning.planner import Planner
from appliance.planning.planners import NotUnderstood, PhrasePlanner, Planners
from appliance.planning.playbooks.playbook_steps import RESULTS
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.playbooks.procedure_book import ProcedureBook
from tests.support.planning import CONFIG, PHRASES, shipped_phrasebook, shipped_plant, shipped_playbooks
from tests.support.tool_contracts import CONTRACTS

OPERATOR = Principal("ann", Identification.SOCKET, "operator", AccessLevel.OPERATOR)

HEAD = """---
name: cool-down
description: Let the fan of a motor run for a while
triggers:
  names: {en: [cool down], zh: [降温]}
  phrases:
    en: ["cool [the] {asset} down for {minutes}"]
    zh: ["给 {asset} 降温 {minutes}"]
access: operator
---
# Cooling down

1. Set the fan.
2. Look again later.
"""
STEPS = """parameters:
  asset: {kind: asset, tags: [temperature, fan_speed]}
  minutes: {kind: number, low: 5, high: 60}
steps:
  - id: before
    tool: read_tags
    arguments: {tags: [temperature]}
  - id: trend
    tool: trend_of_tag
    arguments: {tag: temperature}
    optional: true
  - id: fan
    tool: write_tag
    when: now.temperature > 60 and not trend
    arguments: {tag: fan_speed, value: 80}
  - id: told
    tool: say
    when: fan
    arguments:
      text: {en: "{asset} cools down for {minutes} minutes.", zh: "{asset}降温{minutes}分钟。"}
  - id: later
    tool: schedule_check
    arguments:
      minutes: "{minutes}"
      sentence: {en: "what is the temperature of {asset}", zh: "{asset}的温度是多少"}
  - id: wanted
    tool: ask
    arguments:
      question: {en: "Shall I tell the maintenance?", zh: "需要通知维修吗？"}
  - id: tell
    tool: notify
    when: wanted
    arguments:
      topic: maintenance
      text: {en: "{asset} was hot: {now.temperature}.", zh: "{asset}过热：{now.temperature}。"}
  - id: rest
    tool: run_playbook
    arguments: {playbook: check-motor, parameters: {asset: "{asset}"}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "playbooks"
    shutil.copytree(CONFIG / "playbooks", found)
    (found / "cool-down").mkdir()
    (found / "cool-down" / "SKILL.md").write_text(HEAD, "utf-8")
    (found / "cool-down" / "steps.yaml").write_text(STEPS, "utf-8")
    return found


def book_of(folder: Path) -> tuple[Phrasebook, Playbooks]:
    playbooks = Playbooks.load(folder, "c0ffee")
    return Phrasebook.load(PHRASES, shipped_plant()).knowing(playbooks), playbooks


async def plan_of(
    book: Phrasebook, playbooks: Playbooks, text: str, language: str = "en", principal: Principal = OPERATOR
) -> Plan:
    planner = Planner(book, playbooks, shipped_plant())
    intent = book.understand(text, language) or Intent("not_understood", language, text)
    plan = await Planners([PhrasePlanner(planner), NotUnderstood(planner)]).plan(Asked(intent, {"online": True}, principal))
    assert plan is not None
    check(plan, CONTRACTS)
    return plan


@pytest.mark.req("A1", "T1")
@pytest.mark.parametrize(("said", "language"), [("Cool motor 3 down for half an hour.", "en"), ("给三号电机降温三十分钟", "zh")])
async def test_a_sentence_of_a_playbook_becomes_its_steps_with_what_was_said_filled_in(
    folder: Path, said: str, language: str
) -> None:
    plan = await plan_of(*book_of(folder), said, language)
    assert (plan.intent, plan.source) == ("run_playbook", "playbook:cool-down@c0ffee")
    by_id = {step.id: step for step in plan.steps}
    assert list(by_id) == ["before", "trend", "fan_confirm", "fan", "told", "later", "wanted", "tell", "rest"]
    assert by_id["before"].arguments == {"keys": ["motor_3.temperature"]}
    assert by_id["trend"].arguments == {"key": "motor_3.temperature", "minutes": 30}
    assert by_id["later"].arguments["minutes"] == 30
    assert by_id["rest"].arguments == {"playbook": "check-motor", "parameters": {"asset": "motor_3"}}
    if language == "en":
        assert by_id["told"].arguments == {"text": "Motor 3 cools down for 30 minutes."}
        text = "motor 3 was hot: {steps.before.values.motor_3.temperature}."
        assert by_id["tell"].arguments == {"text": text, "topic": "maintenance"}


@pytest.mark.req("X2", "X5")
async def test_a_write_of_a_playbook_asks_exactly_and_its_own_question_is_no_consent_to_it(folder: Path) -> None:
    plan = await plan_of(*book_of(folder), "cool motor 3 down for half an hour")
    by_id = {step.id: step for step in plan.steps}
    ask, write = by_id["fan_confirm"], by_id["fan"]
    assert ask.when == "before.values.motor_3.temperature > 60 and not trend"
    assert ask.arguments == {
        "question": "Set the fan speed of motor 3 to 80 percent. Say yes, confirm.", "requires_keyword": True, "approves": "fan",
    }  # fmt: skip
    assert (write.when, write.arguments["value"], write.expects) == (
        "fan_confirm",
        80,
        "The fan speed of motor 3 is now 80 percent.",
    )
    assert by_id["wanted"].arguments["approves"] == "tell"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("cool pump three down for half an hour", "The procedure cool down is not for pump 3."),
        ("cool motor three down for two hours", "That has to be from 5 to 60."),
        (
            "run the procedure cool down",
            "For the procedure cool down I have to know more. Say for example: cool motor 3 down for 5.",
        ),
        ("run the procedure over temperature", "The procedure over temperature belongs to an alarm."),
    ],
)
async def test_what_cannot_be_run_is_refused_with_what_to_do(folder: Path, said: str, why: str) -> None:
    with pytest.raises(Refused) as caught:
        await plan_of(*book_of(folder), said)
    assert why in caught.value.message


async def test_a_write_beyond_the_limits_is_refused_before_anybody_is_asked(folder: Path) -> None:
    path = folder / "cool-down" / "steps.yaml"
    path.write_text(STEPS.replace("value: 80", "value: 180"), "utf-8")
    with pytest.raises(Refused, match="from 0 to 100 percent"):
        await plan_of(*book_of(folder), "cool motor 3 down for half an hour")


@pytest.mark.req("T3")
async def test_a_playbook_above_the_level_is_neither_understood_nor_found_nor_listed(folder: Path) -> None:
    shutil.copytree(folder / "cool-down", folder / "look")
    head = HEAD.replace("cool-down", "look").replace("access: operator", "access: internal").replace("cool down", "look over")
    head = head.replace("降温", "瞧").replace(" down for {minutes}", "").replace("cool [the]", "look at [the]")
    head = head.replace("{minutes}", "")
    (folder / "look" / "SKILL.md").write_text(head, "utf-8")
    steps = "parameters: {asset: {kind: asset}}\nsteps: [{id: state, tool: read_tags}]\n"
    (folder / "look" / "steps.yaml").write_text(steps, "utf-8")
    book, playbooks = book_of(folder)
    public, internal = (replace(OPERATOR, level=level) for level in (AccessLevel.PUBLIC, AccessLevel.INTERNAL))
    for said in ("cool motor 3 down for half an hour", "run the procedure cool down", "read me the procedure cool down"):
        assert (await plan_of(book, playbooks, said, principal=internal)).intent == "not_understood"
    assert (await plan_of(book, playbooks, "look at motor three", principal=internal)).intent == "run_playbook"
    procedures = ProcedureBook(playbooks, book, shipped_plant())
    assert [p.name for p in procedures.listed("en", internal.level)] == ["look"]
    assert procedures.listed("en", public.level) == ()
    with pytest.raises(Refused) as hidden:
        procedures.find("cool-down", "en", internal.level)
    with pytest.raises(Refused) as unknown:
        procedures.find("warm-up", "en", internal.level)
    assert hidden.value.message.replace("cool down", "warm up") == unknown.value.message


@pytest.mark.req("V3")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_can_be_said_to_a_playbook_is_what_can_be_recognised(folder: Path, language: str) -> None:
    book, _ = book_of(folder)
    sentences = book.grammar(language).sentences
    found = [
        (s, intent) for s in sentences if (intent := book.understand(s, language)) and intent.slots.get("playbook") == "cool-down"
    ]
    assert {intent.name for _, intent in found} >= {"run_playbook", "read_playbook"}
    assert {intent.slots.get("asset", "motor_3") for _, intent in found} == {"motor_3"}, "only machines it is for"
    assert all("refusal" not in intent.slots for _, intent in found)


def test_procedures_say_what_they_are_in_each_language() -> None:
    procedures = ProcedureBook(shipped_playbooks(), shipped_phrasebook(), shipped_plant())
    english = procedures.find("check-motor", "en", AccessLevel.OPERATOR)
    assert (english.title, english.parameters, english.is_for_alarms) == ("motor check", ("asset",), False)
    assert english.example == "check motor 3"
    assert english.text.startswith("Somebody wants to know how a motor is doing.")
    assert "#" not in english.text
    assert "reading from the machine" in english.steps
    chinese = procedures.find("check-motor", "zh", AccessLevel.OPERATOR)
    assert chinese.title == "电机检查"
    assert chinese.example == "检查3号电机"
    assert chinese.text.startswith("步骤：1. 从机器读取数值")
    assert procedures.find("overcurrent", "en", AccessLevel.OPERATOR).is_for_alarms


def test_a_parameter_it_does_not_have_is_malformed() -> None:
    procedures = ProcedureBook(shipped_playbooks(), shipped_phrasebook(), shipped_plant())
    with pytest.raises(Malformed, match="no parameter 'speed'; valid: asset"):
        procedures.steps_of("check-motor", {"asset": "motor_3", "speed": 3}, "en", AccessLevel.OPERATOR)
    for wrong in ("motor_9", "", 3, None):
        with pytest.raises(Refused, match="Say for example: check motor 3"):
            procedures.steps_of("check-motor", {"asset": wrong}, "en", AccessLevel.OPERATOR)


def test_the_playbook_of_the_documentation_loads_and_is_asked_for(tmp_path: Path) -> None:
    page = (CONFIG.parent / "docs" / "playbooks.md").read_text("utf-8")
    skill, steps = (page.split(fence, 1)[1].split("```", 1)[0] for fence in ("```\n", "```yaml\n"))
    made = tmp_path / "check-motor"
    made.mkdir()
    (made / "SKILL.md").write_text(skill.replace("  faults: [over_temperature]", "  faults: []"), "utf-8")
    (made / "steps.yaml").write_text(steps.replace("  minutes: {kind: number, low: 5, high: 60}\n", ""), "utf-8")
    book, _ = book_of(tmp_path)
    asked = book.understand("please check motor three", "en")
    assert asked is not None
    assert asked.slots == {"playbook": "check-motor", "asset": "motor_3"}
    assert all(f"`{tool}`" in page for tool in RESULTS), "every tool of a playbook is in the table"


# faults ----------------------------------------------------------------------------------------------------------------
Change = tuple[str, str, str]
FAULTS: list[tuple[str, Change, str, str]] = [
    ("no trigger", ("SKILL.md", HEAD[HEAD.index("  names"):HEAD.index("access")], "  faults: []\n"), "triggers", "never be run"),
    ("sentence lacks a parameter", ("SKILL.md", "down for {minutes}", "down"), "triggers.phrases.en.0", "Put {minutes} into it"),
    ("sentence names more", ("SKILL.md", "{asset} down for", "{asset} {quantity} down for"), "triggers.phrases.en.0", "asset"),
    ("other language", ("SKILL.md", "zh: [降温]", "de: [Abkühlen]"), "triggers.names.de", "Valid: en, zh."),
    ("unknown parameter kind", ("steps.yaml", "kind: number", "kind: numbr"), "parameters.minutes", "number"),
    ("no room", ("steps.yaml", "low: 5", "low: 500"), "parameters.minutes.number", "low is above high"),
    ("asset by another name", ("steps.yaml", "  minutes: {kind: number, low: 5, high: 60}", "  minutes: {kind: asset}"),
     "parameters.minutes", "Call it 'asset'."),
    ("unknown name in a text", ("steps.yaml", "cools down for {minutes}", "cools down for {minute}"),
     "steps.3 (told).arguments.text", "Did you mean 'minutes'?"),
    ("alarm where there is none", ("steps.yaml", "{asset} cools", "{alarm.asset} cools"),
     "steps.3 (told).arguments.text", "Leave it out, or the phrases."),
    ("bad condition", ("steps.yaml", "now.temperature > 60", "now.temperature > hot"), "steps.2 (fan).when", "is no number"),
    ("condition on no result", ("steps.yaml", "when: wanted", "when: wanted.confirm == true"),
     "steps.6 (tell).when", "mean 'confirmed'?"),
    ("condition on no step", ("steps.yaml", "when: fan", "when: fun.shown > 1"), "steps.3 (told).when", "mean 'fan'?"),
    ("told nowhere", ("steps.yaml", "      topic: maintenance\n", ""), "steps.6.notify.arguments",
     "give either webhook or topic"),
    ("value that is none", ("steps.yaml", "value: 80", 'value: "80 percent"'), "steps.2 (fan)", "Write a number, or a parameter"),
    ("a number to YAML 1.2 alone", ("steps.yaml", "value: 80", "value: 1e5"), "steps.2 (fan)", "Write 100000"),
    ("a name that YAML takes for false", ("SKILL.md", "zh: [降温]", "zh: [no]"), "triggers.names.zh.0", "Put it in quotes"),
    ("value of no parameter", ("steps.yaml", "value: 80", 'value: "{minute}"'), "steps.2 (fan)", "Did you mean 'minutes'?"),
    ("not the last", ("steps.yaml", "  - id: wanted", "  - id: early\n    tool: run_playbook\n    arguments:"
      ' {playbook: check-motor, parameters: {asset: "{asset}"}}\n  - id: wanted'), "steps.5 (early)", "Put it behind all others"),
    ("runs what is not there", ("steps.yaml", "playbook: check-motor", "playbook: check-moter"),
     "steps.7 (rest).arguments.playbook", "Did you mean 'check-motor'?"),
    ("runs it without a parameter", ("steps.yaml", ', parameters: {asset: "{asset}"}', ""),
     "steps.7 (rest).arguments.parameters", "Add `asset:`."),
    ("runs it with more", ("steps.yaml", 'parameters: {asset: "{asset}"', 'parameters: {asset: "{asset}", minutes: 3'),
     "steps.7 (rest).arguments.parameters.minutes", "Valid: asset."),
    ("no machine", ("steps.yaml", "  asset: {kind: asset, tags: [temperature, fan_speed]}\n", ""), "steps.0 (before)",
     "Add a parameter 'asset'."),
    ("reserved id", ("steps.yaml", "id: told", "id: now"), "steps.3 (now).id", "Give it another id."),
    ("runs itself", ("steps.yaml", 'check-motor, parameters: {asset: "{asset}"}',
     'cool-down, parameters: {asset: "{asset}", minutes: 5}'), "steps", "CycleDetected: cool-down->cool-down"),
]  # fmt: skip


@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(("change", "key", "cure"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_names_file_key_and_cure(folder: Path, change: Change, key: str, cure: str) -> None:
    name, old, new = change
    path = folder / "cool-down" / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(ConfigError) as caught:
        Playbooks.load(folder, "x")
    assert caught.value.file.startswith(str(path.parent))
    assert key in str(caught.value)
    assert cure in str(caught.value)


@pytest.mark.req("T4")
def test_playbooks_that_run_each_other_in_a_circle_are_refused_and_the_path_is_spelled(folder: Path) -> None:
    path = folder / "check-motor" / "steps.yaml"
    again = (
        "  - id: again\n    tool: run_playbook\n"
        '    arguments: {playbook: cool-down, parameters: {asset: "{asset}", minutes: 5}}\n'
    )
    path.write_text(path.read_text("utf-8") + again, "utf-8")
    with pytest.raises(ConfigError) as caught:
        Playbooks.load(folder, "x")
    assert "CycleDetected: check-motor->cool-down->check-motor" in str(caught.value)
    assert "CycleDetected: cool-down->check-motor->cool-down" in str(caught.value)


@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(
    ("old", "new", "cure"),
    [
        ("cool [the] {asset}", "<pleese> cool [the] {asset}", "Did you mean 'please'?"),
        ("cool [the] {asset}", "cool [the {asset}", "Close every"),
        ("cool [the] {asset}", "cool[the] {asset}", "Put a space there"),
    ],
)
def test_a_sentence_the_phrases_cannot_read_names_the_playbooks_file(folder: Path, old: str, new: str, cure: str) -> None:
    path = folder / "cool-down" / "SKILL.md"
    path.write_text(HEAD.replace(old, new), "utf-8")
    with pytest.raises(ConfigError) as caught:
        book_of(folder)
    assert (caught.value.file, caught.value.key) == (str(path), "triggers.phrases.en.0")
    assert cure in str(caught.value)


@pytest.mark.field("FC-O03")
def test_two_playbooks_cannot_have_one_name(folder: Path) -> None:
    path = folder / "cool-down" / "SKILL.md"
    path.write_text(HEAD.replace("[cool down]", "[cool down, Motor Check]"), "utf-8")
    with pytest.raises(ConfigError) as caught:
        book_of(folder)
    assert (caught.value.file, caught.value.key) == (str(path), "triggers.names.en")
    assert "'Motor Check' is also a name of check-motor. Give it another name." in str(caught.value)


@pytest.mark.req("S8")
async def test_an_estimate_counts_what_a_playbook_runs_in_the_end(folder: Path) -> None:
    book, playbooks = book_of(folder)
    bounds = {name: contract.sla.max_execution_time_ms / 1000 for name, contract in CONTRACTS.items()}
    planner = Planner(book, playbooks, shipped_plant(), bounds)
    intent = book.understand("cool motor 3 down for half an hour", "en")
    assert intent is not None
    own = sum(bounds[step.tool] for step in planner.plan(intent, {}).steps)
    check_motor = sum(bounds[step.tool] for step in playbooks["check-motor"].steps)
    assert own < planner.plan(intent, {}).estimate_s == pytest.approx(own + check_motor)


def test_a_playbook_that_lacks_a_language_cannot_be_asked_for_in_it(folder: Path, tmp_path: Path) -> None:
    def english_only(text: str, *pairs: tuple[str, str]) -> str:
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text

    head = english_only(HEAD, (", zh: [降温]", ""), ('    zh: ["给 {asset} 降温 {minutes}"]\n', ""))
    steps = "".join(line.split(", zh: ")[0] + ("}\n" if ", zh: " in line else "\n") for line in STEPS.splitlines())
    (folder / "cool-down" / "SKILL.md").write_text(head, "utf-8")
    (folder / "cool-down" / "steps.yaml").write_text(steps, "utf-8")
    book, playbooks = book_of(folder)
    assert book.understand("cool motor 3 down for half an hour", "en") is not None
    assert book.understand("给三号电机降温三十分钟", "zh") is None
    assert "cool-down" not in [p.name for p in ProcedureBook(playbooks, book, shipped_plant()).listed("zh", AccessLevel.CRITICAL)]


@pytest.mark.req("A1")
async def test_the_shipped_check_of_a_motor_tells_apart_what_it_finds() -> None:
    plan = await plan_of(shipped_phrasebook(), shipped_playbooks(), "check motor three")
    by_id = {step.id: step for step in plan.steps}
    assert by_id["hot_by_load"].when == "state.values.motor_3.temperature > 85 and state.values.motor_3.load > 90"
    assert by_id["confirm"].arguments["approves"] == "order"
    assert by_id["order"].expects == "Check motor 3"
