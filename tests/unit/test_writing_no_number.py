"""A tag that is no number is not set by one: that is said, and the core goes on. Limits that would limit nothing do not load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.contracts.errors import Refused
from appliance.contracts.named_value import number_of
from appliance.contracts.plant import Plant
from appliance.contracts.tag import Tag
from appliance.execution.approval import writes
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.planning.playbooks.playbooks import Playbooks
from tests.support.gate import open_gate, principal, write_step
from tests.support.hall import open_hall
from tests.support.planning import PHRASES, phrasebook_for, shipped_plant, shipped_playbooks
from tests.support.plans import phrasing
from tests.support.scripted_model import open_planning, plan_of, step

MORE: dict[str, dict[str, Any]] = {
    "mode": {"address": 900, "type": "uint16", "names": {0: "off", 1: "on", 2: "purge"}},
    "recipe": {"address": 910, "type": "string", "length": 8},
    "mask": {"address": 940, "type": "uint16", "flags": {0: "a", 1: "b"}},
    "counter": {"address": 950, "type": "uint64", "low": 0, "high": 1e19},
}
REFUSED = "The {} of motor 3 is not a number, so I cannot set it. Please set it at the machine."
SKILL = """---
name: purge
description: Purge a motor
triggers: {names: {en: [purge], zh: [吹扫]}, phrases: {en: ["purge {asset}"], zh: ["吹扫{asset}"]}}
access: operator
---
# Purging

1. Set the mode.
"""
STEPS = """parameters: {asset: {kind: asset, tags: [mode]}}
steps: [{id: set, tool: write_tag, arguments: {tag: mode, value: 2}}]
"""


def plant() -> Plant:
    told = shipped_plant().model_dump(mode="json")
    place = {"asset": "motor_3", "link": told["links"][0]["id"], "device_id": 1, "kind": "holding_register", "writable": True}
    spoken = {"mode": "模式", "recipe": "配方", "mask": "掩码", "counter": "计数"}
    told["tags"] += [{**place, **more, "name": n, "spoken": {"en": [n], "zh": [spoken[n]]}} for n, more in MORE.items()]
    return Plant.model_validate(told)


@pytest.mark.req("X5")
@pytest.mark.parametrize("amount", ["two", "maximum"])
@pytest.mark.parametrize("name", ["mode", "recipe", "mask"])
def test_a_sentence_is_refused_in_words(name: str, amount: str) -> None:
    book = phrasebook_for(plant())
    intent = book.understand(f"set the {name} of motor three to {amount}", "en")
    assert intent is not None and intent.name.startswith("set_tag")
    with pytest.raises(Refused) as refused:
        Planner(book, shipped_playbooks(), plant()).plan(intent, {})
    assert refused.value.message == REFUSED.format(name)


@pytest.mark.req("X5")
async def test_the_core_says_so_and_goes_on(tmp_path: Path) -> None:
    async with open_hall(tmp_path, plant=plant()) as hall:
        asked = await hall.say("set the mode of motor three to two")
        assert await hall.said(asked.turn_id) == [f"I cannot do that. {REFUSED.format('mode')}"]
        after = await hall.say("set the counter of motor three to maximum")
        assert await hall.said(after.turn_id) == ["Set the counter of motor 3 to 10000000000000000000. Say yes, confirm."]


@pytest.mark.req("X5")
def test_a_playbook_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "purge").mkdir()
    (tmp_path / "purge" / "SKILL.md").write_text(SKILL, "utf-8")
    (tmp_path / "purge" / "steps.yaml").write_text(STEPS, "utf-8")
    playbooks = Playbooks.load(tmp_path, "c0ffee")
    book = Phrasebook.load(PHRASES, plant()).knowing(playbooks)
    intent = book.understand("purge motor three", "en")
    assert intent is not None
    with pytest.raises(Refused) as refused:
        Planner(book, playbooks, plant()).plan(intent, {})
    assert refused.value.message == REFUSED.format("mode")


@pytest.mark.req("A1", "X5")
@pytest.mark.parametrize(
    ("key", "value"), [("mode", 2), ("mode", "purge"), ("recipe", 2), ("mask", 1), ("counter", 10**400), ("counter", -(10**400))]
)
async def test_a_model_is_told_so_and_makes_no_plan_of_it(tmp_path: Path, key: str, value: Any) -> None:
    writing = plan_of(step("a", "write_tag", key=f"motor_3.{key}", value=value, what="x"), step("b", "say", text="Done."))
    async with open_planning(tmp_path, [writing] * 3, plant=plant()) as room:
        try:
            made = await room.planner.plan(await room.asked("please do something about motor three"))
        except Refused as refused:
            assert "motor 3" in refused.message or "from 0" in refused.message
        else:
            assert made is None


@pytest.mark.req("X5", "X2")
@pytest.mark.parametrize("value", [7, 1.5, True, "race", "9" * 5_000, 10**400])
async def test_the_hard_floor_takes_only_what_is_declared(tmp_path: Path, value: Any) -> None:
    async with open_gate(tmp_path, plant=plant()) as gate:
        turn = await gate.unprepared([write_step(value, key="motor_3.mode")], principal())
        assert (await gate.run(turn)).kind == "failed"
        assert gate.bus.writes == [] and (await gate.decisions()) == [("write_tag", "deny", "hard_floor")]


@pytest.mark.req("X5")
@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), None, [1], "80", True])
def test_nothing_that_is_no_number_between_the_limits_is_permitted(value: Any) -> None:
    with pytest.raises(Refused):
        writes.require_permitted(writes.Write("motor_3.fan_speed", value), shipped_plant(), phrasing(shipped_plant()), "en")


@pytest.mark.req("X5")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"names": {0: "low", 1: "mid", 2: "race"}, "low": 0, "high": 1}, "low and high are for numbers"),
        ({"flags": {0: "a", 1: "b"}, "high": 1}, "low and high are for numbers"),
        ({"low": 0, "high": float("inf")}, "low and high must be finite"),
        ({"low": float("-inf"), "high": 0}, "low and high must be finite"),
    ],
)
def test_limits_that_would_limit_nothing_do_not_load(changes: dict[str, Any], why: str) -> None:
    told = {
        "name": "gear", "asset": "motor_3", "link": "plc", "device_id": 1, "kind": "holding_register", "address": 1,
        "type": "uint16", "writable": True, "spoken": {"en": ["gear"]},
    }  # fmt: skip
    with pytest.raises(ValidationError, match=why):
        Tag.model_validate(told | changes)


def test_digits_without_end_name_no_number() -> None:
    with pytest.raises(Refused):
        number_of(plant().tag_by_key["motor_3.mode"], "9" * 5_000)
