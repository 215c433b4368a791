"""A plan of any planner names only results that the tools give; what a schema leaves open is left to the run."""

from __future__ import annotations

import pytest

from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Plan, Step
from appliance.planning.plan_check import check
from appliance.planning.result_names import gives, names_of_results
from tests.support.scripted_model import shipped_contracts


@pytest.mark.req("S8")
@pytest.mark.parametrize(
    ("tool", "field", "is_given"),
    [
        ("read_tags", "value", True),
        ("read_tags", "value.unit", True),
        ("read_tags", "value.nonsense", False),
        ("read_tags", "value.unit.nonsense", False),
        ("read_tags", "values.motor_3.temperature", True),  # a key with dots
        ("read_tags", "nonsense", False),
        ("read_plc_log", "entries.0.code", True),
        ("read_plc_log", "entries.first.code", False),
        ("read_plc_log", "summary", True),
        ("trend_of_tag", "slope", True),
        ("trend_of_tag", "slop", False),
    ],
)
def test_what_a_tool_gives(tool: str, field: str, is_given: bool) -> None:
    assert gives(shipped_contracts()[tool], field) is is_given


@pytest.mark.req("S8", "A1")
def test_a_plan_that_names_a_field_that_will_not_be_is_none() -> None:
    def plan(text: str) -> Plan:
        read = Step("a", "read_tags", {"keys": ["motor_3.load"]})
        return Plan("x", "phrase:x", (read, Step("b", "say", {"text": text})))

    for good in ("{steps.a.value}", "{{steps.a.nonsense}}", "{steps.values.nonsense}", "{now.value}"):
        check(plan(good), shipped_contracts())
    with pytest.raises(Malformed, match=r"b: \{steps.a.nonsense\}: read_tags gives no such field"):
        check(plan("It is {steps.a.value}, {steps.a.nonsense}."), shipped_contracts())


def test_names_are_found_however_deep() -> None:
    told = {"a": ["{steps.x.y.z}", {"b": "1 {steps.p.q} {{steps.no.no}}"}], "c": 3}
    assert list(names_of_results(told)) == [("x", "y.z"), ("p", "q")]
