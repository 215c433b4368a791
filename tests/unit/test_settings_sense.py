"""What a configuration says in good form and can never mean: each is named before it is used, in words that help."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from appliance.contracts.errors import ConfigError
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.playbooks.procedure_book import ProcedureBook
from appliance.settings_last_good import check_settings
from appliance.settings_rules import shipped_tool_names, warnings_of
from tests.support.planning import CONFIG, PHRASES, shipped_plant

pytestmark = [pytest.mark.req("O5"), pytest.mark.field("FC-O03")]

HEAD = "---\nname: cool\ndescription: Cool it\ntriggers:\n  names: {en: [cooling]}\n---\nCool it.\n"
ASSET = "parameters: {asset: {kind: asset, tags: [temperature]}}\n"
MINUTES = "parameters: {minutes: {kind: number, low: 5, high: 60}}\n"
WRITE = "  - {id: fan, tool: write_tag, arguments: {tag: fan_speed, value: 80}}\n"
TELL = '  - {id: told, tool: say, arguments: {text: "cooling"}}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(CONFIG, tmp_path / "config")


def add(folder: Path, steps: str, *, head: str = HEAD, name: str = "cool") -> None:
    place = folder / "playbooks" / name
    place.mkdir()
    (place / "SKILL.md").write_text(head.replace("name: cool\n", f"name: {name}\n"), "utf-8")
    (place / "steps.yaml").write_text(steps, "utf-8")


def change(folder: Path, file: str, more: str) -> None:
    path = folder / file
    path.write_text(path.read_text("utf-8") + "\n" + more, "utf-8")


def wrong(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        check_settings(folder, {})
    return str(caught.value)


# writes of playbooks ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change_to", "told"),
    [
        (("value: 80", "value: 101"), "101 is beyond the limits of 'fan_speed'. Write a value from 0 up to 100."),
        (("value: 80", "value: -1"), "-1 is beyond the limits of 'fan_speed'. Write a value from 0 up to 100."),
        (("tag: fan_speed", "tag: vibration"), "'vibration' is not writable. Valid: acknowledge, fan_speed, reset."),
        (("tag: fan_speed", "tag: fan_sped"), "no machine it is for has a tag 'fan_sped'. Did you mean 'fan_speed'?"),
    ],
    ids=["above", "below", "not writable", "not there"],
)
def test_a_write_of_a_playbook_that_no_machine_can_take_is_named(folder: Path, change_to: tuple[str, str], told: str) -> None:
    add(folder, ASSET + "steps:\n" + WRITE.replace(*change_to))
    found = wrong(folder)
    assert told in found
    assert "steps.yaml: steps.0 (fan).arguments." in found


def test_a_write_within_the_limits_is_sound(folder: Path) -> None:
    add(folder, ASSET + "steps:\n" + WRITE)
    check_settings(folder, {})


# conditions of playbooks ---------------------------------------------------------------------------------------------
STATUS = """  - {name: status, asset: motor_3, link: line_3, device_id: 1, kind: holding_register, address: 900, type: uint16,
     flags: {0: ready, 1: fault}, spoken: {en: [status], zh: [状态]}}
