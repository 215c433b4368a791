"""What tools say of one another, and the rest of a contract: resources, fallbacks, parts a tool may have."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from appliance.contracts.errors import CycleDetected, ToolValidationError
from appliance.contracts.tool import AccessLevel, SecurityContract, SlaContract, ToolContract
from appliance.execution import shipped
from appliance.execution.fields import Fields
from appliance.execution.toolbox.contract_check import faults_of
from appliance.execution.toolbox.schema_fit import misfits
from appliance.execution.toolbox.toolbox import Toolbox
from tests.unit.test_tool_contracts import CONTRACT, Arguments, Drive, Gear, Result, drive, schema

TOOLS = Path(shipped.__file__).parent / "tools"
CRITICAL, OPERATOR = SecurityContract(AccessLevel.CRITICAL, "field"), SecurityContract(AccessLevel.OPERATOR, "field")


def with_parts(*names: str, base: type = Drive, **changes: Any) -> Any:
    """A tool that has these methods besides; ``apply`` stands instead of ``run``."""

    async def awaited(self: Any, *arguments: Any) -> Any: ...

    def called(self: Any, *arguments: Any) -> Any: ...

    parts: dict[str, Any] = {
        name: called if name in ("apply", "uses", "level_of", "record_of", "not_ready") else awaited for name in names
    }
    if "apply" in names:
        parts["run"] = None
    parts["contract"] = replace(CONTRACT, **changes)
    return type("Parts", (base,), parts)()


def faults(*tools: Any) -> list[str]:
    with pytest.raises(ToolValidationError) as raised:
        Toolbox(tools)
    told: Any = raised.value.facts["faults"]
    return list(told)


EFFECT: dict[str, Any] = {"has_effect": True, "sla": SlaContract(100)}


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        (drive(resource="Machine 3"), "drive: resource: must be a plain word: lower case letters, digits and underscores"),
        (drive(extends_plan=True), "drive: extends_plan: only a ledger tool appends steps, in the commit that ends its own"),
        (with_parts("snapshot"), "drive: snapshot: only a tool with an effect has something to snapshot"),
        (with_parts("restore", **EFFECT), "drive: restore: snapshot and restore are of use only together"),
        (
            drive(has_effect=True),
            "drive: retries: a call with an effect is sent again only if snapshot and restore bring back what was before",
        ),
        (with_parts("uses"), "drive: dependencies: a tool that calls others names them"),
        (
            with_parts("apply", "uses", dependencies=("other",)),
            "drive: uses: a ledger tool is done within one commit and can call no other",
        ),
        (with_parts("apply", "run"), "drive: has_effect: what a ledger tool does stays in the ledger"),
    ],
)
def test_what_a_tool_has_besides_must_be_of_use(tool: Any, fault: str) -> None:
    if "what a ledger tool does" in fault:
        tool = with_parts("apply", **EFFECT)
    assert fault in [str(found) for found in faults_of(tool)]


@pytest.mark.req("T1", "T5")
def test_a_tool_that_can_restore_may_be_tried_again(tmp_path: Path) -> None:
    able = with_parts("snapshot", "restore", "verify", has_effect=True, sla=SlaContract(100, retries=2))
    assert faults_of(able) == []
    assert faults_of(with_parts("apply", extends_plan=True)) == []


@pytest.mark.req("T1")
@pytest.mark.parametrize(("name", "kind"), [("run", "an async def"), ("not_ready", "a plain def"), ("level_of", "a plain def")])
def test_what_is_awaited_is_async_and_nothing_else_is(name: str, kind: str) -> None:
    async def awaited(self: Any, *arguments: Any) -> Any: ...

    def called(self: Any, *arguments: Any) -> Any: ...

    wrong = type("Wrong", (Drive,), {name: called if name == "run" else awaited})()
    assert [str(fault) for fault in faults_of(wrong)] == [f"drive: {name}: must be {kind}"]


@pytest.mark.req("T4")
def test_a_composed_tool_calls_only_what_changes_nothing_and_needs_no_more_than_it_does() -> None:
    composed = with_parts("uses", name="composed", dependencies=("acts", "guarded", "reads"))
    acts, guarded = drive(name="acts", **EFFECT), drive(name="guarded", security=CRITICAL)
    assert faults(composed, acts, guarded, drive(name="reads")) == [
        "composed: dependencies: acts has an effect and cannot be called by another tool",
        "composed: dependencies: guarded needs a higher access level than composed itself",
    ]


@pytest.mark.req("T5")
def test_a_fallback_is_another_tool_no_harder_to_reach_that_takes_the_same_arguments() -> None:
    main = drive(fallback_tool="spare")
    assert Toolbox([main, drive(name="spare")]).contracts["drive"].fallback_tool == "spare"
    assert faults(main) == ["drive: fallback_tool: there is no tool spare"]
    assert faults(drive(fallback_tool="drive")) == ["drive: fallback_tool: is the tool itself"]
    changes = "drive: fallback_tool: spare changes something; what was decided and agreed to for drive does not cover it"
    assert faults(main, drive(name="spare", security=OPERATOR)) == [
        "drive: fallback_tool: spare needs a higher access level than drive itself", changes,
    ]  # fmt: skip
    assert faults(main, drive(name="spare", **EFFECT)) == [changes]
    own = drive(fallback_tool="spare", security=OPERATOR)  # a tool of the ledger that shelves, or has an order made
    assert faults(own, with_parts("apply", name="spare", security=OPERATOR)) == [changes]
    around = [drive(name=name, fallback_tool=other) for name, other in (("a", "b"), ("b", "c"), ("c", "a"))]
    assert faults(*around) == [
        "a: fallback_tool: the way round is a->b->c->a",
        "b: fallback_tool: the way round is b->c->a->b",
        "c: fallback_tool: the way round is c->a->b->c",
    ]

    class Narrow(Fields):
        speed: float = Field(ge=0)
        force: int
        gear: Gear = Gear.LOW
        note: str | None = None

    declared = schema(arguments=Narrow, required_fields=("speed", "force"), nullable_fields=("note",))
    spare = drive(name="spare", schema=replace(declared, enum_constraints={"gear": ("low", "high")}))
    assert faults(main, spare) == [
        "drive: fallback_tool: spare cannot stand in: speed: it does not take every value of this argument",
        "drive: fallback_tool: spare cannot stand in: way: it does not know this argument",
        "drive: fallback_tool: spare cannot stand in: force: it needs this argument, which may be left out",
    ]


@pytest.mark.req("T5")
@pytest.mark.parametrize(
    ("narrow", "wide", "fits"),
    [
        (int, float, True),
        (float, int, False),
        (str, str | None, True),
        (str | None, str, False),
        (list[int], list[float], True),
        (list[str], list[int], False),
        (dict[str, int], dict[str, float], True),
        (Gear, str, True),
        (str, Gear, False),
        (Gear, Gear, True),
        (bool, Any, True),
        (Any, bool, False),
        (dict[str, Any], dict[str, Any], True),
    ],
)
def test_one_schema_holds_another_only_if_every_value_fits(narrow: Any, wide: Any, fits: bool) -> None:
    def model(kind: Any) -> dict[str, Any]:
        return type("Model", (Fields,), {"__annotations__": {"value": kind}}).model_json_schema()

    assert (list(misfits(model(narrow), model(wide))) == []) is fits


@pytest.mark.parametrize(
    ("narrow", "wide", "fits"),
    [
        ({"ge": 1, "le": 9}, {"ge": 0, "le": 10}, True),
        ({"ge": 1}, {"ge": 0, "le": 10}, False),
        ({"ge": 0, "le": 11}, {"ge": 0, "le": 10}, False),
        ({}, {"gt": 0}, False),
        ({"multiple_of": 2}, {"multiple_of": 2}, True),
        ({}, {"multiple_of": 2}, False),
    ],
)
def test_bounds_of_the_wide_one_must_follow_from_those_of_the_narrow_one(
    narrow: dict[str, Any], wide: dict[str, Any], fits: bool
) -> None:
    def model(bounds: dict[str, Any]) -> dict[str, Any]:
        parts = {"__annotations__": {"value": int}, "value": Field(**bounds)}
        return type("Model", (Fields,), parts).model_json_schema()

    assert (list(misfits(model(narrow), model(wide))) == []) is fits


@pytest.mark.req("T1")
def test_every_schema_is_json_schema_of_what_goes_in_and_comes_out() -> None:
    contract = Drive.contract.schema
    assert contract.input_schema["required"] == ["speed"] and set(contract.input_schema["properties"]) == set(
        Arguments.model_fields
    )
    assert contract.output_schema["properties"]["reached"]["type"] == "number" and Result.__name__ == "Result"


@pytest.mark.req("T1", "T4")
def test_third_party_faults_leave_out_that_tool_and_what_needs_it_shipped_ones_refuse_to_start() -> None:
    shipped_tools = [drive()]
    others = {
        "good": drive(name="good", dependencies=("drive",)),
        "bad": drive(name="bad", sla=SlaContract(0)),
        "needs_bad": drive(name="needs_bad", dependencies=("bad",)),
        "falls_back": drive(name="falls_back", fallback_tool="needs_bad"),
        "a": drive(name="a", dependencies=("b",)),
        "b": drive(name="b", dependencies=("c",)),
        "c": drive(name="c", dependencies=("a",)),
        "drive": drive(),
    }
    box = Toolbox.load(shipped_tools, others)
    assert box.names == ("drive", "good")
    assert dict(box.left_out) == {
        "bad": "bad: max_execution_time_ms: must be 1 to 45000 ms, is 0",
        "drive": "drive: name: is taken by a tool that ships",
        "needs_bad": "needs_bad: dependencies: there is no tool bad",
        "falls_back": "falls_back: fallback_tool: there is no tool needs_bad",
        **dict.fromkeys(("a", "b", "c"), "CycleDetected: a->b->c->a"),
    }
    with pytest.raises(ToolValidationError, match="bad: max_execution_time_ms"):
        Toolbox.load([drive(name="bad", sla=SlaContract(0))], {"good": drive(name="good")})
    with pytest.raises(CycleDetected, match=r"^x->x$"):
        Toolbox.load([drive(name="x", dependencies=("x",))], {})


@pytest.mark.req("T1")
def test_each_file_holds_one_tool_whose_four_contracts_are_declared_together() -> None:
    parts = {"schema": "SchemaContract", "sla": "SlaContract", "security": "SecurityContract", "telemetry": "TelemetryContract"}
    for path in sorted(TOOLS.glob("*.py")):
        if path.stem == "__init__":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        declared = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "ToolContract"]
        assert len(declared) == 1, path.name
        given = {keyword.arg: keyword.value for keyword in declared[0].keywords}
        assert {name: _name(part.func) for name in parts if isinstance(part := given.get(name), ast.Call)} == parts, path.name
        assert isinstance(given["name"], ast.Constant) and given["name"].value == path.stem, path.name
        tools = [node for node in tree.body if isinstance(node, ast.ClassDef) and _declares(node)]
        assert len(tools) == 1, f"{path.name} holds one tool"
        assert ast.get_docstring(tools[0]) and ast.get_docstring(tree), path.name


def _declares(node: ast.ClassDef) -> bool:
    return any(isinstance(part, ast.AnnAssign) and _name(part.target) == "contract" for part in node.body)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


class Levelled(Drive):
    contract: ClassVar[ToolContract] = replace(CONTRACT, name="levelled")

    def level_of(self, arguments: Any) -> AccessLevel:
        return AccessLevel.CRITICAL


def test_a_tool_may_need_a_higher_level_for_some_calls() -> None:
    assert faults_of(Levelled()) == []
