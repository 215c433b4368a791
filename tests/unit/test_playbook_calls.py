"""Playbooks call tools of other packages: filled like ours, checked by their contracts, and no alarm depends on one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Outcome
from appliance.contracts.errors import ConfigError, Malformed
from appliance.contracts.plan import Plan, Step
from appliance.contracts.principal import AccessLevel
from appliance.contracts.tool import SchemaContract
from appliance.execution.fields import Fields
from appliance.planning.plan_check import check
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.playbooks.procedure_book import ProcedureBook
from tests.support.hall import open_hall
from tests.support.planning import shipped_phrasebook, shipped_plant
from tests.support.scripted_model import shipped_contracts

HEAD = """---
name: hours
description: Hours of a machine
triggers: {triggers}
access: operator
---
# Hours
"""
STEPS = """
parameters:
  asset: {kind: asset, tags: [temperature]}
steps:
  - {id: run, tool: call, arguments: {name: hours_run, arguments: {machine: "{asset}", days: 7, why: "for {asset}"}}}
  - {id: told, tool: say, when: run.hours > 3, arguments: {text: "{steps.run.hours} hours."}}
"""
ALARM = """
steps:
  - {id: announce, tool: say, arguments: {lead: "{alarm.lead}", text: "It is hot."}}
  - {id: run, tool: call, %s arguments: {name: hours_run, arguments: {machine: "x"}}}
"""


class _Arguments(Fields):
    machine: str
    days: float
    why: str = ""


class _Result(Fields):
    hours: float


CONTRACTS = shipped_contracts()
HOURS = replace(CONTRACTS["read_tags"], name="hours_run", schema=SchemaContract(_Arguments, _Result), resource="")


def loaded(folder: Path, steps: str, triggers: str = "{names: {en: [hours run]}}") -> Playbooks:
    (folder / "hours").mkdir(parents=True)
    (folder / "hours" / "SKILL.md").write_text(HEAD.replace("{triggers}", triggers), "utf-8")
    (folder / "hours" / "steps.yaml").write_text(steps, "utf-8")
    return Playbooks.load(folder, "c0ffee")


def asked_for(playbooks: Playbooks, **given: Any) -> tuple[Step, ...]:
    known = shipped_phrasebook().knowing(playbooks)
    return ProcedureBook(playbooks, known, shipped_plant()).steps_of("hours", given, "en", AccessLevel.OPERATOR)


@pytest.mark.req("T2", "S8")
def test_a_tool_of_another_package_is_called_with_what_the_playbook_knows(tmp_path: Path) -> None:
    steps = asked_for(loaded(tmp_path, STEPS), asset="motor_3")
    assert (steps[0].tool, steps[0].arguments) == ("hours_run", {"machine": "motor_3", "days": 7, "why": "for motor 3"})
    plan = Plan("run_playbook", "playbook:hours@c0ffee", steps)
    check(plan, CONTRACTS | {"hours_run": HOURS})
    with pytest.raises(Malformed, match="there is no tool hours_run"):
        check(plan, CONTRACTS)
    wrong = replace(steps[0], arguments={"machine": "motor_3", "days": "many"})
    with pytest.raises(Malformed, match=r"run\.days"):
        check(replace(plan, steps=(wrong,)), CONTRACTS | {"hours_run": HOURS})


@pytest.mark.req("T2")
@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("hours_run", "write_tag", "is a tool of ours"),
        ('"{asset}", days', '"{weeks}", days', "{weeks} is not known"),
        ("tool: call", "tool: cal", "steps.0"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_when_it_is_loaded(tmp_path: Path, before: str, after: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("{", r"\{")):
        loaded(tmp_path, STEPS.replace(before, after))


@pytest.mark.req("T2", "P2")
async def test_an_alarm_is_told_whether_the_tool_is_there_or_not(tmp_path: Path) -> None:
    triggers = "{faults: [over_temperature]}"
    with pytest.raises(ConfigError, match="optional: true"):
        loaded(tmp_path / "strict", ALARM % "", triggers)
    kind = loaded(tmp_path / "kind", ALARM % "optional: true,", triggers)
    async with open_hall(tmp_path / "hall", playbooks=kind) as hall:
        told = await hall.alarm()
        assert told.outcome is Outcome.DONE
        assert any("It is hot." in each for each in await hall.said(told.turn_id))
        rows = await hall.bench.rows("SELECT step_id, state FROM action WHERE turn_id = ? ORDER BY position", told.turn_id)
        assert [(row["step_id"], row["state"]) for row in rows] == [("announce", "done"), ("run", "failed")]


@pytest.mark.req("T1", "T9")
@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("tool: call, arguments: {name: hours_run, arguments: {}}", "That procedure needs the tool hours run, and I do not"),
        ("tool: call, arguments: {name: read_vitals, arguments: {x: 1}}", "That procedure has a mistake in it"),
    ],
    ids=["missing", "wrong"],
)
async def test_a_call_that_cannot_be_made_is_told_in_words_and_recorded_in_full(tmp_path: Path, step: str, said: str) -> None:
    kind = loaded(tmp_path / "kind", f"steps:\n  - {{id: run, {step}}}\n")
    async with open_hall(tmp_path / "hall", playbooks=kind) as hall:
        admission = await hall.say("run the procedure hours run")
        assert admission.outcome is Outcome.REFUSED
        (told,) = await hall.said(admission.turn_id)
        assert said in told and "the plan is not one" not in told
        assert "the plan is not one" in (await hall.turn(admission.turn_id))["failure"]
