"""Playbooks: the shipped ones, and how what is wrong with one is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.contracts.errors import ConfigError
from appliance.memory.seed import load_incidents
from appliance.planning.playbooks.playbook_steps import sentence_count
from appliance.planning.playbooks.playbooks import Playbooks
from tests.support.planning import CONFIG, shipped_plant, shipped_playbooks

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
