"""Templates reach data only, keep types, and are expanded once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action, ActionState
from appliance.execution.conditions import holds
from appliance.execution.templates import LONGEST_TEXT, look_up, render, texts_of

KNOWN: dict[str, Any] = {
    "alarm": {"value": 94.2, "unit": "degC"},
    "slots": {"tag": "motor_3.temperature", "on": True, "none": None},
    "steps": {
        "read": {"values": {"motor_3.temperature": {"value": 71.5}}, "value": {"value": 71.5}},
        "log": {"entries": [{"code": 7}, {"code": 9}], "count": 2},
    },
}


def worded(value: Any) -> str:
    return f"<{value}>"


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("plain", "plain"),
        ("{alarm.value}", 94.2),
        ("{slots.on}", True),
        ("{slots.none}", None),
        ("{steps.log.entries}", [{"code": 7}, {"code": 9}]),
        ("{steps.log.entries.1.code}", 9),
        ("{steps.read.values.motor_3.temperature.value}", 71.5),
        ("at {alarm.value}, {steps.log.count} entries", "at <94.2>, <2> entries"),
        ("{alarm.value} ", "<94.2> "),
        ("{{alarm.value}}", "{alarm.value}"),
        ("{{{alarm.value}}}", "{<94.2>}"),
        ({"keys": ["{slots.tag}", 3, {"deep": "{alarm.unit}"}]}, {"keys": ["motor_3.temperature", 3, {"deep": "degC"}]}),
        (7, 7),
    ],
)
def test_arguments_are_filled(template: Any, filled: Any) -> None:
    rendered = render({"x": template}, KNOWN, worded)["x"]
    assert rendered == filled
    assert type(rendered) is type(filled)


@pytest.mark.parametrize(
    "name",
    [
        *("alarm.missing", "nothing", "steps.log.entries.2", "steps.log.entries.-1", "steps.log.entries.first"),
        *("alarm.__class__", "alarm.value.real", "slots.tag.0", "slots.tag.upper", "steps.log.count.real"),
    ],
)
def test_only_keys_and_indexes_are_reached_and_a_missing_name_is_named(name: str) -> None:
    for template in (f"{{{name}}}", f"text {{{name}}}"):
        with pytest.raises(Malformed) as raised:
            render({"x": template}, KNOWN, worded)
        assert name in raised.value.message
        assert raised.value.facts["name"] == name


@pytest.mark.parametrize(
    "template", ["{", "}", "a { b", "{}", "{ alarm.value }", "{alarm..value}", "{alarm.value!r}", "{alarm.value:>9}"]
)
def test_what_is_no_placeholder_is_refused(template: str) -> None:
    with pytest.raises(Malformed):
        render({"x": template}, KNOWN, worded)


@given(st.text())
def test_values_are_never_expanded_again(value: str) -> None:
    known = {"said": value, "secret": "s3cret"}
    assert render({"x": "{said}"}, known, str)["x"] == value
    assert render({"x": "you said {said}."}, known, str)["x"] == f"you said {value}."


def test_where_a_text_is_wanted_a_whole_value_is_worded() -> None:
    told = {"text": "{steps.read.value}", "lines": ["{steps.log.count}", "x"], "count": "{steps.log.count}", "on": True}
    filled = render(told, KNOWN, worded, texts_of(_Texts))
    assert filled == {"text": "<{'value': 71.5}>", "lines": ["<2>", "x"], "count": 2, "on": True}


class _Texts(BaseModel):
    text: str
    lines: list[str]
    count: int
    on: bool


def test_a_value_that_looks_like_a_placeholder_stays_text() -> None:
    known = {"said": "{secret}", "secret": "s3cret"}
    assert render({"x": ["{said}", "so: {said}"]}, known, str) == {"x": ["{secret}", "so: {secret}"]}


def test_a_text_that_grows_too_long_is_refused() -> None:
    known = {"long": "x" * LONGEST_TEXT}
    assert len(render({"x": " {long}"[1:]}, known, str)["x"]) == LONGEST_TEXT
    with pytest.raises(Malformed, match="characters"):
        render({"x": "more {long}"}, known, str)


def test_arguments_nested_too_deeply_are_refused() -> None:
    nested: Any = "{said}"
    for _ in range(40):
        nested = [nested]
    with pytest.raises(Malformed, match="nested"):
        render({"x": nested}, {"said": "x"}, str)


def test_the_shortest_key_wins_when_dots_are_ambiguous() -> None:
    assert look_up("a.b", {"a": {"b": 1}, "a.b": 2}) == 1


def step(tool: str, state: ActionState, result: dict[str, Any] | None = None) -> dict[str, Action]:
    return {"x": Action("ac", "tr", 0, "x", tool, {}, "", False, state, result)}


@pytest.mark.parametrize(
    ("tool", "state", "result", "x", "not_x"),
    [
        ("ask", ActionState.DONE, {"confirmed": True}, True, False),
        ("ask", ActionState.DONE, {"confirmed": False}, False, True),
        ("ask", ActionState.DONE, {}, False, False),
        ("ask", ActionState.SKIPPED, None, False, False),
        ("ask", ActionState.FAILED, {"error": "nobody answered"}, False, False),
        ("read_tags", ActionState.DONE, {}, True, False),
        ("read_tags", ActionState.FAILED, {}, False, True),
        ("read_tags", ActionState.SKIPPED, None, False, True),
        ("write_tag", ActionState.UNKNOWN, {}, False, True),
    ],
)
def test_conditions(tool: str, state: ActionState, result: dict[str, Any] | None, x: bool, not_x: bool) -> None:
    earlier = step(tool, state, result)
    assert holds("x", earlier, frozenset({"ask"})) is x
    assert holds("not x", earlier, frozenset({"ask"})) is not_x
    assert holds("", earlier, frozenset({"ask"}))


def test_a_condition_about_no_earlier_step_is_refused() -> None:
    with pytest.raises(Malformed, match="names no earlier step"):
        holds("not y", step("ask", ActionState.DONE), frozenset({"ask"}))
