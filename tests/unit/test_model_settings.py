"""Which models may be configured, what is refused, and that keys are shown nowhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.settings import load_settings
from appliance.settings_faults import ConfigFaults
from drivers.models.settings import ModelPrice, ModelSettings

pytestmark = pytest.mark.req("A1", "O5")

SHIPPED = Path(__file__).parents[2] / "config"
LOCAL = {"name": "local", "url": "http://127.0.0.1:8080/v1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(SHIPPED, tmp_path / "config")


def add(folder: Path, models: str) -> None:
    with (folder / "appliance.yaml").open("a", encoding="utf-8") as file:
        file.write(f"\nlanguage_models:\n{models}")


def test_none_is_configured_as_shipped() -> None:
    settings = load_settings(SHIPPED, {})
    assert settings.language_models == ()
    assert settings.language_model.within_s == 90


def test_the_commented_example_is_sound(folder: Path) -> None:
    lines = (folder / "appliance.yaml").read_text(encoding="utf-8").splitlines()
    start = lines.index("# language_models:")
    end = next(n for n in range(start, len(lines)) if not lines[n].startswith("#"))
    lines[start:end] = [line.removeprefix("# ") for line in lines[start:end]]
    (folder / "appliance.yaml").write_text("\n".join(lines), encoding="utf-8")
    settings = load_settings(folder, {"FLOORHAND_MODEL_KEY": "sk-1"})
    assert [(each.name, each.output) for each in settings.language_models] == [
        ("local", "schema"),
        ("ollama", "schema"),
        ("cloud", "tools"),
    ]
    cloud = settings.language_models[2]
    assert [key.get_secret_value() for key in cloud.keys] == ["sk-1"]
    assert cloud.price is not None and cloud.price.currency == "EUR"
    assert "sk-1" not in repr(settings) and "sk-1" not in json.dumps(settings.model_dump(mode="json"))


def test_files_start_at_the_folder_of_the_configuration(folder: Path) -> None:
    add(folder, "  - {name: m, url: 'https://m.example/v1', key_files: [keys/m], ca_file: ca.pem}\n")
    (model,) = load_settings(folder, {}).language_models
    assert (model.key_files, model.ca_file) == ((folder.parent / "keys/m",), folder.parent / "ca.pem")


def test_faults_name_the_key_and_the_cure(folder: Path) -> None:
    add(folder, "  - {name: m, url: 'http://m.example/v1', tokens: 3}\n")
    with pytest.raises(ConfigFaults) as caught:
        load_settings(folder, {})
    assert "language_models" in str(caught.value) and "tokens" in str(caught.value)


def test_a_key_that_cannot_be_sent_is_not_shown(folder: Path) -> None:
    add(folder, "  - {name: m, url: 'https://m.example/v1', keys: ['sk one two']}\n")
    with pytest.raises(ConfigFaults, match="printable ASCII") as caught:
        load_settings(folder, {})
    assert "sk one" not in str(caught.value)


def test_two_of_one_name_are_refused(folder: Path) -> None:
    add(folder, "  - {name: m, url: 'http://127.0.0.1/v1'}\n  - {name: m, url: 'http://127.0.0.1:2/v1'}\n")
    with pytest.raises(ConfigFaults, match="m names two models"):
        load_settings(folder, {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://models.example/v1"}, "only https leaves this machine"),
        ({"url": "ftp://models.example/v1"}, "https://HOST"),
        ({"url": "https://"}, "https://HOST"),
        ({"url": "https://h:99999/v1"}, "url"),
        ({"url": "https://169.254.169.254/v1"}, "no address of a service"),
        ({"url": "http://[fe80::1]/v1", "allow_plain": True}, "no address of a service"),
        ({"url": "https://user:pass@h/v1"}, "no user"),
        ({"url": "https://h/v1?key=1"}, "no query"),
        ({"keys": ["two words"]}, "printable ASCII"),
        ({"keys": ["line\nbreak"]}, "printable ASCII"),
        ({"keys": ["schlüssel"]}, "printable ASCII"),
        ({"keys": [""]}, "printable ASCII"),
        ({"context_tokens": 1000}, "most_reply_tokens leaves no room"),
        ({"name": "Local Model"}, "pattern"),
        ({"output": "grammar"}, "schema"),
        ({"price": {"tokens_in_per_million": 1, "tokens_out_per_million": 1, "currency": "euro"}}, "currency"),
    ],
)
def test_what_is_refused_says_why(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        ModelSettings.model_validate(LOCAL | change)
    assert "two words" not in str(caught.value) and "schlüssel" not in str(caught.value)


def test_plain_http_may_be_allowed() -> None:
    site = ModelSettings.model_validate(LOCAL | {"url": "http://10.0.0.9:8000/v1", "allow_plain": True})
    assert not site.must_be_loopback
    named = ModelSettings.model_validate(LOCAL | {"url": "http://localhost:8000/v1"})
    assert named.must_be_loopback


@pytest.mark.req("A4")
def test_a_price_counts_what_was_read_before_apart() -> None:
    price = ModelPrice(tokens_in_per_million=2.0, tokens_out_per_million=8.0, currency="USD")
    assert price.cost(1_000_000, 500_000, 400_000) == pytest.approx(2.0 + 4.0)
    cheaper = price.model_copy(update={"tokens_cached_per_million": 0.5})
    assert cheaper.cost(1_000_000, 0, 400_000) == pytest.approx(1.2 + 0.2)


@pytest.mark.req("X4")
def test_an_address_that_cannot_be_read_is_not_quoted_since_a_key_may_be_part_of_it(folder: Path) -> None:
    add(folder, "  - {name: m, url: 'https://secret-7f\u2100@m.example/v1'}\n")
    with pytest.raises(ConfigFaults) as caught:
        load_settings(folder, {})
    assert "url cannot be read as an address" in caught.value.message and "secret-7f" not in caught.value.message
