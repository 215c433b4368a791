"""What a playbook would do and its asker may not, where the site's rules raise the level: refused, and the record names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Outcome
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.settings_rules import shipped_tool_levels
from tests.support.gate import FAN, rules
from tests.support.hall import Hall, open_hall

pytestmark = pytest.mark.req("T3", "X2")

HEAD = "---\nname: {name}\ndescription: For a test\ntriggers: {triggers}\naccess: operator\n---\nDo it.\n"
PHRASES = '{{phrases: {{en: ["{said} [the] {{asset}}"]}}}}'
SET = """parameters:
  asset: {kind: asset, tags: [fan_speed]}
steps:
  - {id: told, tool: say, arguments: {text: "I look after the fan."}}
  - {id: fan, tool: write_tag, arguments: {tag: fan_speed, value: 80}}
"""
RUNS = """parameters:
  asset: {kind: asset, tags: [fan_speed]}
steps:
  - {id: first, tool: say, arguments: {text: "I begin."}}
  - {id: more, tool: run_playbook, arguments: {playbook: cool-down, parameters: {asset: "{asset}"}}}
"""
CRITICAL = rules(writes=[{"tags": [FAN], "access": "critical"}])


def loaded(folder: Path, **triggers: str) -> Playbooks:
    steps = {"cool-down": SET, "by-another": RUNS}
    for name, said in {"cool-down": "cool down", "by-another": "go through", **triggers}.items():
        (folder / name).mkdir(parents=True)
        told = said if said.startswith("{") else PHRASES.format(said=said)
        (folder / name / "SKILL.md").write_text(HEAD.format(name=name, triggers=told), "utf-8")
        body = steps.get(name, SET.replace("parameters:\n  asset: {kind: asset, tags: [fan_speed]}\n", ""))
        (folder / name / "steps.yaml").write_text(body, "utf-8")
    return Playbooks.load(folder, "c0ffee", shipped_tool_levels())


async def denials(hall: Hall) -> list[dict[str, Any]]:
    rows = await hall.bench.rows("SELECT payload FROM operation WHERE kind = 'audit.call_denied' ORDER BY seq")
    return [json.loads(row["payload"]) for row in rows]


@pytest.mark.parametrize("said", ["cool down motor three", "go through motor three"], ids=["asked for", "run by another"])
async def test_a_tag_that_the_site_raised_is_refused_and_the_record_names_the_playbook(tmp_path: Path, said: str) -> None:
    async with open_hall(tmp_path / "hall", playbooks=loaded(tmp_path / "books"), rules=CRITICAL) as hall:
        turn = await hall.say(said)
        assert any("needs a person with critical access" in told for told in await hall.said(turn.turn_id))
        (denied,) = await denials(hall)
        assert (denied["playbook"], denied["tool"], denied["rule"]) == ("cool-down", "write_tag", "hard_floor")
        assert denied["turn"] == turn.turn_id
        assert hall.bus.writes == []


async def test_what_an_alarm_may_not_have_done_leaves_a_record_and_stops_nothing_later(tmp_path: Path) -> None:
    books = loaded(tmp_path / "books", hot="{faults: [over_temperature]}")
    async with open_hall(tmp_path / "hall", playbooks=books, rules=CRITICAL) as hall:
        told = await hall.alarm()
        assert told.outcome is Outcome.DONE
        assert any("I look after the fan." in each for each in await hall.said(told.turn_id))
        (denied,) = await denials(hall)
        assert (denied["playbook"], denied["tool"], denied["turn"]) == ("hot", "write_tag", told.turn_id)
        assert await hall.bench.rows("SELECT 1 FROM approval WHERE decision = 'deny'") == [], "it trips no breaker"
