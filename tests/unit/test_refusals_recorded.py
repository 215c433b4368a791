"""Every refusal of an act leaves one record with who, what and why, at whatever stage and by whatever way it came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Arrival
from appliance.contracts.errors import Refused
from appliance.contracts.hold import HoldSource
from appliance.contracts.plan import Step
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.settings_rules import shipped_tool_levels
from appliance.store import holds
from tests.support.gate import FAN, SET_FAN, open_gate, plan_of, principal, rules, write_step
from tests.support.hall import Hall, open_hall
from tests.support.scripted_model import ScriptedModel, step
from tests.support.scripted_model import plan_of as model_plan
from tests.support.waiting import until

pytestmark = [pytest.mark.req("X2"), pytest.mark.field("FC-A03")]

BEYOND = SET_FAN.replace("eighty", "five hundred")
LIMITS = "from 0 to 100 percent"
VISITOR = Principal("vic", Identification.TOKEN, "public", AccessLevel.PUBLIC, "tok_vic")
HEAD = "---\nname: {name}\ndescription: For a test\ntriggers: {triggers}\naccess: operator\n---\nDo it.\n"
STEPS = """parameters:
  asset: {{kind: asset, tags: [fan_speed]}}
steps:
  - {{id: told, tool: say, arguments: {{text: "I look after the fan."}}}}
  - {step}
