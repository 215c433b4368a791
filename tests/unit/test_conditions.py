"""Conditions on results: read at load or not at all, judged for everything a result can hold, renamed with the steps."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.contracts.condition import LONGEST, MOST_TERMS, Compared, Done, all_of, condition_of
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action, ActionState, Plan, Step
from appliance.execution.conditions import holds
from appliance.planning.estimate import estimate_s
from appliance.planning.plan_check import check
from appliance.store.step_names import renamed
from tests.support.tool_contracts import CONTRACTS

GOOD = {"value": 84.5, "unit": "degC", "decimals": 1, "quality": "good", "age_s": 0.1}
RESULT: dict[str, Any] = {
    "count": 3, "best": "cold", "known": True, "nothing": None, "value": GOOD, "entries": [{"code": "E7"}],
    "values": {
        "motor_3.temperature": GOOD, "motor_3.load": GOOD | {"quality": "stale"}, "motor_3.mode": GOOD | {"value": "auto"},
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
        # a value nobody has fulfils nothing, not even "is not"
        ("read.values.motor_3.load > 0", False),
        ("read.values.motor_3.load != 0", False),
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
