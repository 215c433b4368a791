"""Playbooks: the shipped ones, and how what is wrong with one is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.contracts.errors import ConfigError
from appliance.contracts.principal import AccessLevel
from appliance.memory.seed import load_incidents
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbook_steps import sentence_count
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.sound_playbooks import load_sound
from appliance.settings_rules import shipped_contracts, shipped_tool_levels
from tests.support.planning import CONFIG, PHRASES, shipped_plant, shipped_playbooks

SHIPPED = ("controller-unreachable", "low-pressure", "over-temperature", "overcurrent")


@pytest.mark.req("P4", "V6")
def test_playbooks_ship_in_english_and_chinese_and_serve_every_alarm_of_the_plant() -> None:
    playbooks = shipped_playbooks()
    assert playbooks.names == ("check-motor", *SHIPPED)
    for alarm in shipped_plant().alarms:
        for language in ("en", "zh"):
            found = playbooks.for_alarm(alarm.playbook, alarm.fault, language)
            assert found is not None
            assert found.name == alarm.playbook
            assert found.triggers.faults == [alarm.fault]
            assert len(found.description) <= 60
            assert found.access == "operator"


def test_a_playbook_is_found_by_its_fault_when_the_name_is_gone_and_passed_over_when_it_lacks_the_language() -> None:
    playbooks = shipped_playbooks()
    by_fault = playbooks.for_alarm("gone", "low_pressure", "en")
    assert by_fault is not None
    assert by_fault.name == "low-pressure"
    assert playbooks.for_alarm("gone", "fire", "en") is None
    named = playbooks.for_alarm("check-motor", "over_temperature", "en")
    assert named is not None
    assert named.name == "over-temperature", "one that announces nothing is no alarm's"
    assert playbooks.for_alarm("low-pressure", "low_pressure", "de") is None


def test_folders_without_a_skill_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    assert Playbooks.load(tmp_path, "x").names == ()


Change = tuple[str, str, str]
FAULTS: list[tuple[str, Change, str, str]] = [
    ("unknown head key", ("SKILL.md", "access: operator", "acess: operator"), "acess", "Did you mean 'access'?"),
    ("unknown access", ("SKILL.md", "access: operator", "access: boss"), "access", "'public', 'internal'"),
    ("long description", ("SKILL.md", "description: A machine", "description: " + "very " * 20), "description", "at most 60"),
    ("other name", ("SKILL.md", "name: over-temperature", "name: hot"), "name", "Write `name: over-temperature`"),
    ("no front matter", ("SKILL.md", "---\nname", "name"), "(file)", "Begin with `---`"),
    ("bad front matter", ("SKILL.md", "triggers:\n", "triggers: [\n"), "line", "Correct the syntax"),
    ("unknown tool", ("steps.yaml", "tool: read_plc_log", "tool: read_plc_lag"), "steps.1", "read_plc_log"),
    ("unknown argument", ("steps.yaml", "{newest: 8}", "{newst: 8}"), "steps.1.read_plc_log.arguments.newst", "mean 'newest'?"),
    ("bad argument", ("steps.yaml", "{newest: 8}", "{newest: 0}"), "steps.1.read_plc_log.arguments.newest", "equal to 1"),
    ("id twice", ("steps.yaml", "id: log", "id: announce"), "steps.1 (announce).id", "Give it another id"),
    ("unknown condition", ("steps.yaml", "when: not cases", "when: not case"), "steps.6 (advise_own).when", "mean 'cases'?"),
    ("later step named", ("steps.yaml", "when: cases", "when: confirm"), "steps.5 (advise_case).when", "names no earlier step"),
    ("unknown step in a text", ("steps.yaml", "{steps.cases.summary} Check", "{steps.case.summary} Check"),
     "steps.5 (advise_case).arguments.text", "Did you mean 'cases'?"),
    ("unknown result in a text", ("steps.yaml", "{steps.cases.summary} Check", "{steps.cases.sumary} Check"),
     "steps.5 (advise_case).arguments.text", "Did you mean 'summary'?"),
    ("unknown alarm field", ("steps.yaml", "It is at {alarm.value}", "It is at {alarm.valu}"),
     "steps.0 (announce).arguments.text", "Did you mean 'value'?"),
    ("a language missing", ("steps.yaml", ', zh: "当前值为{alarm.value}。"}', "}"),
     "steps.0 (announce).arguments.text", "missing in zh"),
    ("talks too long", ("steps.yaml", "Check the fan and its filter first. The housing is hot.", "One. Two. Three."),
     "steps.6 (advise_own).arguments.text", "Say less"),
    ("silent start", ("steps.yaml", "  - id: announce\n    tool: say", "  - id: announce\n    when: log\n    tool: say"),
     "steps.0", "Announce the alarm"),
]  # fmt: skip


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[Change], Path]:
    folder = tmp_path / "playbooks"
    shutil.copytree(CONFIG / "playbooks", folder)

    def change(what: Change) -> Path:
        name, old, new = what
        path = folder / "over-temperature" / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), "utf-8")
        return path

    return change


@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(("change", "key", "cure"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_names_file_key_and_cure(broken: Callable[[Change], Path], change: Change, key: str, cure: str) -> None:
    path = broken(change)
    with pytest.raises(ConfigError) as caught:
        Playbooks.load(path.parents[1], "x")
    assert caught.value.file == str(path)
    assert key in str(caught.value)
    assert cure in str(caught.value)


UNTAKEN = [
    ("notify", '{text: hi, topic: "office/motors/"}', "topic", "match pattern"),
    ("notify", '{text: "", webhook: office}', "text", "at least 1"),
    ("notify", "{text: hi, webhook: " + "w" * 64 + "}", "webhook", "at most 63"),
    ("say", '{text: ""}', "text", "at least 1"),
    ("say", '{text: {en: "  ", zh: "  "}}', "text", "at least 1"),
    ("say", "{text: " + "x" * 4_001 + "}", "text", "at most 4000"),
    ("say", '{text: "{alarm.value} ' + "x" * 4_001 + '"}', "text", "at most 4000"),
    ("ask", '{question: ""}', "question", "at least 1"),
    ("schedule_check", "{minutes: -5, sentence: hi}", "minutes", "greater than 0"),
    ("schedule_check", '{minutes: 5, sentence: ""}', "sentence", "at least 1"),
    ("write_report", '{title: "", lines: [a]}', "title", "at least 1"),
    ("say", '{text: "It is at {alarm.value} (see { in manual)."}', "text", "has a single {"),
    ("say", '{text: "a } b"}', "text", "has a single }"),
    ("say", '{text: "a\\0b"}', "text", "U+0000"),
    ("say", '{text: "\\x1b[31m red"}', "text", "U+001B"),
]


@pytest.mark.req("A1", "T1")
@pytest.mark.parametrize(("tool", "arguments", "name", "what"), UNTAKEN)
def test_what_a_tool_would_not_take_is_a_fault_when_it_is_loaded(
    broken: Callable[[Change], Path], tool: str, arguments: str, name: str, what: str
) -> None:
    path = broken(("steps.yaml", "steps:\n", "steps:\n"))
    with path.open("a", encoding="utf-8") as file:
        file.write(f"  - id: added\n    tool: {tool}\n    arguments: {arguments}\n")
    with pytest.raises(ConfigError) as caught:
        Playbooks.load(path.parents[1], "x", shipped_tool_levels(), shipped_contracts())
    assert caught.value.file == str(path)
    assert caught.value.key.endswith(f"(added).arguments.{name}")
    assert what in caught.value.message and caught.value.cure


def test_what_is_shipped_is_what_the_tools_take() -> None:
    assert Playbooks.load(CONFIG / "playbooks", "x", shipped_tool_levels(), shipped_contracts()).names


def test_all_faults_of_all_files_are_named_at_once(broken: Callable[[Change], Path]) -> None:
    broken(("SKILL.md", "access: operator", "acess: operator"))
    path = broken(("steps.yaml", "{newest: 8}", "{newst: 8}"))
    (path.parents[1] / "overcurrent" / "steps.yaml").unlink()
    with pytest.raises(ConfigError) as caught:
        Playbooks.load(path.parents[1], "x")
    for part in (
        "over-temperature/SKILL.md",
        "acess",
        "over-temperature/steps.yaml",
        "newst",
        "overcurrent/steps.yaml",
        "cannot be read",
    ):
        assert part in str(caught.value)


def test_twelve_incidents_ship_of_the_plants_faults_each_one_sentence() -> None:
    incidents = load_incidents(CONFIG / "incidents.yaml")
    assert len(incidents) == len({i.id for i in incidents}) == 12
    assert {i.fault for i in incidents} == {a.fault for a in shipped_plant().alarms} - {"unreachable"}
    assert all(sentence_count(i.text) == 1 and i.remedy for i in incidents)
    assert [i.id for i in incidents if not i.verified] == ["inc-2023-040"]


# access ----------------------------------------------------------------------------------------------------------------
HEAD = """---
name: {name}
description: For a test
triggers: {triggers}
access: {access}
---
Do it.
"""
ORDER = """parameters:
  asset: {kind: asset}