"""
WRITES = "{id: fan, tool: write_tag, arguments: {tag: fan_speed, value: 500}}"
RUNS = '{id: more, tool: run_playbook, arguments: {playbook: cool-down, parameters: {asset: "{asset}"}}}'
SETS = "steps:\n  - {id: told, tool: say, arguments: {text: Hot.}}\n" + (
    "  - {id: fan, tool: write_tag, arguments: {tag: fan_speed, value: 80}}\n"
)


def books(folder: Path) -> Playbooks:
    """One that writes beyond the limits, one that runs that, and one of an alarm."""
    asked = '{{phrases: {{en: ["{said} [the] {{asset}}"]}}}}'
    soft = WRITES.replace("500", "80").replace("}}", "}, optional: true}")
    made = {
        "soft": (asked.format(said="soften"), STEPS.format(step=soft)),
        "go-softly": (asked.format(said="go softly about"), STEPS.format(step=RUNS.replace("cool-down", "soft"))),
        "cool-down": (asked.format(said="cool down"), STEPS.format(step=WRITES)),
        "go-through": (asked.format(said="go through"), STEPS.format(step=RUNS)),
        "hot": ("{faults: [over_temperature]}", SETS),
    }
    for name, (triggers, steps) in made.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(HEAD.format(name=name, triggers=triggers), "utf-8")
        (folder / name / "steps.yaml").write_text(steps, "utf-8")
    return Playbooks.load(folder, "c0ffee", shipped_tool_levels())


async def records(bench: Any) -> list[dict[str, Any]]:
    """The refusals in the list of decisions; each has its entry in the audit log, and no other is there."""
    rows = await bench.rows("SELECT * FROM approval WHERE decision = 'deny' ORDER BY seq")
    entries = await audited(bench)
    assert [(entry["tool"], entry["why"], entry["turn"]) for entry in entries] == [
        (row["tool"], row["why"], row["turn_id"]) for row in rows
    ]
    return [dict(row) for row in rows]


async def audited(bench: Any) -> list[dict[str, Any]]:
    kinds = "('audit.call_denied', 'audit.call_hidden')"
    rows = await bench.rows(f"SELECT payload FROM operation WHERE kind IN {kinds} ORDER BY seq")
    return [json.loads(row["payload"]) for row in rows]


async def hold(hall: Hall) -> None:
    bench = hall.bench
    await bench.database.transaction(lambda tx: holds.begin(tx, bench.clock, HoldSource.PERSON, by="root", reason="repair"))


@pytest.mark.parametrize(
    ("said", "tool", "subject", "why"),
    [
        (BEYOND, "write_tag", FAN, LIMITS),
        ("set the temperature of motor three to ten degrees", "write_tag", "motor_3.temperature", "cannot be set"),
        ("set the temperature of motor three to maximum", "write_tag", "motor_3.temperature", "cannot be set"),
        ("cool down motor three", "write_tag", FAN, LIMITS),
        ("go through motor three", "write_tag", FAN, LIMITS),
    ],
)
async def test_what_a_planner_refuses_is_on_record_once(tmp_path: Path, said: str, tool: str, subject: str, why: str) -> None:
    async with open_hall(tmp_path / "hall", playbooks=books(tmp_path / "books")) as hall:
        ended = await hall.say(said, by="anna")
        assert any(why in told for told in await hall.said(ended.turn_id))
        (row,) = await records(hall.bench)
        assert (row["tool"], row["subject"], row["rule"], row["turn_id"]) == (tool, subject, "hard_floor", ended.turn_id)
        assert why in row["why"] and json.loads(row["who"])["by"] == "anna" and row["session_id"]
        assert hall.bus.writes == []


async def test_a_persons_own_limits_trip_no_breaker(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        for _ in range(4):
            await hall.say(BEYOND)
        assert {row["is_automatic"] for row in await records(hall.bench)} == {0}


async def test_what_only_tells_something_leaves_none(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        await hall.say("what is the temperature of pump three")  # there is no such value
        assert await records(hall.bench) == []


async def test_a_reading_that_a_rule_denies_is_on_record(tmp_path: Path) -> None:
    why = {"en": "That is the plant's secret."}
    async with open_hall(tmp_path, rules=rules(deny=[{"subjects": ["motor_3.load"], "why": why}])) as hall:
        await hall.say("what is the load of motor three")
        (row,) = await records(hall.bench)
        assert (row["tool"], row["subject"], row["rule"], row["why"]) == ("read_tags", "motor_3.load", "deny", why["en"])


async def test_what_a_hold_keeps_from_being_done_is_on_record_and_counts_for_nothing(tmp_path: Path) -> None:
    async with open_hall(tmp_path / "hall", playbooks=books(tmp_path / "books")) as hall:
        await hold(hall)
        await hall.say(SET_FAN, by="anna")
        (row,) = await records(hall.bench)
        assert (row["tool"], row["subject"], row["is_automatic"]) == ("write_tag", FAN, 0) and "on hold by root" in row["why"]
        told = await hall.alarm()
        assert told.turn_id in [entry["turn"] for entry in await audited(hall.bench)], "left out of what an alarm does"


async def test_a_step_that_a_hold_meets_is_on_record_once(tmp_path: Path) -> None:
    async with open_gate(tmp_path, rules(allow=["write_tag"], ask=[])) as gate:
        turn = await gate.unprepared([write_step()], principal())
        clock = gate.bench.clock
        await gate.bench.database.transaction(lambda tx: holds.begin(tx, clock, HoldSource.PERSON, by="root", reason="repair"))
        assert (await gate.run(turn)).kind == "failed"
        (row,) = await records(gate.bench)
        assert (row["subject"], row["rule"], row["is_automatic"]) == (FAN, "hard_floor", 0) and "root" in row["why"]


async def test_a_steer_that_is_refused_is_on_record(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        hall.bus.open_gate.clear()
        asked = (await hall.console_door.admit("what is the temperature of motor three", "en", "console")).admission
        await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
        await hall.console_door.admit(BEYOND, "en", "console", arrival=Arrival.STEER)
        (signal,) = [signal for _, signal in hall.conductor.bells._led.values()]
        await until(lambda: signal.steered, "the turn knows")
        hall.bus.open_gate.set()
        ended = await hall.ended(asked)
        (row,) = await records(hall.bench)
        assert (row["subject"], row["turn_id"]) == (FAN, ended.turn_id)


@pytest.mark.req("T3")
async def test_a_playbook_above_the_level_is_on_record_as_hidden(tmp_path: Path) -> None:
    run = model_plan(step("r", "run_playbook", playbook="cool-down", parameters={"asset": "motor_3"}))
    for n, model in enumerate((None, ScriptedModel([run]))):
        async with open_hall(tmp_path / str(n), playbooks=books(tmp_path / f"books{n}"), model=model) as hall:
            said = (
                "cool down motor three"
                if model is None
                else "please go through the procedure for motor three, what is wrong with it"
            )
            admitted = await hall.console_door.admit(said, "en", "vic", holder=VISITOR)
            await hall.ended(admitted.admission)
            (row,) = await records(hall.bench)
            assert (row["tool"], row["rule"], json.loads(row["who"])["by"]) == ("run_playbook", "hard_floor", "vic")
            (kind,) = await hall.bench.rows("SELECT kind FROM operation WHERE kind LIKE 'audit.call_%'")
            assert kind["kind"] == "audit.call_hidden"


async def test_what_a_model_wants_and_no_limit_lets_it_is_on_record_once(tmp_path: Path) -> None:
    model = ScriptedModel([model_plan(step("w", "write_tag", key=FAN, value=500), step("s", "say", text="Done."))])
    async with open_hall(tmp_path, model=model) as hall:
        await hall.say("change the fan of motor three so that it will not melt")
        assert len(model.requests) == 3
        (row,) = await records(hall.bench)
        assert (row["subject"], row["is_automatic"]) == (FAN, 1) and LIMITS in row["why"]


async def test_what_cannot_be_said_exactly_is_not_asked_for_and_on_record(tmp_path: Path) -> None:
    async with open_gate(tmp_path) as gate:
        said = gate.planned(plan_of(write_step(80.123456)), principal())
        with pytest.raises(Refused):
            await said
        (row,) = await records(gate.bench)
        assert (row["subject"], row["rule"]) == (FAN, "hard_floor")


async def test_what_a_plan_can_do_without_is_left_out_and_on_record_once(tmp_path: Path) -> None:
    cool = {"tags": [FAN], "interlocks": [{"require": "motor_3.temperature < 90"}]}
    for n, (settings, rule) in enumerate(((rules(deny=["write_tag"]), "deny"), (rules(writes=[cool]), "interlock"))):
        async with open_gate(tmp_path / str(n), settings) as gate:
            optional = Step("write", "write_tag", write_step().arguments, "", True)
            turn = await gate.planned(plan_of(optional, Step("told", "say", {"text": "Hot."})), principal())
            assert (await gate.run(turn)).kind == "finished"
            (row,) = await records(gate.bench)
            assert (row["rule"], row["subject"]) == (rule, FAN) and list(await gate.steps(turn)) == ["told"]


@pytest.mark.req("T3")
async def test_an_unfit_call_of_a_hidden_tool_is_in_both_lists(tmp_path: Path) -> None:
    async with open_gate(tmp_path) as gate:
        turn = await gate.unprepared([Step("write", "write_tag", {"nonsense": 1})], VISITOR)
        assert (await gate.run(turn)).kind == "failed"
        (row,) = await records(gate.bench)
        assert (row["tool"], row["rule"], row["why"]) == ("write_tag", "hard_floor", "there is no tool write_tag")


@pytest.mark.req("X5")
async def test_a_yes_of_who_may_not_do_it_and_three_wrong_codes_are_on_record(tmp_path: Path) -> None:
    boss = principal("critical", by="voice", identified=Identification.VOICE)
    async with open_gate(tmp_path, rules(writes=[{"tags": [FAN], "access": "critical"}])) as gate:
        turn = await gate.ask(SET_FAN, boss)
        code = await gate.code()
        assert await gate.answer(f"confirm {' '.join(code)}", principal(by="bob", identified=Identification.VOICE)) == (
            "may_not_confirm"
        )
        (row,) = await records(gate.bench)
        assert (row["tool"], row["turn_id"], json.loads(row["who"])["by"]) == ("write_tag", turn.id, "bob")
        wrong = " ".join("1" if digit == "2" else "2" for digit in code)
        told = [await gate.answer(f"confirm {wrong}", boss) for _ in range(3)]
        assert told == ["wrong_code", "wrong_code", "wrong_codes"]
        _, row = await records(gate.bench)
        assert (row["tool"], row["why"]) == ("write_tag", "three wrong codes")


async def test_what_is_denied_and_stays_in_the_plan_is_on_record_once_when_it_comes_to_it(tmp_path: Path) -> None:
    async with open_gate(tmp_path, rules(deny=[{"subjects": ["motor_3.load"]}])) as gate:
        optional = Step("look", "read_tags", {"keys": ["motor_3.load"]}, "", True)
        turn = await gate.planned(plan_of(optional, Step("told", "say", {"text": "Hot."})), principal())
        assert (await gate.run(turn)).kind == "finished"
        (row,) = await records(gate.bench)
        assert (row["subject"], row["rule"]) == ("motor_3.load", "deny")


@pytest.mark.parametrize("said", ["soften motor three", "go softly about motor three"], ids=["asked for", "run by another"])
async def test_what_a_playbook_can_do_without_is_on_record_once(tmp_path: Path, said: str) -> None:
    async with open_hall(tmp_path / "hall", playbooks=books(tmp_path / "books"), rules=rules(deny=["write_tag"])) as hall:
        ended = await hall.say(said)
        assert "I look after the fan." in await hall.said(ended.turn_id)
        (row,) = await records(hall.bench)
        assert (row["tool"], row["subject"], row["rule"], row["turn_id"]) == ("write_tag", FAN, "deny", ended.turn_id)
        assert [entry["playbook"] for entry in await audited(hall.bench)] == ["soft"]
