"""An example with a mistake, or one that could never be taken, is a fault of its file that names key and cure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.contracts.errors import ConfigError
from appliance.planning.phrase_file import load_phrase_file
from tests.support.planning import PHRASES

Site = Callable[[Callable[[dict[str, Any]], None]], Path]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Writes the English phrases after a site changed their examples."""

    def write(change: Callable[[dict[str, Any]], None]) -> Path:
        content = yaml.safe_load((PHRASES / "en.yaml").read_text("utf-8"))
        change(content["examples"])
        path = tmp_path / "en.yaml"
        path.write_text(yaml.safe_dump(content, allow_unicode=True), "utf-8")
        return path

    return write


@pytest.mark.req("A1")
def test_an_example_that_could_never_be_taken_is_a_fault_with_the_word_and_the_cure(site: Site) -> None:
    def change(examples: dict[str, Any]) -> None:
        examples["intents"]["read_tag"][0]["say"].append("how hot will {asset} get")
        examples["intents"]["set_tag"][0]["say"].append("can {asset} take a {tag} of {amount}")
        examples["intents"]["reset_alarm"][0]["say"].append("the alarm was cleared")

    with pytest.raises(ConfigError) as caught:
        load_phrase_file(site(change))
    found = str(caught.value)
    assert (
        "examples.intents.read_tag.0.say.8: 'how hot will {asset} get' has the word 'will', so it would never be taken" in found
    )
    assert "Say it without that word, or take the word out of examples.never." in found
    assert "has the word 'can {asset}'" in found and "take the word out of examples.never_an_order." in found
    assert "has the word 'cleared'" in found and "take the word out of examples.never_in.reset_alarm." in found


@pytest.mark.req("A1")
def test_what_else_keeps_an_example_from_being_taken_is_a_fault(site: Site) -> None:
    def change(examples: dict[str, Any]) -> None:
        examples["never"].append("?")
        examples["never_in"]["set_tags"] = ["already"]
        examples["intents"]["read_tag"][1]["say"].append("Is {asset} overheating?")

    with pytest.raises(ConfigError) as caught:
        load_phrase_file(site(change))
    found = str(caught.value)
    assert "'?' has no letters" in found
    assert "examples.never_in.set_tags: has no examples. Did you mean 'set_tag'?" in found
    assert "means something else at examples.intents.read_tag.0.say.4, so neither would be taken" in found


@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(
    ("change", "key", "cure"),
    [
        ({"intents": {"read_tags": [{"means": "x", "say": ["y"]}]}}, "examples.intents.read_tags", "Did you mean 'read_tag'?"),
        ({"intents": {"help": [{"means": "help", "say": ["{aset}"]}]}}, "examples.intents.help.0.say.0", "Did you mean 'asset'?"),
        ({"intents": {"help": [{"means": "help", "say": ["help {asset}"]}]}}, "examples.intents.help.0.say.0", "Name the same"),
        ({"intents": {"help": [{"say": ["y"]}]}}, "examples.intents.help.0.means", "Write what it means."),
        ({"stand_ins": {"machine": "it"}}, "examples.stand_ins.machine", "Valid: alarm, amount, asset, tag."),
        ({"intents": {"help": [{"means": "help", "says": ["y"]}]}}, "examples.intents.help.0", "says"),
    ],
    ids=["unknown intent", "unknown name", "other names", "no meaning", "unknown stand-in", "unknown key"],
)
def test_a_fault_of_an_example_names_file_key_and_cure(tmp_path: Path, change: dict[str, object], key: str, cure: str) -> None:
    content = yaml.safe_load((PHRASES / "en.yaml").read_text("utf-8"))
    path = tmp_path / "en.yaml"
    path.write_text(yaml.safe_dump(content | {"examples": change}), "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_phrase_file(path)
    assert caught.value.file == str(path)
    assert key in str(caught.value)
    assert cure in str(caught.value)
