"""Where questions go, and when a route is too dear."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from appliance.memory.routes import CHEAPER, Route, RouteCosts, choose_route

NOW = datetime(2026, 3, 4, 14, 30, tzinfo=UTC)


@pytest.mark.req("M6")
@pytest.mark.parametrize(
    ("question", "route"),
    [
        ("how do I reset motor three", Route.PROCEDURE),
        ("how to clean the strainer", Route.PROCEDURE),
        ("怎么复位三号电机", Route.PROCEDURE),
        ("如何更换滤网", Route.PROCEDURE),
        ("what happened yesterday", Route.TIME),
        ("昨天三号电机怎么了", Route.TIME),
        ("the last setpoint I edited", Route.WORKING),
        ("the last thing I said", Route.WORKING),
        ("我刚才修改的参数", Route.WORKING),
        ("Motor three over temperature 94 degC, fan speed low", Route.LIKENESS),
        ("三号电机温度过高94度，风扇转速低", Route.LIKENESS),
        ("have we seen this before", Route.LIKENESS),
    ],
)
def test_questions_are_routed_by_intent(question: str, route: Route) -> None:
    assert choose_route(question, NOW)[0] is route


def test_a_window_comes_with_the_time_route_only() -> None:
    assert choose_route("yesterday", NOW)[1] is not None
    assert choose_route("how do I fix what broke yesterday", NOW)[1] is None


@pytest.mark.req("M7")
def test_costs_follow_what_is_measured() -> None:
    costs = RouteCosts()
    for _ in range(30):
        costs.measured(Route.LIKENESS, 250.0)
    assert costs.expected_ms(Route.LIKENESS) == pytest.approx(250.0, rel=0.01)


def test_a_route_given_up_is_tried_again_some_day() -> None:
    costs = RouteCosts()
    costs.measured(Route.LIKENESS, 5_000.0)
    passed = 0
    while costs.expected_ms(Route.LIKENESS) > 100.0:
        costs.passed_over(Route.LIKENESS)
        passed += 1
    assert 10 < passed < 50


def test_every_route_ends_in_the_cheapest() -> None:
    assert all(CHEAPER[r][-1] is Route.WORKING for r in Route if r is not Route.WORKING)
