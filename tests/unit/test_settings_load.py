"""The configuration: as shipped, with variables, with faults, and with a last good copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.contracts.errors import ConfigError
from appliance.settings import Settings, find_data_dir, find_socket, load_settings
from appliance.settings_faults import ConfigFaults
from appliance.settings_last_good import check_settings, keep_sound, settings_for_service

pytestmark = pytest.mark.req("O5")

SHIPPED = Path(__file__).parents[2] / "config"
Edit = Callable[[str, str, str], None]


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


def faults(folder: Path, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigFaults) as caught:
        load_settings(folder, environ or {})
    assert all(fault.message in str(caught.value) for fault in caught.value.faults)
    return [fault.message for fault in caught.value.faults]


def test_the_shipped_configuration_is_sound_with_no_variable_set() -> None:
    settings = check_settings(SHIPPED, {})
    assert settings.data_dir == SHIPPED.parent / "var"
    assert settings.socket == settings.data_dir / "run" / "api.sock"
    assert settings.voice.language == settings.language == "en"
    assert not settings.sync.is_enabled
    assert settings.mqtt.password is None


def test_variables_are_put_in_and_take_the_type_of_their_setting(folder: Path) -> None:
    environ = {
        "FLOORHAND_MQTT_PORT": "18830",
        "FLOORHAND_MQTT_USER": "floorhand",
        "FLOORHAND_MQTT_PASSWORD": "pass: word # ünïcode",
        "FLOORHAND_PLC_HOST": "10.0.0.7",
        "FLOORHAND_PLC_PORT": "5021",
        "FLOORHAND_SPEAKER_RECORD": "out.wav",
        "FLOORHAND_DATA": "/var/lib/floorhand",
    }
    settings = load_settings(folder, environ)
    assert settings.mqtt.port == 18830
    assert settings.mqtt.password is not None
    assert settings.mqtt.password.get_secret_value() == "pass: word # ünïcode"
    assert (settings.plant.links[0].host, settings.plant.links[0].port) == ("10.0.0.7", 5021)
    assert settings.voice.record_to == folder.parent / "out.wav"
    assert settings.data_dir == Path("/var/lib/floorhand")


def test_settings_are_frozen(folder: Path) -> None:
    settings = load_settings(folder, {})
    with pytest.raises(ValueError, match="frozen"):
        settings.origin = "other"  # type: ignore[misc]


def test_a_missing_variable_names_file_key_and_variable(folder: Path, edit: Edit) -> None:
    edit("appliance.yaml", "${FLOORHAND_MQTT_HOST:-127.0.0.1}", "${PLANT_BROKER}")
    (fault,) = faults(folder)
    assert fault.startswith("appliance.yaml:")
    assert "mqtt.host: the environment variable PLANT_BROKER is not set" in fault
    assert load_settings(folder, {"PLANT_BROKER": "broker"}).mqtt.host == "broker"


@pytest.mark.parametrize(("written", "wanted"), [("$${HOME}x", "${HOME}x"), ("a${EMPTY:-}b", "ab"), ("${SET:-no}-1", "yes-1")])
def test_references_within_a_value(folder: Path, edit: Edit, written: str, wanted: str) -> None:
    edit("appliance.yaml", "${FLOORHAND_MQTT_HOST:-127.0.0.1}", f'"{written}"')
    assert load_settings(folder, {"SET": "yes"}).mqtt.host == wanted


@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(
    ("file", "old", "new", "key", "cure"),
    [
        ("appliance.yaml", "  host:", "  hots:", "mqtt.hots", "Did you mean 'host'?"),
        ("appliance.yaml", "recogniser: auto", "recognizer: auto", "voice.recognizer", "Did you mean 'recogniser'?"),
        ("appliance.yaml", "log_level:", "loglevel:", "loglevel", "Did you mean 'log_level'?"),
        ("appliance.yaml", "wake_word: {model", "wake_word: {modell", "voice.wake_word.modell", "Did you mean 'model'?"),
        ("policies.yaml", "base_tool_s:", "base_tools:", "session.base_tools", "Did you mean 'base_tool_s'?"),
        ("appliance.yaml", "  socket:", "  zzz:", "console.zzz", "Valid here: public_url, socket."),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name(
    folder: Path, edit: Edit, file: str, old: str, new: str, key: str, cure: str
) -> None:
    edit(file, old, new)
    line = next(n for n, text in enumerate((folder / file).read_text(encoding="utf-8").splitlines(), 1) if new in text)
    assert faults(folder)[0] == f"{file}:{line}: {key}: unknown key. {cure}"


def test_an_unknown_key_in_a_list_of_the_plant_is_found(folder: Path) -> None:
    plant = (folder / "plant.yaml").read_text(encoding="utf-8")
    (folder / "plant.yaml").write_text(plant.replace("port:", "prot:", 1), encoding="utf-8")
    assert any("links[0].prot: unknown key. Did you mean 'port'?" in fault for fault in faults(folder))


def test_all_faults_come_at_once(folder: Path, edit: Edit) -> None:
    edit("appliance.yaml", "language: en ", "language: fr ")
    edit("policies.yaml", "retention_days: 30", "retention_days: 0")
    edit("appliance.yaml", "synthesizer: auto", "synthesizer: piperr")
    edit("plant.yaml", "port:", "prot:")
    found = "\n".join(faults(folder))
    for expected in ("memory.retention_days", "voice.synthesizer", "links[0].prot"):
        assert expected in found


def test_a_message_with_a_semicolon_is_one_fault(folder: Path, edit: Edit) -> None:
    edit("appliance.yaml", "log_level:", "gpio: {buzzer: {pin: 5}, push_to_talk: {pin: 5}}\nlog_level:")
    (fault,) = faults(folder)
    assert "give each a pin of its own" in fault


def test_what_single_values_cannot_show(folder: Path, edit: Edit) -> None:
    edit("appliance.yaml", "languages: [en, zh]", "languages: [en, zh, fr]")
    edit("appliance.yaml", "${FLOORHAND_DATA:-var}", "/" + "d" * 120)
    edit("appliance.yaml", "  synthesizer: auto", "  language: en\n  synthesizer: auto")
    found = faults(folder)
    assert any("language fr has no phrases" in fault for fault in found)
    assert any("console.socket: the path of the socket is too long" in fault for fault in found)
    assert any("voice.language: unknown key. Write language at the top level" in fault for fault in found)


@pytest.mark.parametrize(
    ("text", "line"),
    [("origin: a\nmqtt: {host: x\nlanguage: en\n", 3), ("origin: a\n\tlanguage: en\n", 2), ("a: *b\n", 1), ("a: 'x\n", 2)],
)
def test_a_syntax_fault_names_its_line(folder: Path, text: str, line: int) -> None:
    (folder / "appliance.yaml").write_text(text, encoding="utf-8")
    assert faults(folder)[0].startswith(f"appliance.yaml:{line}: ")


def test_strange_files_are_faults_not_crashes(folder: Path) -> None:
    (folder / "appliance.yaml").write_bytes(b"origin: \xff\n")
    (folder / "policies.yaml").write_text("- a\n- b\n", encoding="utf-8")
    (folder / "plant.yaml").unlink()
    found = faults(folder)
    assert [fault.partition(":")[0] for fault in found] == ["appliance.yaml", "policies.yaml", "plant.yaml"]
    (folder / "appliance.yaml").write_text("origin: !tag x\norigin: y\n? [1]\n: 2\n", encoding="utf-8")
    found = faults(folder)
    assert any("origin: is given twice" in fault for fault in found)
    (folder / "appliance.yaml").write_text("origin: o\na: &a [*a]\n", encoding="utf-8")
    assert faults(folder)[0].startswith("appliance.yaml:2: (file): an anchor contains itself")


@pytest.mark.req("X4")
def test_no_secret_in_any_message(folder: Path, edit: Edit) -> None:
    secret = "s3cr3t-Pa55"
    environ = {"FLOORHAND_MQTT_PASSWORD": secret, "FLOORHAND_MQTT_USER": "u", "FLOORHAND_COORDINATOR_TOKEN": secret}
    edit(
        "appliance.yaml",
        "  coordinator: ${FLOORHAND_COORDINATOR_URL:-}",
        "  coordinator: http://x/?${FLOORHAND_COORDINATOR_TOKEN}",
    )
    edit("appliance.yaml", "  port: ${FLOORHAND_MQTT_PORT:-1883}", "  port: ${FLOORHAND_MQTT_PASSWORD}")
    edit("appliance.yaml", "language: en ", "language: ${FLOORHAND_MQTT_PASSWORD} ")
    found = "\n".join(faults(folder, environ))
    assert "mqtt.port" in found
    assert secret not in found
    for broken in (f"mqtt: {{password: *{secret}}}\n", f"mqtt: {{password: !{secret}}}\n", f'mqtt: {{password: "{secret}\n'):
        (folder / "appliance.yaml").write_text(broken, encoding="utf-8")
        assert secret not in "\n".join(faults(folder))
    settings = load_settings(SHIPPED, environ)
    assert secret not in repr(settings)
    assert secret not in settings.model_dump_json()


def test_phrases_and_playbooks_are_part_of_the_check(folder: Path, edit: Edit) -> None:
    check_settings(folder, {})
    shutil.rmtree(next((folder / "playbooks").iterdir()))
    load_settings(folder, {})
    with pytest.raises(ConfigError, match="names a playbook that is not there"):
        check_settings(folder, {})


def started(folder: Path, environ: dict[str, str]) -> Settings:
    """What a core that owns its data folder runs with."""
    settings = settings_for_service(folder, environ)
    keep_sound(settings)
    return settings


@pytest.mark.field("FC-O04")
def test_a_broken_configuration_starts_from_the_last_good_copy(folder: Path, edit: Edit, tmp_path: Path) -> None:
    environ = {"FLOORHAND_DATA": str(tmp_path / "data"), "FLOORHAND_SPEAKER_RECORD": "out.wav"}
    good = started(folder, environ)
    assert good.config_fault == ""
    edit("appliance.yaml", "  host:", "  hots:")
    fallen_back = started(folder, environ)
    assert "mqtt.hots" in fallen_back.config_fault
    assert fallen_back.mqtt == good.mqtt
    assert fallen_back.voice.record_to == good.voice.record_to
    assert fallen_back.phrases_dir.is_dir()
    assert fallen_back.phrases_dir != good.phrases_dir
    (folder / "appliance.yaml").write_text("{", encoding="utf-8")
    assert started(folder, environ).mqtt == good.mqtt
    (folder / "phrases" / "en.yaml").write_text("{", encoding="utf-8")
    shutil.copy(SHIPPED / "appliance.yaml", folder)
    assert "en.yaml" in started(folder, environ).config_fault
    with pytest.raises(ConfigError):
        check_settings(folder, environ)


@pytest.mark.field("FC-O04")
def test_the_copy_follows_every_good_configuration_and_holds_no_variable(folder: Path, edit: Edit, tmp_path: Path) -> None:
    environ = {"FLOORHAND_DATA": str(tmp_path / "data"), "FLOORHAND_MQTT_USER": "u", "FLOORHAND_MQTT_PASSWORD": "s3cr3t-Pa55"}
    started(folder, environ)
    copy = tmp_path / "data" / "config-last-good"
    before = (copy / "appliance.yaml").stat().st_ino
    started(folder, environ)
    assert (copy / "appliance.yaml").stat().st_ino == before  # the same again is not written again
    edit("policies.yaml", "turns_at_once: 16", "turns_at_once: 4")
    started(folder, environ)
    edit("policies.yaml", "turns_at_once: 4", "turns_at_once: none")
    assert started(folder, environ).session.turns_at_once == 4
    assert "s3cr3t-Pa55" not in "".join(path.read_text(encoding="utf-8") for path in copy.rglob("*") if path.is_file())
    assert copy.stat().st_mode & 0o077 == 0


@pytest.mark.req("R5", "X6")
@pytest.mark.req("S9")
@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("process", "session.isolation: the mode process is not built"),
        ("shared_memory", "session.isolation: input should be 'coroutine' or 'process'"),
        ("[coroutine, process]", "session.isolation: input should be 'coroutine' or 'process'"),
    ],
)
def test_all_sessions_of_an_appliance_run_in_the_one_mode_that_is_built(
    folder: Path, edit: Edit, written: str, told: str
) -> None:
    assert load_settings(folder, {}).session.isolation == "coroutine"
    edit("policies.yaml", "session:\n", f"session:\n  isolation: {written}\n")
    (message,) = faults(folder)
    assert told in message and "write coroutine" in message


def test_webhooks_are_read_with_their_secrets_and_files(folder: Path, edit: Edit) -> None:
    told = """webhooks:
  maintenance: {url: "https://tickets.site.example/x", token: "${HOOK}", ca_file: ca.pem, priority: high}
