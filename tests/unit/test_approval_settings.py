"""Rules that mean nothing are found before they are needed: file, key, nearest name and cure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from appliance.contracts.errors import ConfigError
from appliance.settings_faults import ConfigFaults
from appliance.settings_last_good import check_settings
from tests.support.planning import CONFIG

pytestmark = pytest.mark.req("O5", "X5")

READ = "read_tags"


def checked(folder: Path, policies: dict[str, object]) -> list[str]:
    """What is wrong with a configuration that has these policies."""
    config = shutil.copytree(CONFIG, folder / "config")
    (config / "policies.yaml").write_text(yaml.safe_dump(policies), encoding="utf-8")
    try:
        check_settings(config, {})
    except ConfigFaults as faults:
        return [fault.message for fault in faults.faults]
    except ConfigError as fault:
        return [fault.message]
    return []


def write(*interlocks: str, **changes: object) -> dict[str, object]:
    return {"writes": [{"tags": ["motor_3.fan_speed"], "interlocks": [{"require": text} for text in interlocks]} | changes]}


CASES: list[tuple[dict[str, object], str, str, str]] = [
    ({"approvals": {"ask": ["write_tags"]}}, "approvals.ask[0].tools[0]", "no tool write_tags", "Did you mean 'write_tag'?"),
    (
        {"approvals": {"deny": [{"subjects": ["motor_3.fanspeed"]}]}},
        "approvals.deny[0].subjects[0]", "no tag, asset or alarm", "'motor_3.fan_speed'",
    ),
    (
        {"approvals": {"deny": [{"tools": ["say"], "subjects": ["motor_3"]}]}},
        "approvals.deny[0].subjects", "about nothing that has a name", "Leave subjects out",
    ),
    (
        {"approvals": {"deny": [{"tools": ["write_tag", "say"], "subjects": ["motor_3"]}]}},
        "approvals.deny[0].subjects", "calls of say are about nothing that has a name", "Leave subjects out",
    ),
    (
        {"approvals": {"deny": [{"tools": ["write_tag"], "subjects": ["motor_3_over_temperature"]}]}},
        "approvals.deny[0].subjects[0]", "nothing that calls of write_tag are about", "",
    ),
    (
        {"approvals": {"deny": [{"tools": ["acknowledge_alarm"], "subjects": ["motor_3.fan_speed"]}]}},
        "approvals.deny[0].subjects[0]", "nothing that calls of acknowledge_alarm are about", "",
    ),
    (
        {"approvals": {"allow": [{"tools": [READ], "roles": ["operators"]}]}},
        "approvals.allow[0].roles[0]", "no role operators", "'operator'",
    ),
    ({"approvals": {"deny": [{}]}}, "approvals.deny[0]", "a rule needs tools, subjects or roles", ""),
    ({"approvals": {"refuse": []}}, "approvals.refuse", "unknown key", "Valid here: allow, ask, deny, unattended."),
    (
        {"approvals": {"deny": [{"tools": [READ], "why": {"de": "Nein"}}]}},
        "approvals.deny[0].why.de", "de is not spoken here", "Valid here: en, zh.",
    ),
    (
        write("motor_3.temprature < 90"),
        "writes[0].interlocks[0].require", "motor_3.temprature is not a tag", "'motor_3.temperature'",
    ),
    (write("1 < 2"), "writes[0].interlocks[0].require", "1 < 2 is about no tag", "Compare a tag with it, or leave it out."),
    (
        write("motor_3.temperature < 90 or true"),
        "writes[0].interlocks[0].require", "true is about no tag", "Compare a tag with it, or leave it out.",
    ),
    (
        write("motor_3.fan_speed < 90000"),
        "writes[0].interlocks[0].require", "motor_3.fan_speed is never 90000", "It shows 0 to",
    ),
    (
        {"writes": [{"tags": ["*"], "interlocks": [{"require": "pump_3.running", "fresh_s": 0.0001}]}]},
        "writes[0].interlocks[0].fresh_s", "greater than or equal to 0.5", "",
    ),
    (write("pump_3.running > 5"), "writes[0].interlocks[0].require", "they cannot be compared", "Compare numbers with numbers"),
    (write("motor_3.temperature <"), "writes[0].interlocks[0]", "is no expression", ""),
    (write("open('x') == 1"), "writes[0].interlocks[0]", "is not understood", ""),
    (write(tags=["motor_3.temperature"]), "writes[0].tags[0]", "is not writable", "name one that is: conveyor_3.speed"),
    (write(tags=["motor_4.fan_speed"]), "writes[0].tags[0]", "is not a tag", "Did you mean 'motor_3.fan_speed'?"),
    (write(access="public"), "writes[0].access", "", "level needed"),
    (write(most={"count": 0, "within_s": 1}), "writes[0].most.count", "", "writes of one tag"),
    (write(interlock=[]), "writes[0].interlock", "unknown key", "Did you mean 'interlocks'?"),
]  # fmt: skip


@pytest.mark.parametrize(("policies", "key", "what", "cure"), CASES)
def test_each_fault_names_its_place_and_its_cure(
    tmp_path: Path, policies: dict[str, object], key: str, what: str, cure: str
) -> None:
    told = checked(tmp_path, policies)
    assert len(told) == 1, told
    assert "policies.yaml" in told[0] and key in told[0] and what in told[0] and cure in told[0], told[0]


def test_what_the_shipped_file_shows_in_its_remarks_is_sound(tmp_path: Path) -> None:
    lines = (CONFIG / "policies.yaml").read_text("utf-8").splitlines()
    start = lines.index("approvals:")
    shown = [
        line.replace("# ", "", 1) if line.lstrip().startswith("# - ") or line.startswith("  #   ") else line
        for line in lines[start:]
    ]
    told = [line.replace("deny: []", "deny:").replace("writes: []", "writes:") for line in shown]
    policies = yaml.safe_load("\n".join(told))
    assert policies["approvals"]["deny"] and policies["writes"][0]["interlocks"]
    assert checked(tmp_path, policies) == []
