"""A yes is to what was named as it was defined then: whatever of it was set up differently since, the yes counts no more (X2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plan import Step
from appliance.contracts.plant import Plant
from appliance.contracts.principal import Identification
from appliance.delivery.settings import WebhookSettings
from appliance.delivery_rooms import where_notices_lead
from appliance.execution.approval.definitions import Definitions
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.notify import Notify, Receivers
from appliance.execution.tools.run_playbook import RunPlaybook
from appliance.execution.tools.schedule_check import ScheduleCheck
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.playbooks.procedure_book import ProcedureBook
from tests.support.clock import CountingIds, ManualClock
from tests.support.gate import Gate, open_gate, plan_of, principal, rules
from tests.support.ledger import Bench
from tests.support.planning import PHRASES, phrasebook_for, shipped_plant
from tests.support.plans import phrasing

pytestmark = pytest.mark.req("X2")

VOICE = principal(by="voice", identified=Identification.VOICE)
HOT = "motor_3_over_temperature"
SHELVE = "shelve the motor three over temperature alarm for thirty minutes because of maintenance"
CHANGED = "What you agreed to has been set up differently since, so I have not done it. Please ask again."
CANCELLED = "Cancelled. Nothing was changed."
Change = Callable[[dict[str, Any]], Any]


def plant_with(change: Change) -> Plant:
    """The shipped plant, of whose file somebody changed something."""
    told = shipped_plant().model_dump(mode="json")
    change(told)
    return Plant.model_validate(told)


def of(told: dict[str, Any], kind: str, id: str) -> dict[str, Any]:
    """The entry of an alarm or asset, or of a tag by its key."""
    name = (lambda each: f"{each['asset']}.{each['name']}") if kind == "tags" else (lambda each: each["id"])
    return next(each for each in told[kind] if name(each) == id)


def hot(**changes: Any) -> Change:
    return lambda told: of(told, "alarms", HOT).update(changes)


SUPPRESSED = {"tag": "motor_3.load", "equals": 0}
MATTERS: dict[str, Change] = {
    "what is said": hot(text={"en": "Pump three is dry", "zh": "三号泵干转"}),
    "the limit": lambda told: of(told, "alarms", HOT)["condition"].update(limit=140),
    "the priority": hot(priority="critical"),
    "the source": hot(source_id="M3.TRIP"),
    "the fault": hot(fault="trip"),
    "the procedure": hot(playbook="overcurrent"),
    "what suppresses it": hot(suppressed_while=SUPPRESSED),
    "that it latches": hot(latching=True),
    "the scale of its tag": lambda told: of(told, "tags", "motor_3.temperature").update(scale=1.0),
    "where its tag is": lambda told: told["links"][0].update(host="192.0.2.7"),
    "what its machine is called": lambda told: of(told, "assets", "motor_3").update(spoken={"en": ["motor 9"], "zh": ["九号"]}),
}
NO_MATTER: dict[str, Change] = {
    "how often its tag is read": lambda told: of(told, "tags", "motor_3.temperature").update(deadband_percent=7),
    "another alarm": lambda told: of(told, "alarms", "pump_3_low_pressure").update(priority="critical"),
    "another machine": lambda told: of(told, "assets", "pump_3").update(spoken={"en": ["pump 9"], "zh": ["九号泵"]}),
}


async def shelved(gate: Gate, plant: Plant) -> bool:
    """Whether a yes to shelving is acted on, given before the plant was this one."""
    await gate.ask(SHELVE, VOICE)
    gate.plant = plant
    gate.build()
    assert await gate.answer("yes confirm", VOICE) == "finished"
    (row,) = await gate.bench.rows("SELECT state FROM action WHERE tool = 'shelve_alarm'")
    return bool(row["state"] == "done")


@pytest.mark.req("F6")
@pytest.mark.parametrize("what", MATTERS)
async def test_an_alarm_that_was_defined_differently_since_is_not_shelved_and_that_is_said(tmp_path: Path, what: str) -> None:
    async with open_gate(tmp_path) as gate:
        assert not await shelved(gate, plant_with(MATTERS[what]))
        assert (await gate.said())[-2:] == [CHANGED, CANCELLED]
        assert (await gate.decisions())[-1] == ("shelve_alarm", "deny", "consent")


@pytest.mark.req("F6")
@pytest.mark.parametrize("what", NO_MATTER)
async def test_what_is_no_part_of_it_keeps_no_alarm_from_being_shelved(tmp_path: Path, what: str) -> None:
    async with open_gate(tmp_path) as gate:
        assert await shelved(gate, plant_with(NO_MATTER[what]))


@pytest.mark.parametrize(("id", "is_done"), [("motor_3", False), ("pump_3", True)])
async def test_a_work_order_is_for_the_machine_that_was_named(tmp_path: Path, id: str, is_done: bool) -> None:
    order = Step("order", "create_work_order", {"asset": "motor_3", "title": "Look at it", "detail": "It is hot."})
    async with open_gate(tmp_path) as gate:
        await gate.run(await gate.planned(plan_of(order, source="model:a/b"), VOICE))
        await gate.speak_all()
        gate.plant = plant_with(lambda told: of(told, "assets", id).update(area="line_9"))
        gate.build()
        await gate.answer("yes confirm", VOICE)
        assert len(await gate.bench.rows("SELECT * FROM work_order")) == is_done
        assert is_done or CHANGED in await gate.said()


@pytest.mark.parametrize(
    ("arguments", "changes", "is_done"),
    [
        ({"webhook": "shift"}, {"leads_to": {"shift": "elsewhere", "boss": "b"}}, False),
        ({"webhook": "shift"}, {"leads_to": {"shift": "a", "boss": "elsewhere"}}, True),
        ({"topic": "office"}, {"topic_prefix": "everybody"}, False),
        ({"topic": "office"}, {"leads_to": {"shift": "a", "": "another broker"}}, False),
    ],
)
async def test_a_message_goes_where_it_led_when_a_person_said_yes(
    tmp_path: Path, arguments: dict[str, str], changes: dict[str, Any], is_done: bool
) -> None:
    receivers = Receivers(("shift", "boss"), "notices", "line-3", {"shift": "a", "boss": "b", "": "broker"})
    meant = [receivers]

    def more(bench: Bench) -> Sequence[AnyTool]:
        return (Notify(bench.clock, bench.ids, meant[0]),)

    async with open_gate(tmp_path, rules(ask=["notify"]), more=more) as gate:
        await gate.run(await gate.planned(plan_of(Step("tell", "notify", {"text": "hot"} | arguments)), VOICE))
        await gate.speak_all()
        meant[0] = replace(receivers, **changes)
        gate.more = more(gate.bench)
        gate.build()
        await gate.answer("yes confirm", VOICE)
        sent = await gate.bench.rows("SELECT * FROM delivery WHERE channel <> 'speech'")
        assert len(sent) == is_done and (is_done or CHANGED in await gate.said())


def test_where_a_webhook_leads_is_told_without_its_key() -> None:
    one, other = (WebhookSettings(url=f"https://example.com/send?key={key}") for key in ("secret-1", "secret-2"))
    first, second = (where_notices_lead({"shift": each}, "broker", 1883) for each in (one, other))
    assert first["shift"] != second["shift"] and first[""] == second[""] != where_notices_lead({}, "broker", 1884)[""]
    assert "secret" not in str(first)


# digests ----------------------------------------------------------------------------------------------------------------
HEAD = """---
name: {name}
description: Look
triggers: {{names: {{en: [{name}], zh: [{name}]}}}}
access: operator
---
# Look
"""
LOOK = "steps: [{id: look, tool: say, arguments: {text: 'I look.'}}]"
THEN = "steps: [{id: then, tool: run_playbook, arguments: {playbook: look}}]"


def definitions(folder: Path, plant: Plant, **playbooks: str) -> Definitions:
    for name, steps in playbooks.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "SKILL.md").write_text(HEAD.format(name=name), "utf-8")
        (folder / name / "steps.yaml").write_text(steps, "utf-8")
    folder.mkdir(exist_ok=True)
    clock, wording = ManualClock(), phrasing(plant)
    known = Playbooks.load(folder, "c0ffee") if playbooks else Playbooks({}, "c0ffee")
    procedures = ProcedureBook(known, Phrasebook.load(PHRASES, plant).knowing(known), plant)
    understand = phrasebook_for(plant).understand
    tools = [
        CreateWorkOrder(clock), RunPlaybook(procedures, wording, CountingIds(), lambda tx, plan, asked: plan),
        ScheduleCheck(clock, CountingIds(), wording, understand),
    ]  # fmt: skip
    return Definitions(plant, Toolbox(tools))


def test_a_procedure_is_all_that_it_goes_on_with(tmp_path: Path) -> None:
    def basis(name: str, **playbooks: str) -> str:
        return definitions(tmp_path, shipped_plant(), **playbooks).basis_of("run_playbook", {"playbook": name}, "en")

    then, look = basis("then", then=THEN, look=LOOK), basis("look", then=THEN, look=LOOK)
    assert then and look and then != look
    changed = LOOK.replace("I look", "I jump")
    assert basis("look", then=THEN, look=changed) != look and basis("then", then=THEN, look=changed) != then
    assert basis("nowhere", then=THEN, look=LOOK) == ""


def test_a_check_is_what_its_sentence_means(tmp_path: Path) -> None:
    check = {"minutes": 10, "sentence": "what is the temperature of motor three"}

    def basis(change: Change) -> str:
        return definitions(tmp_path, plant_with(change)).basis_of("schedule_check", check, "en")

    as_it_was = basis(lambda told: None)
    assert as_it_was and as_it_was != basis(lambda told: of(told, "tags", "motor_3.temperature").update(unit="bar"))
    assert as_it_was == basis(lambda told: of(told, "tags", "pump_3.pressure").update(decimals=3))


@pytest.mark.parametrize(
    "arguments", [{"machine": {"id": ["x", HOT]}}, {"key": "motor_3.temperature"}, {"keys": ["motor_3.temperature"]}]
)
def test_what_is_named_counts_wherever_a_call_names_it(tmp_path: Path, arguments: dict[str, Any]) -> None:
    plants = [shipped_plant(), plant_with(lambda told: of(told, "tags", "motor_3.temperature").update(unit="bar"))]
    first, second = (definitions(tmp_path, plant).basis_of("a_tool_of_others", arguments, "en") for plant in plants)
    assert first and second and first != second


@pytest.mark.parametrize("tool", ["acknowledge_alarm", "reset_alarm"])
@pytest.mark.parametrize("arguments", [{}, {"activation": "al_1"}, {"only_last": True}])
def test_what_does_not_name_its_alarm_rests_on_all(tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    plants = [shipped_plant(), plant_with(hot(priority="critical"))]
    first, second = (definitions(tmp_path, plant).basis_of(tool, arguments, "en") for plant in plants)
    assert first and second and first != second


def test_what_names_nothing_rests_on_nothing(tmp_path: Path) -> None:
    assert definitions(tmp_path, shipped_plant()).basis_of("create_work_order", {"title": "x", "detail": "y"}, "en") == ""