steps:
  - {id: told, tool: say, arguments: {text: "It is hot."}}
  - {id: order, tool: create_work_order, optional: true, arguments: {title: "x", detail: "x"}}
"""
CALLS = """steps:
  - {id: told, tool: say, arguments: {text: "It is hot."}}
  - {id: hours, tool: call, optional: true, arguments: {name: hours_run}}
"""
RUNS = """parameters:
  asset: {kind: asset}
steps:
  - {id: more, tool: run_playbook, arguments: {playbook: order, parameters: {asset: "{asset}"}}}
"""


def add(folder: Path, name: str, steps: str, access: str, triggers: str = "") -> Path:
    (folder / name).mkdir(parents=True)
    head = HEAD.format(name=name, access=access, triggers=triggers or f"{{names: {{en: [{name}]}}}}")
    (folder / name / "SKILL.md").write_text(head, "utf-8")
    (folder / name / "steps.yaml").write_text(steps, "utf-8")
    return folder


@pytest.mark.req("T3")
def test_a_step_that_needs_more_than_its_playbook_gives_is_a_fault_named_with_all_others(tmp_path: Path) -> None:
    add(tmp_path, "order", ORDER, "internal")
    add(tmp_path, "calls", CALLS, "operator")
    add(tmp_path, "broken", ORDER.replace("say", "sya"), "operator")
    with pytest.raises(ConfigError) as caught:
        Playbooks.load(tmp_path, "x", shipped_tool_levels() | {"hours_run": AccessLevel.CRITICAL})
    found = str(caught.value)
    assert "order/SKILL.md: access: is internal, and its step order calls create_work_order, which needs operator" in found
    assert "Write `access: operator`, or leave the step out." in found
    assert "calls/SKILL.md: access: is operator, and its step hours calls hours_run, which needs critical" in found
    assert "there is no tool 'sya' here" in found


@pytest.mark.req("T3")
def test_a_playbook_that_runs_one_above_it_is_a_fault_and_a_tool_nobody_knows_is_none(tmp_path: Path) -> None:
    add(tmp_path, "order", ORDER, "operator")
    add(tmp_path, "runs", RUNS, "internal")
    add(tmp_path, "calls", CALLS, "public")
    with pytest.raises(ConfigError, match="is internal, and its step more runs order, which needs operator") as caught:
        Playbooks.load(tmp_path, "x", shipped_tool_levels())
    assert "hours_run" not in str(caught.value)


@pytest.mark.req("T3")
def test_what_an_alarm_could_never_have_done_is_a_fault(tmp_path: Path) -> None:
    add(tmp_path, "calls", CALLS, "critical", "{faults: [over_temperature]}")
    with pytest.raises(ConfigError, match="what an alarm has done is done as operator"):
        Playbooks.load(tmp_path, "x", {"hours_run": AccessLevel.CRITICAL})


# one with a fault costs itself -----------------------------------------------------------------------------------------
@pytest.mark.req("T3")
@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(
    ("steps", "access", "triggers", "why"),
    [
        (ORDER, "internal", "", "create_work_order"),
        (ORDER.replace("say", "sya"), "operator", "", "there is no tool 'sya'"),
        (ORDER, "operator", "{names: {en: [overheating]}}", "is also a name of over-temperature"),
        (ORDER, "operator", '{phrases: {en: ["order {asset} <nothing>"]}}', "unknown rule <nothing>"),
        (ORDER, "operator", '{phrases: {en: ["order {asset} (now|"]}}', "brackets do not pair"),
        (ORDER, "operator", '{phrases: {en: ["order {asset} {}"]}}', "not a template"),
    ],
    ids=["access", "steps", "a name of another", "sentence", "brackets", "no template"],
)
def test_a_learned_playbook_with_a_fault_costs_itself_alone(
    tmp_path: Path, steps: str, access: str, triggers: str, why: str
) -> None:
    folder = tmp_path / "playbooks"
    shutil.copytree(CONFIG / "playbooks", folder)
    add(folder, "a-learned-one", steps, access, triggers)
    plain = Phrasebook.load(PHRASES, shipped_plant())
    sound = load_sound(folder, "c0ffee", CONFIG / "playbooks", plain, shipped_tool_levels())
    assert sound.playbooks.names == ("check-motor", *SHIPPED)
    assert list(sound.unsound) == ["a-learned-one"]
    assert why in str(sound.unsound["a-learned-one"])
    assert sound.phrasebook.understand("check motor three", "en") is not None


@pytest.mark.field("FC-O03")
def test_in_the_place_of_an_edited_one_with_a_fault_comes_the_configured_one(broken: Callable[[Change], Path]) -> None:
    folder = broken(("steps.yaml", "tool: read_plc_log", "tool: read_plc_lag")).parents[1]
    add(folder, "runs", RUNS.replace("order", "a-lost-one"), "operator")
    (folder / "a-lost-one").mkdir()
    (folder / "a-lost-one" / "SKILL.md").write_text("nothing", "utf-8")
    plain = Phrasebook.load(PHRASES, shipped_plant())
    sound = load_sound(folder, "c0ffee", CONFIG / "playbooks", plain, shipped_tool_levels())
    assert set(sound.unsound) == {"over-temperature", "a-lost-one", "runs"}
    assert sound.playbooks.names == ("check-motor", *SHIPPED)
    assert str(CONFIG) in sound.playbooks["over-temperature"].path
