"""The language of interlocks: what it understands, what it refuses, and when it holds."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.contracts.errors import Malformed
from appliance.contracts.interlock import LONGEST, holds, parse, spelled, tags_in
from appliance.contracts.interlock_faults import faults_of
from appliance.contracts.tag import Tag
from tests.support.planning import shipped_plant

pytestmark = pytest.mark.req("X5", "F4")

VALUES: dict[str, Any] = {
    "motor_3.temperature": 88.5, "pump_3.flow": 12.0, "pump_3.running": True, "valve_2.position": "closed",
    "drive_1.status": "fault, overload",
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
        # of a bitfield each bit is judged by itself
        ("drive_1.status == 'fault'", True),
        ("drive_1.status != 'fault'", False),
        ("'overload' == drive_1.status", True),
        ("'fault' != drive_1.status or drive_1.status == 'ready'", False),
        ("drive_1.status != 'ready' and not drive_1.status == 'ready'", True),
        ("drive_1.status == 'none'", False),
        ("motor_3.temperature > -5", True),
        ("motor_3.temperature == 88.5 == motor_3.temperature", True),
    ],
)
def test_what_it_understands(text: str, expected: bool) -> None:
    expression = parse(text)
    assert holds(expression, VALUES, tags()) is expected
    assert holds(parse(spelled(expression)), VALUES, tags()) is expected


@pytest.mark.parametrize(
    "shown, is_ready, is_no_fault, is_none",
    [
        ("ready", True, True, False),
        ("ready, fault", True, False, False),
        ("fault", False, False, False),
        ("ready, bit 7", True, True, False),  # a bit nobody named is another one, whatever it means
        ("fault, bit 7", False, False, False),
        ("bit 7", False, True, False),
        ("none", False, True, True),
    ],
)
def test_a_bit_is_set_or_not_whatever_else_is_set(shown: str, is_ready: bool, is_no_fault: bool, is_none: bool) -> None:
    for text, expected in (("== 'ready'", is_ready), ("!= 'fault'", is_no_fault), ("== 'none'", is_none)):
        assert holds(parse(f"drive_1.status {text}"), {"drive_1.status": shown}, tags()) is expected


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
        ("drive_1.status != 'falt'", "never 'falt'"),
        ("drive_1.status != 'Fault'", "never 'Fault'"),
        ("drive_1.status == 'fault, overload'", "never 'fault, overload'"),
        ("drive_1.status == 'bit 7'", "never 'bit 7'"),
        ("drive_1.status == valve_2.position", "several bits, which can only be compared with a name"),
        ("drive_1.status", "has to be something that is true or false"),
        # what says nothing of the machine
        ("1 < 2", "1 < 2 is about no tag"),
        ("true", "true is about no tag"),
        ("not false", "false is about no tag"),
        ("motor_3.temperature < 90 or 1 < 2", "1 < 2 is about no tag"),
        ("motor_3.temperature < 90 or true", "true is about no tag"),
        ("0 < 1 < motor_3.temperature", "0 < 1 is about no tag"),
        ("'a' == 'a' and pump_3.running", "about no tag"),
        ("motor_3.temperature == motor_3.temperature", "compared with itself"),
        ("pump_3.running == pump_3.running or pump_3.running", "compared with itself"),
        ("motor_3.temperature < 9000", "never 9000"),
        ("motor_3.fan_speed > -70000", "never -70000"),
        ("1 < 'x' < 2", "cannot be compared"),
    ],
)
def test_what_makes_no_sense_is_told(text: str, why: str) -> None:
    told = [fault.what for fault in faults_of(parse(text), tags())]
    assert any(why in message for message in told), told


@pytest.mark.parametrize(
    "text",
    [
        "motor_3.temperature < 90 and pump_3.running", "valve_2.position == 'closed'", "pump_3.running == true",
        "drive_1.status != 'fault' and 'ready' == drive_1.status and drive_1.status == 'none'",
        "motor_3.temperature - pump_3.flow > 4 / 2 and 0 < motor_3.temperature < 90",
    ],
)  # fmt: skip
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
        # a number that an enumeration has no name for is no state
        ("valve_2.position != 'closed'", {"valve_2.position": "7"}),
        ("valve_2.position == 'closed'", {"valve_2.position": "7"}),
        ("pump_3.running or valve_2.position != 'closed'", {"pump_3.running": True, "valve_2.position": "7"}),
        ("odd.mode != 'closed'", {"odd.mode": "7"}),  # either its number 3, which is called 7, or the number 7
        ("drive_1.status != 'fault'", {"drive_1.status": 4}),
        ("drive_1.status == valve_2.position", {"drive_1.status": "fault", "valve_2.position": "closed"}),
    ],
)
def test_what_cannot_be_judged_is_neither_true_nor_false(text: str, values: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        holds(parse(text), values, tags())


def test_all_tags_are_named_also_those_that_would_not_matter() -> None:
    assert tags_in(parse("a.b < 1 or (c.d and not e.f == 'x') or 0 < g.h + i.j < 5")) == {"a.b", "c.d", "e.f", "g.h", "i.j"}


def tags() -> dict[str, Tag]:
    plant = shipped_plant()
    like = plant.tag_by_key["motor_3.fan_speed"]
    made: dict[str, dict[str, Any]] = {
        "valve_2.position": {"names": {0: "open", 1: "closed"}},
        "odd.mode": {"names": {1: "closed", 3: "7"}},
        "drive_1.status": {"flags": {0: "ready", 1: "fault", 2: "overload"}},
        **{key: {} for key in ("a.b", "c.d", "e.f")},
    }
    return plant.tag_by_key | {key: like.model_copy(update=changes) for key, changes in made.items()}