"""
    edit("appliance.yaml", "sync:\n", f"{told}sync:\n")
    (webhook,) = load_settings(folder, {"HOOK": "s3cr3t"}).webhooks.values()
    assert (webhook.token.get_secret_value(), webhook.ca_file, webhook.priority) == ("s3cr3t", folder.parent / "ca.pem", "high")
    assert "s3cr3t" not in webhook.model_dump_json()
    edit("appliance.yaml", "https://tickets.site.example/x", "http://tickets.site.example/x")
    with pytest.raises(ConfigFaults, match=r"webhooks\.maintenance.*only https leaves this machine"):
        load_settings(folder, {"HOOK": "s3cr3t"})


def test_without_a_copy_a_broken_configuration_is_an_error(folder: Path, edit: Edit) -> None:
    edit("appliance.yaml", "  host:", "  hots:")
    with pytest.raises(ConfigFaults):
        settings_for_service(folder, {})


def test_models_come_from_one_table_and_from_what_was_fetched(folder: Path, edit: Edit, tmp_path: Path) -> None:
    (tmp_path / "var/models/vosk-zh").mkdir(parents=True)
    (tmp_path / "var/models/.part").touch()
    (tmp_path / "own.onnx").write_bytes(b"12345")
    edit(
        "appliance.yaml",
        "models: {}",
        f"models:\n  piper-en: {{path: own.onnx}}\n  far: {{url: 'https://x.invalid/f', sha256: {'a' * 64}}}",
    )
    settings = load_settings(folder, {})
    assert settings.voice.models == {"piper-en": str(tmp_path / "own.onnx"), "vosk-zh": str(tmp_path / "var/models/vosk-zh")}
    shown = {name: settings.describe_model(name, path) for name, path in settings.model_places().items()}
    assert {name: (each["present"], each["bytes"]) for name, each in shown.items()} == {
        "vosk-zh": (True, 0),
        "piper-en": (True, 5),
        "far": (False, 0),
    }
    assert shown["far"]["cure"].startswith("floorhand models fetch https://x.invalid/f --sha256 aaaa")
    edit("appliance.yaml", "{path: own.onnx}", "{sha256: abc}")
    found = "\n".join(faults(folder))
    assert "models.piper-en" in found


def test_the_running_service_is_found_whatever_the_configuration(folder: Path, tmp_path: Path) -> None:
    environ = {"FLOORHAND_DATA": str(tmp_path / "data")}
    assert find_socket(folder, environ) == tmp_path / "data/run/api.sock"
    assert find_socket(folder, environ | {"FLOORHAND_SOCKET": "/run/other.sock"}) == Path("/run/other.sock")
    (folder / "appliance.yaml").write_text("{", encoding="utf-8")
    assert find_socket(folder, environ) == tmp_path / "data/run/api.sock"
    assert find_data_dir(folder, {}) == tmp_path / "var"


def test_the_installed_configuration_stands_for_the_installed_places() -> None:
    installed = Path("/etc/floorhand")
    assert find_socket(installed, {}) == Path("/run/floorhand/api.sock")
    assert find_data_dir(installed, {}) == Path("/var/lib/floorhand")
    assert find_data_dir(installed, {"FLOORHAND_DATA": "/data"}) == Path("/data")
