"""What is wrong in a plant model is told by `config check`, each fault at its line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.contracts.errors import ConfigError
from appliance.settings import load_settings
from appliance.settings_faults import ConfigFaults
from appliance.settings_last_good import check_settings
from drivers.sim.plant_file import load_plant

pytestmark = pytest.mark.req("O5")

SHIPPED = Path(__file__).parents[2] / "config"
Edit = Callable[[str, str, str], None]
_DEVICE = "    retries: 1  "
_HOST = "${FLOORHAND_PLC_HOST:-127.0.0.1}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped configuration."""
    return shutil.copytree(SHIPPED, tmp_path / "config")


@pytest.fixture
def edit(folder: Path) -> Edit:
    def replace(file: str, old: str, new: str) -> None:
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")

    return replace


def faults(folder: Path) -> list[str]:
    with pytest.raises(ConfigFaults) as caught:
        load_settings(folder, {})
    return [fault.message for fault in caught.value.faults]


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "plant.yaml").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.field("FC-F03")
@pytest.mark.parametrize("key", ["", "names: {0017: on}, "])
def test_a_number_with_a_leading_zero_is_refused_by_both_readers(folder: Path, edit: Edit, key: str) -> None:
    if key:
        edit("plant.yaml", "    spoken: {en: [load]", f"    {key.removesuffix(', ')}\n    spoken: {{en: [load]")
    else:
        edit("plant.yaml", "address: 0", "address: 0017")
    line = line_of(folder, "0017")
    first = faults(folder)[0]
    assert first.startswith(f"plant.yaml:{line}: tags[")
    assert first.endswith('0017 begins with a zero, which YAML takes for octal. Write 17, or "0017" in quotes.')
    with pytest.raises(ConfigError, match=rf'line {line}: 0017 begins with a zero.* Write 17, or "0017" in quotes'):
        load_plant(folder / "plant.yaml")


def test_the_faults_of_references_stand_at_their_entries(folder: Path, edit: Edit) -> None:
    edit("plant.yaml", "asset: conveyor_3\n    link: line_3", "asset: conveyor_3\n    link: line_9")
    edit("plant.yaml", "tag: conveyor_3.current,", "tag: conveyor_3.curent,")
    edit("plant.yaml", "    poll: alarms\n    spoken: {en: [temperature]", "    poll: alarm\n    spoken: {en: [temperature]")
    told = faults(folder)
    assert (
        f"plant.yaml:{line_of(folder, 'link: line_9')}: tags[9].link: tag conveyor_3.speed: unknown link line_9. Correct it."
        in told
    )
    assert any(each.startswith(f"plant.yaml:{line_of(folder, 'poll: alarm')}: tags[0].poll: ") for each in told)
    assert any(each.startswith(f"plant.yaml:{line_of(folder, 'curent')}: alarms[2].condition.tag: ") for each in told)


def test_what_is_missing_is_named_by_its_entry(folder: Path, edit: Edit) -> None:
    edit("plant.yaml", "  - name: vibration\n    asset: motor_3", "  - asset: motor_3")
    edit("plant.yaml", "    type: uint16\n    scale: 0.01\n    unit: bar", "    scale: 0.01\n    unit: bar")
    first, second = faults(folder)
    assert "tags[2].name: is missing in motor_3." in first
    assert "tags[6].type: is missing in pump_3.pressure." in second


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (f"host: {_HOST}", "protocol: rtu\n    serial: {device: /dev/x, baud: 9601}", "links[0].serial.baud: 9601 is not a rate"),
    ],
)
def test_values_that_no_plant_can_have(folder: Path, edit: Edit, old: str, new: str, says: str) -> None:
    edit("plant.yaml", old, new)
    assert any(says in fault for fault in faults(folder))


@pytest.mark.parametrize(
    "host", ["plc..local", "tcp://plc", "plc 3", "plc:502", "10.0.0.300", "-plc", "p" * 64 + ".local", "plc\\0"]
)
def test_a_host_that_can_be_none_is_a_fault_of_the_check(folder: Path, edit: Edit, host: str) -> None:
    edit("plant.yaml", _HOST, f'"{host}"')
    with pytest.raises(ConfigFaults) as caught:
        check_settings(folder, {})
    assert f"plant.yaml:{line_of(folder, host)}: links[0].host: " in caught.value.message
    assert "is neither an IP address nor a host name. Write only the address or name" in caught.value.message


