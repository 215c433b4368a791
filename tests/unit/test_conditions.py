"""Conditions on results: read at load or not at all, judged for everything a result can hold, renamed with the steps."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.contracts.condition import LONGEST, MOST_TERMS, Compared, Done, all_of, condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action, ActionState, Plan, Step
from appliance.contracts.reading import Quality, Reading
from appliance.execution.conditions import holds
from appliance.execution.quantity import quantity_of
from appliance.planning.estimate import estimate_s
from appliance.planning.plan_check import check
from appliance.store.step_names import renamed
from tests.support.clock import ManualClock
from tests.support.planning import shipped_plant
from tests.support.tool_contracts import CONTRACTS

GOOD = {"value": 84.5, "unit": "degC", "decimals": 1, "quality": "good", "age_s": 0.1}
RESULT: dict[str, Any] = {
    "count": 3, "best": "cold", "known": True, "nothing": None, "value": GOOD, "entries": [{"code": "E7"}],
    "values": {
        "motor_3.temperature": GOOD, "motor_3.load": GOOD | {"quality": "stale"}, "motor_3.mode": GOOD | {"value": "auto"},
        "motor_3.status": GOOD | {"value": "fault, overload", "states": ["fault", "overload"]},
        "motor_3.phase": GOOD | {"value": "7", "states": []},
    },
}  # fmt: skip


def step(name: str, tool: str = "read_tags", state: ActionState = ActionState.DONE, result: Any = None) -> Action:
    return Action(name, "t", 0, name, tool, {}, "", False, state, RESULT if result is None else result)


EARLIER = {
    "read": step("read"),
    "failed": step("failed", state=ActionState.FAILED),
    "skipped": step("skipped", state=ActionState.SKIPPED),
    "yes": step("yes", "ask", result={"confirmed": True}),
    "no": step("no", "ask", result={"confirmed": False}),
    "unanswered": step("unanswered", "ask", ActionState.WAITING, {"confirmation": "c"}),
}


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("", True),
        ("read", True),
        ("not read", False),
        ("failed", False),
        ("not failed", True),
        ("yes and not no", True),
        ("yes and no", False),
        ("unanswered", False),
        ("not unanswered", False),
        ("read.count > 2", True),
        ("read.count>3", False),
        ("read.count >= 3 and read.count <= 3 and read.count == 3 and read.count != 4", True),
        ("read.value > 80", True),
        ("read.value < 80.5", False),
        ("read.values.motor_3.temperature > 80", True),
        ("read.values.motor_3.mode == 'auto'", True),
        ('read.best == "cold and wet"', False),
        ('read.best != "cold and wet"', True),
        ("read.known == true", True),
        ("read.known != true", False),
        ("read.entries.0.code == 'E7'", True),
        # of a bitfield each bit is judged by itself
        ("read.values.motor_3.status == 'fault'", True),
        ("read.values.motor_3.status != 'fault'", False),
        ("read.values.motor_3.status != 'ready'", True),
        ("read.values.motor_3.status == 'fault, overload'", False),
        ("read.values.motor_3.status.value != 'fault'", False),
        # a number without a name is no state
        ("read.values.motor_3.phase == 'idle'", False),
        ("read.values.motor_3.phase != 'idle'", False),
        ("read.values.motor_3.phase.value != 'idle'", False),
        # a value nobody has fulfils nothing, not even "is not"
        ("read.values.motor_3.load > 0", False),
        ("read.values.motor_3.load != 0", False),
        ("read.values.motor_3.load.value > 0", False),
        ("read.values.pump_3.pressure < 100", False),
        ("read.nothing != 1", False),
        ("read.missing != 1", False),
        ("read.count == '3'", False),
        ("read.known == 1", False),
        ("read.entries > 0", False),
        ("failed.count > 0", False),
        ("skipped.count > 0", False),
    ],
)
def test_a_condition_is_judged_by_results(when: str, expected: bool) -> None:
    assert holds(when, EARLIER, frozenset({"ask"})) is expected


def test_what_a_tag_shows_is_judged_as_its_declaration_means_it() -> None:
    steady = ManualClock()

    def result(value: str, **declared: Any) -> dict[str, Any]:
        tag = shipped_plant().tag_by_key["motor_3.fan_speed"].model_copy(update=declared)
        reading = Reading(tag.key, value, "", Quality.GOOD, steady.utc())
        return {"value": quantity_of(reading, tag, steady).model_dump(mode="json")}

    bits, states = {"flags": {0: "ready", 1: "fault"}}, {"names": {0: "local", 1: "remote"}}
    told = {"both": result("ready, fault", **bits), "other": result("7", **states), "local": result("local", **states)}
    earlier = {name: step(name, result=value) for name, value in told.items()}
    expected = {
        "both.value == 'fault'": True, "both.value != 'fault'": False, "both.value != 'ready, fault'": True,
        "other.value != 'remote'": False, "other.value == '7'": False, "local.value != 'remote'": True,
        "local.value == 'local'": True,
    }  # fmt: skip
    assert {when: holds(when, earlier, frozenset()) for when in expected} == expected
    assert "states" not in result("fast")["value"]


@pytest.mark.parametrize(
    ("when", "part"),
    [
        ("read >", "is no condition"),
        ("read.count > ", "is no condition"),
        ("read.count > many", "is no number"),
        ("read.count or read", "is no condition"),
        ("not read.count > 3", "is no condition"),
        ("read.known > true", "only numbers can be compared with >"),
        ("read.best < 'x'", "only numbers can be compared with <"),
        ("and", None),
        ("read and", "is no condition"),
        ("read.count > 1e400", "is no number"),
        ("__import__('os')", "is no condition"),
        ("read.count > {steps.read.count}", "is no number"),
        ("x" * (LONGEST + 1), "characters"),
        (" and ".join(["read"] * (MOST_TERMS + 1)), "parts"),
    ],
)
def test_what_is_no_condition_says_how_one_is_written(when: str, part: str | None) -> None:
    if part is None:
        assert condition_of(when).terms == (Done("and"),)
        return
    with pytest.raises(Malformed, match=part):
        condition_of(when)


def test_a_condition_about_no_earlier_step_is_malformed() -> None:
    with pytest.raises(Malformed, match="names no earlier step"):
        holds("read and later", EARLIER, frozenset())


def test_conditions_are_joined_and_follow_their_steps() -> None:
    assert all_of(["", "meant", "read.count > 2", "meant"]) == "meant and read.count > 2"
    assert condition_of("not log  and  log.count>=2.5").terms == (Done("log", False), Compared("log", "count", ">=", 2.5))
    again = renamed(Step("say", "say", {}, "not log and log.count >= 2 and other.best == 'log'"), {"log": "log_2", "say": "say"})
    assert again.when == 'not log_2 and log_2.count >= 2 and other.best == "log"'


@pytest.mark.req("S8")
def test_a_plan_with_a_condition_that_is_none_or_about_a_later_step_is_none() -> None:
    def plan(when: str) -> Plan:
        steps = (Step("log", "read_plc_log", {}), Step("say", "say", {"text": "x"}, when), Step("end", "say", {"text": "x"}))
        return Plan("help", "model:x/y", steps)

    check(plan("log.count > 0 and log"), CONTRACTS)
    for when, part in (
        ("log.count >", "is no condition"),
        ("end", "names no earlier step"),
        ("log and end.x == 1", "no earlier"),
    ):
        with pytest.raises(Malformed, match=part):
            check(plan(when), CONTRACTS)


@pytest.mark.req("S8")
def test_an_estimate_counts_only_the_longer_of_two_ways() -> None:
    bounds = {"a": 1.0, "b": 10.0}
    steps = [
        Step("ask", "a", {}),
        Step("one", "b", {}, "ask and log.count > 3"),
        Step("two", "b", {}, "ask"),
        Step("three", "b", {}, "not ask"),
        Step("four", "b", {}, "log.count > 3"),
        Step("five", "b", {}, "log.count <= 3"),
    ]
    assert estimate_s(steps, bounds) == 1.0 + 20.0 + 20.0, "only a yes and a no exclude each other for certain"
