"""Scenario files: what is wrong is named with file, key and cure; the shipped ones are right. Recordings and generated plants."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import ConfigError
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading
from drivers.sim.generating import generate_plant
from drivers.sim.plant_file import load_plant
from drivers.sim.recording import RecordingFile, load_recording
from drivers.sim.scenario import check_against, find_scenarios, load_scenario
from tests.support.plant import PLANT_FILE, shipped_plant, write_yaml

SHIPPED = find_scenarios(PLANT_FILE.parent / "scenarios")
PLANT = shipped_plant()
NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.mark.req("F9")
def test_the_shipped_scenarios_are_there() -> None:
    assert set(SHIPPED) >= {
        "over-temperature", "sensor-fault", "dead-slave", "flapping-contact", "alarm-burst", "network-trouble"
    }  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_scenario_is_sound(name: str) -> None:
    scenario = load_scenario(SHIPPED[name])
    plant = load_plant(SHIPPED[name].parent / scenario.plant if scenario.plant else PLANT_FILE)
    check_against(scenario, plant, name)
    assert scenario.about
    assert scenario.events


@pytest.mark.parametrize(
    ("told", "key", "says"),
    [
        ({"evnts": []}, "evnts", "Did you mean 'events'?"),
        ({"speed": 0}, "speed", "greater than 0"),
        ({"events": [{"at_s": 1, "do": "misbehav", "mode": "slow"}]}, "events.0.do", "Did you mean 'misbehave'?"),
        ({"events": [{"at_s": 1, "do": "misbehave", "mode": "sow"}]}, "events.0.misbehave.mode", "slow"),
        ({"events": [{"at_s": 1, "do": "set", "tag": "a.b"}]}, "events.0.set.to", "is missing"),
        ({"events": [{"at_s": 1}]}, "events.0.do", "is missing. Add `do:`"),
        ({"tags": {"a.b": {"play": {"signal": "sin"}}}}, "tags.a.b.play.signal", "Did you mean 'sine'?"),
        ({"tags": {"a.b": {"play": {"signal": "sine", "amplitude": 1, "period": 3}}}}, "tags.a.b.play.sine.period", "period_s"),
        ({"tags": {"a.b": {"play": {"signal": "file", "file": "no.csv"}}}}, "tags.a.b.play.file.file", "cannot be read"),
    ],
)
def test_a_fault_names_file_key_and_cure(tmp_path: Path, told: dict[str, Any], key: str, says: str) -> None:
    path = write_yaml(tmp_path / "s.yaml", told)
    with pytest.raises(ConfigError) as refusal:
        load_scenario(path)
    assert refusal.value.file == str(path)
    assert key in refusal.value.message
    assert says in refusal.value.message
    assert refusal.value.cure


@pytest.mark.parametrize(
    ("told", "key", "cure"),
    [
        ({"tags": {"motor_3.temprature": {"play": {"signal": "constant", "value": 1}}}}, "tags", "motor_3.temperature"),
        ({"events": [{"do": "set", "tag": "motor_3.lod", "to": 1}]}, "events.0.tag", "motor_3.load"),
        ({"events": [{"do": "overheat", "asset": "motor_4"}]}, "events.0.asset", "motor_3"),
        ({"events": [{"do": "alarm", "alarm": "pump_3_low"}]}, "events.0.alarm", "pump_3_low_pressure"),
        ({"events": [{"do": "burst", "count": 1, "alarms": ["x"]}]}, "events.0.alarms", "pump_3_low_pressure"),
        ({"events": [{"do": "misbehave", "mode": "slow", "link": "line_4"}]}, "events.0.link", "line_3"),
        ({"events": [{"do": "misbehave", "mode": "slow", "device_id": 9}]}, "events.0.device_id", "1"),
    ],
)
def test_a_name_that_the_plant_does_not_have_is_named_with_the_nearest(
    tmp_path: Path, told: dict[str, Any], key: str, cure: str
) -> None:
    path = write_yaml(tmp_path / "s.yaml", told)
    with pytest.raises(ConfigError) as refusal:
        check_against(load_scenario(path), PLANT, str(path))
    assert refusal.value.key.startswith(key)
    assert cure in refusal.value.cure


@pytest.mark.parametrize(
    ("do", "tag", "to"),
    [
        ("set", "motor_3.temperature", 4000), ("set", "motor_3.temperature", "hot"), ("set", "motor_3.load", -1),
        ("set", "pump_3.running", 17), ("set", "pump_3.running", "on"), ("ramp", "motor_3.load", 1e9),
    ],
)  # fmt: skip
def test_a_value_that_a_tag_cannot_hold_is_found_before_it_is_played(tmp_path: Path, do: str, tag: str, to: Any) -> None:
    more = {"over_s": 1} if do == "ramp" else {}
    path = write_yaml(tmp_path / "s.yaml", {"events": [{"do": do, "tag": tag, "to": to} | more]})
    with pytest.raises(ConfigError) as refusal:
        check_against(load_scenario(path), PLANT, str(path))
    assert refusal.value.key == "events.0.to"


@pytest.mark.parametrize(("tag", "to"), [("motor_3.temperature", -40), ("pump_3.running", 1), ("pump_3.running", False)])
def test_a_value_that_a_tag_can_hold_is_sound(tmp_path: Path, tag: str, to: Any) -> None:
    path = write_yaml(tmp_path / "s.yaml", {"events": [{"do": "set", "tag": tag, "to": to}]})
    check_against(load_scenario(path), PLANT, str(path))


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "\xff"])
def test_what_is_no_scenario_at_all_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError):
        load_scenario(tmp_path / "s.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_scenario(tmp_path / "none.yaml")


def reading(key: str, raw: tuple[int, ...], quality: Quality = Quality.GOOD, value: float | None = 1.5) -> Reading:
    return Reading(key, value, "", quality, None, raw)


def recorded(path: Path, plant: Plant = PLANT) -> Path:
    file = RecordingFile(path, plant, NOW, 0.5)
    file.add(0.0, [reading("motor_3.temperature", (620,)), reading("pump_3.pressure", (400,))])
    file.add(0.5, [reading("motor_3.temperature", (621,)), reading("pump_3.pressure", (400,))])
    file.add(1.0, [reading("motor_3.temperature", (621,), Quality.STALE), reading("pump_3.pressure", (), Quality.BAD, None)])
    file.close()
    return path


@pytest.mark.req("F9")
def test_a_recording_keeps_changes_and_reads_back(tmp_path: Path) -> None:
    recording = load_recording(recorded(tmp_path / "line.jsonl"))
    assert recording.plant == PLANT
    assert [sorted(sample.tags) for sample in recording.samples] == [
        ["motor_3.temperature", "pump_3.pressure"], ["motor_3.temperature"], ["motor_3.temperature", "pump_3.pressure"]
    ]  # fmt: skip
    last = recording.samples[-1].tags
    assert last["motor_3.temperature"].is_unread
    assert last["pump_3.pressure"].is_unread
    assert recording.lasts_s == 1.0


def test_a_recording_survives_a_torn_last_line_and_is_never_overwritten(tmp_path: Path) -> None:
    path = recorded(tmp_path / "line.jsonl")
    with path.open("a", encoding="utf-8") as torn:
        torn.write('{"t_s": 1.5, "ta')
    assert len(load_recording(path).samples) == 3
    with pytest.raises(ConfigError, match="Name another file"):
        RecordingFile(path, PLANT, NOW, 0.5)


def test_a_recording_of_a_device_with_other_addressing_keeps_the_wire_addresses(tmp_path: Path) -> None:
    told = PLANT.model_dump(mode="json", exclude_unset=True)
    told["links"][0]["devices"] = [{"id": 1, "addressing": "one_based"}]
    for tag in told["tags"]:
        tag["address"] += 1
    plant = Plant.model_validate(told)
    again = load_recording(recorded(tmp_path / "line.jsonl", plant)).plant
    assert [tag.address for tag in again.tags] == [tag.address for tag in PLANT.tags]


@pytest.mark.parametrize(
    "lines", [[], ["{}"], ["[]"], ["nonsense"], [{"t_s": 0, "tags": {"no.tag": {"raw": [1], "quality": "good"}}}],
              [{"t_s": 0, "tags": {"motor_3.load": {"raw": [1, 2], "quality": "good"}}}]]
)  # fmt: skip
def test_what_is_no_recording_is_refused(tmp_path: Path, lines: list[Any]) -> None:
    path = tmp_path / "line.jsonl"
    head = {"recording": 1, "started_utc": NOW.isoformat(), "every_s": 1, "plant": PLANT.model_dump(mode="json")}
    written = [head, *lines] if lines and isinstance(lines[0], dict) else lines
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in written), encoding="utf-8")
    with pytest.raises(ConfigError):
        load_recording(path)


@pytest.mark.req("F9")
def test_a_generated_plant_is_valid_whole_and_spread_over_its_devices() -> None:
    plant = Plant.model_validate(
        generate_plant(assets=50, tags_per_asset=20, alarms=120, devices=7, every_s=1, host="h", port=502)
    )
    assert (len(plant.tags), len(plant.alarms), len(plant.alarm_by_source_id)) == (1000, 120, 120)
    assert {tag.device_id for tag in plant.tags} == set(range(1, 8))
    spans = sorted((tag.device_id, tag.kind, tag.address, tag.register_count) for tag in plant.tags)
    for one, next_ in pairwise(spans):
        assert one[:2] != next_[:2] or one[2] + one[3] == next_[2], "side by side"


@pytest.mark.parametrize("numbers", [{"alarms": 500}, {"devices": 60}])
def test_numbers_that_do_not_fit_are_refused(numbers: dict[str, int]) -> None:
    given: dict[str, Any] = {"assets": 50, "tags_per_asset": 5, "alarms": 5, "devices": 7, "every_s": 1, "host": "h", "port": 502}
    with pytest.raises(ValueError, match="asset"):
        generate_plant(**given | numbers)
