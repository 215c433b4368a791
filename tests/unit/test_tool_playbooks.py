"""Procedures as tools: listed, read, followed; a circle is stopped, and following one allows nothing more than before."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plan import Action, ActionState, Step
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.execution.approval.approvals import Approvals
from appliance.execution.approval.settings import ApprovalSettings
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools import run_playbook
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.read_playbook import ReadPlaybook
from appliance.execution.tools.read_plc_log import ReadPlcLog
from appliance.execution.tools.read_tags import ReadTags
from appliance.execution.tools.run_playbook import RunPlaybook
from appliance.execution.tools.say import Say
from appliance.execution.tools.write_tag import WriteTag
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.playbooks.procedure_book import ProcedureBook
from appliance.store import actions
from tests.support.bus import TableBus
from tests.support.ledger import Bench, open_bench
from tests.support.planning import CONFIG, PHRASES, shipped_plant
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import runner_ports

HEAD = """---
name: {name}
description: For a test
triggers: {{names: {{en: [{title}]}}{phrases}}}
access: {access}
---
Do it.
"""
LOOK = """parameters:
  asset: {kind: asset, tags: [temperature]}
steps:
  - {id: look, tool: read_tags, arguments: {tags: [temperature]}}
  - {id: hot, tool: say, when: now.temperature > 90, arguments: {text: "{asset} is hot: {now.temperature}."}}
  - {id: cool, tool: say, when: now.temperature <= 90, arguments: {text: "{asset} is cool."}}
"""
THEN_LOOK = """parameters:
  asset: {kind: asset}
steps:
  - {id: look, tool: say, arguments: {text: "I look."}}
  - {id: more, tool: run_playbook, arguments: {playbook: look, parameters: {asset: "{asset}"}}}
"""
ACT = """parameters:
  asset: {kind: asset, tags: [fan_speed]}
  amount: {kind: number, low: 0, high: 100}
steps:
  - {id: set, tool: write_tag, arguments: {tag: fan_speed, value: "{amount}"}}
  - {id: order, tool: create_work_order, arguments: {title: "Look at {asset}", detail: "It was set to {amount}."}}
