"""Turns that go round in circles: what is warned of, what is not done again, what ends the turn, and in which words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, ActionState, Step
from appliance.contracts.principal import UNATTENDED
from appliance.execution.guardrails import Finding, Weight, judge
from appliance.execution.runner import RunOutcome
from tests.support.stopping import FINISHED, Yard, open_yard

DONE, FAILED = ActionState.DONE, ActionState.FAILED


def ran(tool: str, arguments: dict[str, Any], state: ActionState = DONE, **result: Any) -> Action:
    kept = {"error_code": "refused"} if state is FAILED and not result else result
    return Action("ac", "tr", 0, "s", tool, arguments, "", True, state, kept)


def found(earlier: list[Action], tool: str = "look", unattended: bool = False, **arguments: Any) -> Finding | None:
    coming = Action("ac_new", "tr", len(earlier), "new", tool, arguments, "", True, ActionState.PENDING, None)
    return judge(coming, earlier, None, is_unattended=unattended)


@pytest.mark.req("T10")
@pytest.mark.parametrize(
    ("failures", "weight"),
    [
        (1, None),
        (2, Weight.WARN),
        (4, Weight.WARN),
        (5, Weight.BLOCK),
        (7, Weight.BLOCK),
        (8, Weight.HALT),
    ],
)
def test_the_same_call_failing_is_warned_of_at_two_and_blocked_at_five(failures: int, weight: Weight | None) -> None:
    finding = found([ran("look", {"at": "x"}, FAILED)] * failures, at="x")
    assert (None if finding is None else finding.weight) == weight


@pytest.mark.req("T10")
@pytest.mark.parametrize(("failures", "weight"), [(2, None), (3, Weight.WARN), (7, Weight.WARN), (8, Weight.HALT)])
def test_a_tool_failing_with_other_arguments_is_warned_of_at_three_and_halted_at_eight(
    failures: int, weight: Weight | None
) -> None:
    finding = found([ran("look", {"at": str(n)}, FAILED) for n in range(failures)], at="new")
    assert (None if finding is None else finding.weight) == weight


@pytest.mark.req("T10")
def test_what_worked_in_between_begins_the_count_anew() -> None:
    failing = [ran("look", {"at": str(n)}, FAILED) for n in range(6)]
    assert found([*failing, ran("look", {"at": "y"}), *failing[:2]], at="new") is None


@pytest.mark.req("T10")
def test_the_same_result_three_times_is_warned_of_and_another_result_is_not() -> None:
    same = [ran("look", {"at": "x"}, seen="94")] * 3
    assert found(same, at="x") == Finding(Weight.WARN, "look has said the same 3 times")
    assert found(same[:2], at="x") is None
    assert found([*same[:2], ran("look", {"at": "x"}, seen="95")], at="x") is None
    assert found(same, at="y") is None


@pytest.mark.req("T10")
@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_a_cycle_of_up_to_four_calls_is_seen_when_it_begins_a_third_time(length: int) -> None:
    once = [ran(f"look_{n}", {}, seen=str(n)) for n in range(length)]
    finding = found(once * 2, tool="look_0")
    assert (finding is not None) is (length <= 4)
    assert found([*once, *once[:-1], ran(f"look_{length - 1}", {}, seen="other")], tool="look_0") is None
    assert found(once, tool="look_0") is None


@pytest.mark.req("T10")
def test_only_the_last_sixty_four_steps_are_looked_at() -> None:
    old, others = [ran("look", {"at": "x"}, FAILED)] * 9, [ran("other", {"n": n}) for n in range(64)]
    assert found([*old, *others], at="x") is None
    assert found([*old, *others[:-2]], at="x") == Finding(Weight.WARN, "look has failed 2 times with the same arguments")


@pytest.mark.req("T10")
def test_a_question_nobody_answered_or_a_hold_is_no_failure_of_the_tool() -> None:
    held = [ran("look", {"at": "x"}, FAILED, error_code="on_hold")] * 9
    assert found(held, at="x") is None


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


def looks(count: int, *, same: bool = True) -> list[Step]:
    """Steps that look one after the other, each optional."""
    return [
        Step(f"s{n}", "look", {"at": "x" if same else str(n)}, optional=True, after=(f"s{n - 1}",) if n else ())
        for n in range(count)
    ]


@pytest.mark.req("T10")
async def test_a_call_that_fails_again_and_again_carries_a_warning_and_then_is_not_made(yard: Yard) -> None:
    yard.looking(refuse)
    turn = await yard.turn(*looks(7), Step("b", "say", {"text": "Going on."}))
    assert await yard.runner.run(turn) == FINISHED
    assert len(yard.look.calls) == 5
    warnings = [(await yard.result(f"s{n}")).get("warning") for n in range(5)]
    assert warnings[:2] == [None, None] and warnings[2] == "look has failed 2 times with the same arguments"
    blocked = await yard.result("s6")
    assert (blocked["error_code"], blocked["error"]) == ("blocked", "look has failed 6 times with the same arguments")
    assert await yard.said() == ["Going on."]


@pytest.mark.req("T10")
async def test_a_tool_that_always_fails_ends_the_turn_and_it_is_said_even_of_steps_that_may_fail(yard: Yard) -> None:
    yard.looking(refuse)
    turn = await yard.turn(*looks(10, same=False), Step("b", "say", {"text": "Never."}))
    assert await yard.runner.run(turn) == RunOutcome("failed", "s8: halted: look has failed 8 times in a row")
    assert len(yard.look.calls) == 8
    assert await yard.said() == ["I was getting nowhere, so I stopped."]
    assert yard.tickets.opened == [("s8", "look", "halted")], "people are told"


@pytest.mark.req("T10")
@pytest.mark.parametrize(("context", "calls"), [({UNATTENDED: True}, 2), ({}, 5)])
async def test_when_nobody_is_watching_it_ends_where_else_it_would_be_warned_of(
    yard: Yard, context: dict[str, Any], calls: int
) -> None:
    yard.looking(refuse)
    outcome = await yard.runner.run(await yard.turn(*looks(6), **context))
    assert (outcome.kind, len(yard.look.calls)) == ("failed" if context else "finished", calls)


@pytest.mark.req("T10")
async def test_what_is_filled_in_is_compared_and_not_how_it_is_written(yard: Yard) -> None:
    steps = [Step("a", "look", {"at": "x"}), Step("a_2", "look", {"at": "x"}, after=("a",))]
    steps += [Step(f"s{n}", "look", {"at": named(n)}, after=(f"s{n - 1}",) if n else ()) for n in range(4)]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    assert (await yard.result("s3"))["warning"] == "look has said the same 3 times"


def named(number: int) -> str:
    return "{steps.a.seen}" if number % 2 else "{steps.a_2.seen}"


async def refuse() -> dict[str, Any]:
    raise Refused("the guard is open")
