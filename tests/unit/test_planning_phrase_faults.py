"""How faults of phrase files and of the plant model's spoken names are named: file, key and cure, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.contracts.errors import ConfigError, Malformed
from appliance.contracts.plant import Plant
from appliance.planning.phrases import Phrasebook
from tests.support.planning import PHRASES, shipped_phrasebook, shipped_plant


def english(**changes: Any) -> dict[str, Any]:
    """The English phrase file with some of its sections changed."""
    content: dict[str, Any] = yaml.safe_load((PHRASES / "en.yaml").read_text("utf-8"))
    for section, change in changes.items():
        content[section] = content[section] | change if isinstance(change, dict) else change
    return content


def one_sentence(template: str) -> dict[str, Any]:
    return {"help": {"data": [{"sentences": [template]}]}}


FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("unknown section", {"replys": {}}, "replys", "Did you mean 'replies'?"),
    ("unknown intent", {"intents": {"read_tags": {"data": [{"sentences": ["hello"]}]}}},
     "intents.read_tags", "Did you mean 'read_tag'?"),
    ("unknown list", {"intents": one_sentence("help {asett}")}, "intents.help.data.0.sentences.0", "Did you mean 'asset'?"),
    ("unknown rule", {"intents": one_sentence("<plaese> help")}, "intents.help.data.0.sentences.0", "Did you mean 'please'?"),
    ("open bracket", {"intents": one_sentence("help [me")}, "intents.help.data.0.sentences.0", "Close every"),
    ("glued word", {"intents": one_sentence("help alarm[s]")}, "intents.help.data.0.sentences.0", "write whole words"),
    ("empty", {"intents": one_sentence(" ")}, "intents.help.data.0.sentences.0", "Write a sentence"),
    ("no asset", {"intents": {"create_work_order": {"data": [{"sentences": ["work order"]}]}}},
     "intents.create_work_order.data.0.sentences.0", "gives the asset"),
    ("no amount", {"intents": {"set_tag": {"data": [{"sentences": ["set <setpoint>"]}]}}},
     "intents.set_tag.data.0.sentences.0", "gives the amount"),
    ("bad limit", {"intents": {"set_tag_to_limit": {"data": [{"sentences": ["max <setpoint>"], "slots": {"limit": "hihg"}}]}}},
     "intents.set_tag_to_limit.data.0.slots.limit", "Did you mean 'high'?"),
    ("rule circle", {"expansion_rules": {"please": "[<point2>]", "point2": "<please>"}},
     "expansion_rules.please", "without itself"),
    ("unknown plant list", {"lists": {"asset": {"plant": "asset"}}}, "lists.asset.plant", "Correct it"),
    ("two sources", {"lists": {"asset": {"plant": "assets", "values": ["x"]}}}, "lists.asset", "exactly one of"),
    ("unknown reply", {"replies": {"canceled": "x"}}, "replies.canceled", "Did you mean 'cancelled'?"),
    ("unknown placeholder", {"replies": {"refused": "No. {wy}"}}, "replies.refused", "Did you mean 'why'?"),
    ("unpaired brace", {"replies": {"refused": "No. {why"}}, "replies.refused", "Pair the braces"),
    ("unit without number", {"units": {"%": {"hear": ["percent"], "say": "percent"}}}, "units.%", "say must contain {n}"),
    ("wrong language", {"language": "de"}, "language", "Write `language: en`"),
]  # fmt: skip


@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(("changes", "key", "cure"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_names_file_key_and_cure(changes: dict[str, Any], key: str, cure: str, tmp_path: Path) -> None:
    path = tmp_path / "en.yaml"
    content = english()
    content |= {k: content[k] | v if isinstance(v, dict) and k in content else v for k, v in changes.items()}
    path.write_text(yaml.safe_dump(content, allow_unicode=True), "utf-8")
    with pytest.raises(ConfigError) as caught:
        Phrasebook.load(tmp_path, shipped_plant())
    assert caught.value.file == str(path)
    assert caught.value.key == key
    assert cure in str(caught.value)


def test_all_faults_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    content = english(replies={"canceled": "x", "refused": "{wy}"}, intents=one_sentence("help {asett}"))
    del content["replies"]["stop"]
    (tmp_path / "en.yaml").write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(ConfigError) as caught:
        Phrasebook.load(tmp_path, shipped_plant())
    for key in ("replies.canceled", "replies.refused", "replies.stop: is missing", "intents.help"):
        assert key in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("language: [", "line 2"),
        ("- a", "(file)"),
        ("language: en\nintents: {}", "intents"),
        ("language: 2025-13-32", "intents"),
        ("[" * 5000, "line 1"),
        ("language: en\nreplies: {stop: a, stop: b}", "line 2"),
    ],
)
def test_a_broken_file_is_named(text: str, key: str, tmp_path: Path) -> None:
    (tmp_path / "en.yaml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        Phrasebook.load(tmp_path, shipped_plant())
    assert caught.value.key == key


def test_a_folder_without_phrases_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no phrase file"):
        Phrasebook.load(tmp_path, shipped_plant())


def _changed_plant(change: Any) -> Plant:
    content = shipped_plant().model_dump(mode="json")
    change(content)
    return Plant.model_validate(content)


def test_two_assets_of_one_name_are_refused() -> None:
    def rename(content: dict[str, Any]) -> None:
        content["assets"][1]["spoken"]["en"] = ["Motor three"]

    with pytest.raises(ConfigError, match="'Motor three' is also a name of motor_3"):
        Phrasebook.load(PHRASES, _changed_plant(rename))


def test_two_tags_of_one_asset_with_one_name_are_refused() -> None:
    def rename(content: dict[str, Any]) -> None:
        content["tags"][1]["spoken"]["en"] = ["temperature"]

    with pytest.raises(ConfigError, match=r"is also a name of motor_3\.temperature"):
        Phrasebook.load(PHRASES, _changed_plant(rename))


@pytest.mark.field("FC-V12")
def test_a_unit_that_must_be_said_and_has_no_words_is_refused() -> None:
    def rename(content: dict[str, Any]) -> None:
        content["tags"][0]["unit"] = "furlong"

    with pytest.raises(ConfigError, match=r"the unit 'furlong' of motor_3\.temperature has no words"):
        Phrasebook.load(PHRASES, _changed_plant(rename))


def test_a_tag_without_a_name_cannot_be_spoken_of() -> None:
    assert shipped_phrasebook().understand("what is the reset of motor three", "en") is None


def test_a_reply_without_its_value_is_malformed() -> None:
    book = shipped_phrasebook()
    assert book.reply("refused", "en", why="Too much.") == "I cannot do that. Too much."
    with pytest.raises(Malformed, match="needs 'why'"):
        book.reply("refused", "en")
    with pytest.raises(Malformed, match="no reply 'refuse'"):
        book.reply("refuse", "en")