@pytest.mark.parametrize("host", ["plc", "plc-3.line-3.local", "10.0.0.7", "fe80::1%eth0", "::1", "PLC.works.", "3com"])
def test_hosts_that_there_are(folder: Path, host: str) -> None:
    assert check_settings(folder, {"FLOORHAND_PLC_HOST": host}).plant.links[0].host == host


def test_the_whole_range_of_a_type_may_be_written(folder: Path, edit: Edit) -> None:
    edit("plant.yaml", "low: 0\n    high: 2\n", "low: 0\n    high: 655.35\n")
    check_settings(folder, {})


@pytest.mark.parametrize(("old", "new"), [("high: 100", "high: 70000"), ("low: 0", "low: -1")])
def test_a_limit_beyond_what_the_registers_hold_is_a_fault_of_the_check(folder: Path, edit: Edit, old: str, new: str) -> None:
    edit("plant.yaml", old, new)
    with pytest.raises(ConfigFaults) as caught:
        check_settings(folder, {})
    key = f"tags[3].{new.partition(':')[0]}"
    assert caught.value.message.startswith(f"plant.yaml:{line_of(folder, new)}: {key}: ")
    assert caught.value.message.endswith("Write a limit between 0 and 65535.")


def test_an_endless_limit_is_none(folder: Path, edit: Edit) -> None:
    edit("plant.yaml", "high: 100", "high: .inf")
    with pytest.raises(ConfigFaults, match="tag fan_speed: low and high must be finite"):
        check_settings(folder, {})


@pytest.mark.parametrize("protocol", ["rtu", "rtu_over_tcp"])
def test_device_0_of_a_serial_line_is_everybody(folder: Path, edit: Edit, protocol: str) -> None:
    place = "serial: {device: /dev/ttyUSB0}" if protocol == "rtu" else "host: gateway"
    edit("plant.yaml", f"host: {_HOST}", f"protocol: {protocol}\n    {place}")
    edit("plant.yaml", "device_id: 1", "device_id: 0")
    (fault,) = faults(folder)
    assert "tags[0].device_id: tag motor_3.temperature: device 0" in fault


@pytest.mark.field("FC-F03")
@pytest.mark.parametrize(("first", "last", "is_sound"), [(90, 99, True), (90, 100, False), (228, 300, False), (229, 300, True)])
def test_the_event_log_stays_out_of_forbidden_ranges(folder: Path, edit: Edit, first: int, last: int, is_sound: bool) -> None:
    fence = f"{{kind: holding_register, first: {first}, last: {last}}}"
    edit("plant.yaml", _DEVICE, f"    devices: [{{id: 1, forbidden: [{fence}]}}]\n    retries: 1  ")
    if is_sound:
        load_settings(folder, {})
    else:
        assert "event_log.address: event_log: lies in a forbidden range of device 1" in faults(folder)[0]


def test_the_check_looks_for_what_links_lead_to(folder: Path, edit: Edit, tmp_path: Path) -> None:
    edit("plant.yaml", _DEVICE, "    protocol: tls\n    tls: {ca: ca.pem}\n    retries: 1  ")
    edit(
        "plant.yaml",
        "\nassets:",
        "\n  - {id: other, host: 127.0.0.1, port: 5020}\n  - {id: u, host: 127.0.0.1, port: 5020, protocol: udp}\nassets:",
    )
    load_settings(folder, {})
    with pytest.raises(ConfigFaults) as caught:
        check_settings(folder, {})
    missing, twice = (fault.message for fault in caught.value.faults)
    assert missing.startswith(f"plant.yaml:{line_of(folder, 'ca.pem')}: links[0].tls.ca: {tmp_path / 'ca.pem'} is missing.")
    assert twice.startswith(
        f"plant.yaml:{line_of(folder, 'id: other')}: links[1]: link other leads to 127.0.0.1:5020 as link line_3"
    )
    (tmp_path / "ca.pem").touch()
    edit("plant.yaml", "{id: other, host: 127.0.0.1, port: 5020}", "{id: other, host: 127.0.0.1, port: 5021}")
    assert check_settings(folder, {}).plant.links[0].tls is not None