"""


@dataclass
class Desk:
    """A bench on which turns follow playbooks, behind the real gate."""

    bench: Bench
    folder: Path
    turns: int = 0
    level: AccessLevel = AccessLevel.OPERATOR

    def add(self, name: str, steps: str, access: str = "operator", phrases: str = "") -> None:
        (self.folder / name).mkdir()
        head = HEAD.format(name=name, title=name.replace("-", " "), access=access, phrases=phrases)
        (self.folder / name / "SKILL.md").write_text(head, "utf-8")
        (self.folder / name / "steps.yaml").write_text(steps, "utf-8")

    async def follow(
        self, playbook: str, parameters: Mapping[str, Any], *, language: str = "en"
    ) -> tuple[RunOutcome, list[Action]]:
        steps = (Step("run", "run_playbook", {"playbook": playbook, "parameters": dict(parameters)}),)
        return await self.run(*steps, language=language)

    async def run(
        self, *steps: Step, language: str = "en", playbooks: Playbooks | None = None
    ) -> tuple[RunOutcome, list[Action]]:
        bench, plant, wording = self.bench, shipped_plant(), phrasing(shipped_plant())
        self.turns += 1
        who = Principal("ann", Identification.SOCKET, "operator", self.level)
        turn = await open_turn(
            bench.database, bench.clock, bench.ids, steps, turn_id=f"tr_{self.turns}", language=language,
            context={PRINCIPAL: who.to_json()},
        )  # fmt: skip
        known = playbooks or Playbooks.load(self.folder, "c0ffee")
        procedures = ProcedureBook(known, Phrasebook.load(PHRASES, plant).knowing(known), plant)
        bus = TableBus(plant, bench.clock)
        approvals: Approvals
        box = Toolbox(
            [
                Say(bench.clock, bench.ids), Ask(bench.clock, bench.ids, wording), ReadTags(bus, plant, bench.clock),
                ReadPlcLog(bus, wording), WriteTag(bus, plant, bench.clock, lambda key: AccessLevel.OPERATOR),
                CreateWorkOrder(bench.clock), ReadPlaybook(procedures, wording),
                RunPlaybook(procedures, wording, bench.ids, lambda tx, plan, asked: approvals.with_questions(tx, plan, asked)),
            ]
        )  # fmt: skip
        approvals = Approvals(ApprovalSettings(), box, plant, bus, bench.database, wording, bench.clock)
        ports = runner_ports(bench.database.path.parent, bench.clock) | {"approvals": approvals}
        outcome = await Runner(bench.database, box, bench.clock, bench.ids, bench.epoch, wording, **ports).run(turn)
        self.bus = bus
        return outcome, await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))

    async def said(self) -> list[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_bench(tmp_path) as bench:
        folder = tmp_path / "playbooks"
        shutil.copytree(CONFIG / "playbooks", folder)
        made = Desk(bench, folder)
        made.add("look", LOOK)
        yield made


def told(steps: list[Action]) -> list[str]:
    return [f"{step.step_id}: {step.state}" for step in steps]


# reading ---------------------------------------------------------------------------------------------------------------
@pytest.mark.req("T1", "T3")
async def test_procedures_are_listed_and_read_at_the_askers_level(desk: Desk) -> None:
    desk.add("secret", LOOK, "critical")
    outcome, steps = await desk.run(
        Step("list", "read_playbook", {}),
        Step("one", "read_playbook", {"name": "look"}),
        Step("none", "read_playbook", {"name": "secret"}),
    )
    listed, one, none = (step.result or {} for step in steps)
    assert [each["name"] for each in listed["found"]] == [
        "check-motor", "controller-unreachable", "look", "low-pressure", "over-temperature", "overcurrent",
    ]  # fmt: skip
    assert listed["sentence"].startswith("I know 6 procedures: motor check, controller unreachable, look")
    assert (one["count"], one["guidance"], one["sentence"]) == (1, "Do it.", "Procedure look. Do it.")
    assert one["steps"] == ["reading from the machine", "telling what I know", "telling what I know"]
    assert (outcome.kind, none["error"]) == ("failed", "I know no such procedure.")


# following -------------------------------------------------------------------------------------------------------------
@pytest.mark.req("T1", "A1")
async def test_a_procedure_is_followed_behind_the_steps_there_are_and_its_conditions_follow(desk: Desk) -> None:
    desk.add("then-look", THEN_LOOK)
    outcome, steps = await desk.follow("then-look", {"asset": "motor_3"})
    assert outcome.kind == "finished"
    assert told(steps) == ["run: done", "look: done", "more: done", "look_2: done", "hot: done", "cool: skipped"]
    assert steps[4].when == "look_2.values.motor_3.temperature > 90"
    assert (steps[0].result or {})["steps"] == ["look", "more"]
    assert await desk.said() == ["I look.", "Motor 3 is hot: 94 degrees Celsius."]


@pytest.mark.req("X2", "X5")
@pytest.mark.field("FC-A03")
async def test_what_a_procedure_changes_is_asked_for_exactly_and_not_done_before_a_yes(desk: Desk) -> None:
    desk.add("act", ACT, phrases=', phrases: {en: ["run {asset} at {amount}"]}')
    outcome, steps = await desk.follow("act", {"asset": "motor_3", "amount": 70})
    assert outcome.kind == "waiting"
    asking, write = steps[1], steps[2]
    assert asking.arguments["question"] == "Set the fan speed of motor 3 to 70 percent. Say yes, confirm."
    assert (asking.arguments["approves"], asking.state, write.tool, write.state) == ("set", "waiting", "write_tag", "pending")
    assert asking.arguments["digest"]
    assert desk.bus.writes == []


async def test_a_step_that_has_to_be_asked_for_and_was_not_is_not_done(desk: Desk) -> None:
    arguments = {"key": "motor_3.fan_speed", "value": 70, "what": "x"}
    outcome, steps = await desk.run(Step("set", "write_tag", arguments))
    assert (outcome.kind, steps[0].state, desk.bus.writes) == ("failed", ActionState.FAILED, [])


@pytest.mark.req("T4")
async def test_a_procedure_that_would_begin_again_within_itself_is_refused_with_the_path(desk: Desk) -> None:
    desk.add("then-look", THEN_LOOK)
    loaded = Playbooks.load(desk.folder, "c0ffee")
    look, again = loaded["look"], loaded["then-look"]
    circle = Playbooks(
        {"look": look.__class__(**{**_fields(look), "steps": again_as(again, "then-look")}), "then-look": again}, "c"
    )
    run = Step("run", "run_playbook", {"playbook": "then-look", "parameters": {"asset": "motor_3"}})
    outcome, steps = await desk.run(run, playbooks=circle)
    assert outcome.kind == "failed"
    assert (steps[-1].result or {})["error_code"] == "recursive_call_prevented"
    assert "then-look->look->then-look" in (steps[-1].result or {})["error"]


def again_as(playbook: Any, runs: str) -> tuple[Any, ...]:
    """Its steps, of which the last runs another one: as files that were changed while it was loaded could never be."""
    last = playbook.steps[-1]
    arguments = last.arguments.model_copy(update={"playbook": runs})
    return (*playbook.steps[:-1], last.model_copy(update={"arguments": arguments}))


def _fields(playbook: Any) -> dict[str, Any]:
    return {name: getattr(playbook, name) for name in playbook.__dataclass_fields__}


@pytest.mark.req("T3")
async def test_a_procedure_above_the_level_is_refused_like_an_unknown_one(desk: Desk) -> None:
    desk.add("secret", LOOK, "critical")
    errors = [((await desk.follow(name, {"asset": "motor_3"}))[1][0].result or {})["error"] for name in ("secret", "absent")]
    assert errors == ["I know no such procedure."] * 2


@pytest.mark.parametrize(
    ("playbook", "parameters", "error"),
    [
        ("look", {}, "For the procedure look I have to know more."),
        ("look", {"asset": "pump_3"}, "The procedure look is not for pump 3."),
        ("look", {"asset": "{turn.id}"}, "For the procedure look I have to know more."),
        ("overcurrent", {"asset": "motor_3"}, "belongs to an alarm"),
        ("look", {"asset": "motor_3", "depth": 3}, "the procedure look has no parameter 'depth'; valid: asset"),
    ],
)
async def test_what_cannot_be_followed_says_why(desk: Desk, playbook: str, parameters: dict[str, Any], error: str) -> None:
    outcome, steps = await desk.follow(playbook, parameters)
    assert outcome.kind == "failed"
    assert error in (steps[0].result or {})["error"]


async def test_a_turn_does_not_grow_without_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_playbook, "MOST_STEPS", 3)
    _, steps = await desk.follow("look", {"asset": "motor_3"})
    assert len(steps) == 1
    assert "this would get too long" in (steps[0].result or {})["error"]
