"""The language of interlocks: what it understands, what it refuses, and when it holds."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.contracts.errors import Malformed
from appliance.contracts.interlock import LONGEST, faults_of, holds, parse, spelled, tags_in
from appliance.contracts.plant import Plant
from tests.support.planning import shipped_plant

pytestmark = pytest.mark.req("X5", "F4")

VALUES: dict[str, Any] = {
    "motor_3.temperature": 88.5, "pump_3.flow": 12.0, "pump_3.running": True, "valve_2.position": "closed", "line.a.b": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    "text, expected",
    [
        ("motor_3.temperature < 90 and pump_3.flow > 5", True),
        ("motor_3.temperature < 88.5 or pump_3.flow <= 5", False),
        ("not pump_3.running or 0 < pump_3.flow <= 12", True),
        ("10 < pump_3.flow < 12", False),
        ("pump_3.running", True),
        ("pump_3.running == false", False),
        ("valve_2.position == 'closed' and valve_2.position != \"open\"", True),
        ("motor_3.temperature - pump_3.flow * 2 > 60 + 4 / 2", True),
        ("-pump_3.flow < 0 and not (pump_3.flow > 20)", True),
        ("line.a.b == 3", True),
        ("motor_3.temperature == 88.5 == motor_3.temperature", True),
    ],
)
def test_what_it_understands(text: str, expected: bool) -> None:
    expression = parse(text)
    assert holds(expression, VALUES) is expected
    assert holds(parse(spelled(expression)), VALUES) is expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "motor_3.temperature <", "a.b < 90; c.d > 1", "__import__('os').system('true')", "a.b.__class__()",
        "(lambda: 1)()", "open('x')", "[1, 2] == a.b", "{1: 2}", "a.b if c.d else e.f", "a.b in (1, 2)", "a.b is true", "a.b & 1",
        "a.b ** 2", "a.b // 2", "a.b % 2", "~a.b", "+a.b", "f'{a.b}'", "b'x' == a.b", "a.b < 1j", "True", "None",
        "temperature < 90", "a.b[0] > 1", "a.b < 1e999", "x := 1", "a.b < 90 # and off", "*a.b", "a.b < ...", "(a.b).real() < 1",
        "'a'.b == 1", "1.0.b == 2", "(" * 30 + "a.b" + ")" * 30 + " < " + "not " * 30 + "true", "a.b < " + "9" * LONGEST,
    ],
)  # fmt: skip
def test_what_it_refuses(text: str) -> None:
    if "#" in text:  # a remark is none of the expression
        assert spelled(parse(text)) == "a.b < 90"
        return
    with pytest.raises(Malformed):
        parse(text)


@pytest.mark.parametrize(
    "text, why",
    [
        ("motor_3.temprature < 90", "motor_3.temprature is not a tag"),
        ("motor_3.temperature < 'hot'", "cannot be compared"),
        ("pump_3.running > 1", "cannot be compared"),
        ("pump_3.running > false", "can only be compared by == and !="),
        ("motor_3.temperature", "has to be something that is true or false"),
        ("motor_3.temperature and pump_3.running", "needs true or false"),
        ("pump_3.running + 1 > 1", "needs a number"),
        ("not motor_3.temperature", "needs true or false"),
        ("valve_2.position == 'shut'", "never 'shut'"),
        ("1 < 'x' < 2", "cannot be compared"),
    ],
)
def test_what_makes_no_sense_is_told(text: str, why: str) -> None:
    told = [message for message, _ in faults_of(parse(text), tags())]
    assert any(why in message for message in told), told


@pytest.mark.parametrize("text", ["motor_3.temperature < 90 and pump_3.running", "valve_2.position == 'closed'", "1 < 2"])
def test_what_makes_sense_has_no_faults(text: str) -> None:
    assert list(faults_of(parse(text), tags())) == []


@pytest.mark.parametrize(
    "text, values",
    [
        ("a.b < 90", {}),
        ("a.b < 90", {"a.b": "hot"}),
        ("a.b < 90", {"a.b": True}),
        ("a.b / c.d < 1", {"a.b": 1.0, "c.d": 0.0}),
        ("a.b * a.b < 1", {"a.b": 1e300}),
        ("a.b and c.d", {"a.b": False, "c.d": 3}),
        ("not a.b", {"a.b": 0}),
        ("a.b + 1 < 3", {"a.b": float("nan")}),
        ("a.b == 'x'", {"a.b": 3}),
    ],
)
def test_what_cannot_be_judged_is_neither_true_nor_false(text: str, values: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        holds(parse(text), values)


def test_all_tags_are_named_also_those_that_would_not_matter() -> None:
    assert tags_in(parse("a.b < 1 or (c.d and not e.f == 'x') or 0 < g.h + i.j < 5")) == {"a.b", "c.d", "e.f", "g.h", "i.j"}


def tags() -> dict[str, Any]:
    plant = shipped_plant()
    valve = plant.tag_by_key["motor_3.fan_speed"].model_copy(
        update={"name": "position", "asset": "valve_2", "names": {0: "open", 1: "closed"}}
    )
    assert isinstance(plant, Plant)
    return plant.tag_by_key | {"valve_2.position": valve}