"""
READ = "  - {id: read, tool: read_tags, arguments: {tags: all}}\n"


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("now.status != 'falt'", "status is never 'falt'. Did you mean 'fault'?"),
        ("read.values.motor_3.status != 'falt'", "values.motor_3.status is never 'falt'. Did you mean 'fault'?"),
        ("now.statsu != 'fault'", "no machine it is for has a tag 'statsu'. Did you mean 'status'?"),
        ("now.status != 'fault' and now.status.value == 'ready' and now.temperature > 80", ""),
    ],
)
def test_a_condition_on_what_no_machine_shows_is_named(folder: Path, when: str, told: str) -> None:
    head, _, rest = (folder / "plant.yaml").read_text("utf-8").partition("\ntags:\n")
    (folder / "plant.yaml").write_text(f"{head}\ntags:\n{STATUS}{rest}", "utf-8")
    add(folder, ASSET + "steps:\n" + READ + TELL.replace("tool: say", f'tool: say, when: "{when}"'))
    if told:
        assert f"steps.1 (told).when: {told}" in wrong(folder)
    else:
        check_settings(folder, {})


# what can be said ------------------------------------------------------------------------------------------------------
def test_a_number_that_nobody_can_say_is_named(folder: Path) -> None:
    add(folder, MINUTES + "steps:\n" + TELL)
    assert "triggers.phrases.en: is missing, and who says its name cannot say minutes. Write a sentence with {minutes}." in wrong(
        folder
    )


def test_a_number_that_another_playbook_hands_over_need_not_be_said(folder: Path) -> None:
    add(folder, MINUTES + "steps:\n" + TELL)
    runs = "steps:\n  - {id: go, tool: run_playbook, arguments: {playbook: cool, parameters: {minutes: 10}}}\n"
    add(folder, runs, name="warm", head=HEAD.replace("cooling", "warming"))
    check_settings(folder, {})


def test_the_example_of_a_playbook_with_a_name_alone_is_a_sentence(folder: Path) -> None:
    add(folder, ASSET + "steps:\n" + TELL)
    playbooks = Playbooks.load(folder / "playbooks", "")
    book = ProcedureBook(playbooks, Phrasebook.load(PHRASES, shipped_plant()).knowing(playbooks), shipped_plant())
    playbook = playbooks["cool"]
    example = book._example(playbook, book._tongue("en"))
    assert example == "run the procedure cooling for motor 3"
    understood = book.phrasebook.understand(example, "en")
    assert understood is not None
    assert understood.slots == {"playbook": "cool", "asset": "motor_3"}


@pytest.mark.parametrize(
    ("parameters", "handed", "told"),
    [
        (ASSET + "", '{minutes: "{asset}"}', "is a number there, and '{asset}' is none. Write a number from 5 to 60."),
        ("", "{minutes: 90}", "90 is out of its bounds there. Write a number from 5 to 60."),
        ("", "{minutes: soon}", "is a number there, and 'soon' is none. Write a number from 5 to 60."),
    ],
    ids=["a machine", "too much", "a word"],
)
def test_a_parameter_is_handed_on_as_what_it_is(folder: Path, parameters: str, handed: str, told: str) -> None:
    add(folder, MINUTES + "steps:\n" + TELL)
    runs = f"steps:\n  - {{id: go, tool: run_playbook, arguments: {{playbook: cool, parameters: {handed}}}}}\n"
    add(folder, parameters + runs, name="warm", head=HEAD.replace("cooling", "warming"))
    assert told in wrong(folder)


def test_a_number_is_no_machine(folder: Path) -> None:
    own = "parameters: {minutes: {kind: number, low: 5, high: 60}}\n"
    runs = 'steps:\n  - {id: go, tool: run_playbook, arguments: {playbook: check-motor, parameters: {asset: "{minutes}"}}}\n'
    head = HEAD.replace("  names:", '  phrases: {en: ["warm for {minutes}"]}\n  names:')
    add(folder, own + runs, head=head)
    assert "is a machine there, and '{minutes}' is a number. Write a machine: \"{asset}\"." in wrong(folder)


# words of faults -------------------------------------------------------------------------------------------------------
def test_a_tool_that_is_mistyped_in_a_playbook_is_told_with_the_nearest(folder: Path) -> None:
    add(folder, "steps:\n  - {id: state, tool: reed_tags}\n  - {id: none}\n")
    found = wrong(folder)
    assert "steps.0.tool: there is no tool 'reed_tags' here. Did you mean 'read_tags'?" in found
    assert "steps.1.tool: is missing. Add `tool:`." in found


def test_a_mistyped_key_of_a_model_is_told_with_the_nearest(folder: Path) -> None:
    change(folder, "appliance.yaml", "language_models:\n  - {nam: cloud, model: m, url: https://example.com/v1}\n")
    assert "language_models[0].nam: unknown key. Did you mean 'name'?" in wrong(folder)


def test_an_event_that_is_none_is_one_fault(folder: Path) -> None:
    change(folder, "appliance.yaml", "webhooks:\n  gen: {url: 'https://example.com/hook', events: [alarms]}\n")
    found = wrong(folder)
    assert "webhooks.gen.events[0]" in found
    assert "at least 1 item" not in found


def test_a_question_ends_with_its_own_mark(folder: Path) -> None:
    path = folder / "policies.yaml"
    path.write_text(path.read_text("utf-8").replace("voice: operator", "voice: operater", 1), "utf-8")
    assert "Did you mean 'operator'? Correct it" in wrong(folder)


# tools of others -------------------------------------------------------------------------------------------------------
def test_a_tool_that_ships_cannot_be_disabled_and_one_that_nobody_brings_is_a_warning(folder: Path) -> None:
    change(folder, "appliance.yaml", "tools: {disabled: [count_parts]}\n")
    (warning,) = warnings_of(check_settings(folder, {}))
    assert warning == "appliance.yaml: tools.disabled: no installed package brings a tool count_parts. Remove it."
    path = folder / "appliance.yaml"
    path.write_text(path.read_text("utf-8").replace("[count_parts]", "[write_tag]"), "utf-8")
    found = wrong(folder)
    assert "tools.disabled[0]: write_tag ships, and only tools of other packages can be left out. Refuse its calls in" in found
    assert {"write_tag", "say", "ask"} <= shipped_tool_names()


# reasons ---------------------------------------------------------------------------------------------------------------
def test_a_reason_that_is_missing_in_a_language_is_a_warning(folder: Path) -> None:
    path = folder / "policies.yaml"
    rule = "writes: [{tags: [motor_3.fan_speed], interlocks: [{require: motor_3.temperature < 90, why: {en: Too hot.}}]}]"
    path.write_text(path.read_text("utf-8").replace("\nwrites: []", f"\n{rule}"), "utf-8")
    (warning,) = warnings_of(check_settings(folder, {}))
    assert warning.startswith("policies.yaml: writes[0].interlocks[0].why: is missing in zh; ")
    path.write_text(path.read_text("utf-8").replace("why: {en: Too hot.}", "why: {en: Too hot., zh: 过热。}"), "utf-8")
    assert warnings_of(check_settings(folder, {})) == []
