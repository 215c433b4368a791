"""A model runs a procedure that people wrote: its questions are theirs, and say that a model brought them; what it changes is
still done on a person's yes only."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.contracts.admission import Outcome
from appliance.execution.approval.settings import ApprovalRules, ApprovalSettings, CallRule
from appliance.planning.playbooks.playbooks import Playbooks
from tests.support.hall import open_hall
from tests.support.scripted_model import ScriptedModel, plan_of, step

ASKED = "please go through the procedure for motor three, what is wrong with it"
RUN = plan_of(
    step("r", "run_playbook", playbook="check-motor", parameters={"asset": "motor_3"}), step("c", "say", text="I cooled it.")
)
WRITES = """
parameters:
  asset: {kind: asset, tags: [fan_speed]}
steps:
  - {id: set, tool: write_tag, arguments: {tag: fan_speed, value: 70}}
  - {id: order, tool: create_work_order, arguments: {title: "Look at {asset}", detail: "Its fan is fast."}}
  - {id: told, tool: say, when: order, arguments: {text: "It is ordered."}}
"""
HEAD = """---
name: fast-fan
description: Faster, and an order
triggers: {names: {en: [fast fan]}}
access: operator
---
# Fast fan
"""


@pytest.mark.req("A1", "X2", "T9")
@pytest.mark.parametrize("yes", [True, False])
async def test_a_model_runs_the_shipped_check_and_its_own_question_counts(tmp_path: Path, yes: bool) -> None:
    async with open_hall(tmp_path, model=ScriptedModel([RUN])) as hall:
        asked = await hall.say(ASKED)
        assert await hall.questions() == ["The language model proposes this: Shall I create a work order for motor 3?"]
        said = await hall.said(asked.turn_id)
        assert any("94" in each for each in said) and not any("cooled" in each for each in said)
        assert not await hall.bench.rows("SELECT * FROM action WHERE tool = 'create_work_order' AND state = 'done'")
        await hall.say("yes" if yes else "no")
        done = await hall.bench.rows("SELECT state FROM action WHERE tool = 'create_work_order'")
        assert [row["state"] for row in done] == ["done" if yes else "skipped"]
        last = (await hall.said(asked.turn_id))[-1]
        assert last == ("The work order is created." if yes else "No work order.")


@pytest.mark.req("X2", "X5")
@pytest.mark.field("FC-A03")
async def test_what_it_changes_is_asked_for_whatever_the_rules_allow(tmp_path: Path) -> None:
    folder = tmp_path / "books" / "fast-fan"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(HEAD, "utf-8")
    (folder / "steps.yaml").write_text(WRITES, "utf-8")
    allow = ApprovalSettings(ApprovalRules(allow=[CallRule(tools=["create_work_order", "write_tag"])]))
    run = plan_of(step("r", "run_playbook", playbook="fast-fan", parameters={"asset": "motor_3"}))
    books = Playbooks.load(folder.parent, "c0ffee")
    async with open_hall(tmp_path / "hall", model=ScriptedModel([run]), rules=allow, playbooks=books) as hall:
        asked = await hall.say(ASKED)
        assert (await hall.questions())[0].startswith(
            "The language model proposes this: Set the fan speed of motor 3 to 70 percent."
        )
        assert hall.bus.writes == []
        await hall.say("yes, confirm")
        assert [(key, value) for key, value in hall.bus.writes] == [("motor_3.fan_speed", 70)]
        assert "Look at motor 3" in (await hall.questions())[0]
        done = "SELECT * FROM action WHERE tool = 'create_work_order' AND state = 'done'"
        assert not await hall.bench.rows(done)
        await hall.say("no")
        assert not await hall.bench.rows(done) and "It is ordered." not in await hall.said(asked.turn_id)


@pytest.mark.req("A1", "X2")
async def test_a_whole_result_is_said_in_words(tmp_path: Path) -> None:
    look = step("a", "read_tags", keys=["motor_3.temperature"])
    async with open_hall(tmp_path, model=ScriptedModel([plan_of(look, step("b", "say", text="{steps.a.value}"))])) as hall:
        asked = await hall.say("is motor three warm enough to fry an egg")
        assert asked.outcome is Outcome.DONE
        (said,) = await hall.said(asked.turn_id)
        assert said.startswith("A language model says: 94 degrees")


@pytest.mark.req("X2", "P2")
async def test_a_site_that_has_orders_asked_for_keeps_the_procedures_of_its_alarms(tmp_path: Path) -> None:
    rules = ApprovalSettings(ApprovalRules(ask=[CallRule(tools=["create_work_order"])]))
    async with open_hall(tmp_path, rules=rules) as hall:
        asked = await hall.alarm()
        assert await hall.questions() == ["Shall I create a work order for motor 3?"]
        await hall.say("yes")
        states = await hall.bench.rows("SELECT state FROM action WHERE tool = 'create_work_order'")
        assert [row["state"] for row in states] == ["done"]
        assert "The work order is created." in await hall.said((await hall.look(asked)).turn_id)
