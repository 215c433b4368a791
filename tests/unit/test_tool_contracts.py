"""A tool is loaded only with four contracts that are true; what is wrong is named, all at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel

from appliance.contracts.errors import CycleDetected, ToolValidationError
from appliance.contracts.tool import (
    AccessLevel,
    Isolation,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution import shipped
from appliance.execution.fields import Fields
from appliance.execution.shipped import shipped_tools
from appliance.execution.toolbox.contract_check import faults_of
from appliance.execution.toolbox.dependency_order import in_dependency_order
from appliance.execution.toolbox.toolbox import Toolbox, bound_s
from appliance.execution.workers.process_tool import in_own_process
from appliance.execution.workers.warden import Warden
from appliance.planning.planner import Planner
from tests.support.planning import shipped_phrasebook, shipped_plant, shipped_playbooks
from tests.support.rough_tools import Rough


class Gear(StrEnum):
    LOW = "low"
    HIGH = "high"


class Arguments(Fields):
    speed: float
    gear: Gear = Gear.LOW
    note: str | None = None
    way: Literal["up", "down"] | None = None


class Result(Fields):
    reached: float


CONTRACT = ToolContract(
    name="drive",
    description="Drive",
    schema=SchemaContract(
        Arguments,
        Result,
        required_fields=("speed",),
        nullable_fields=("note", "way"),
        enum_constraints={"gear": ("low", "high"), "way": ("down", "up")},
    ),
    sla=SlaContract(max_execution_time_ms=100, retries=1),
    security=SecurityContract(AccessLevel.PUBLIC, "field"),
    telemetry=TelemetryContract("drive.started", "drive.done", "drive.failed", redact=("note",)),
    has_effect=False,
)


class Drive:
    contract: ClassVar[ToolContract] = CONTRACT

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, Any]:
        return {"reached": arguments.speed}


def drive(**changes: Any) -> Drive:
    tool = Drive()
    tool.contract = replace(CONTRACT, **changes)  # type: ignore[misc]  # each test declares its own contract
    return tool


def schema(**changes: Any) -> SchemaContract:
    return replace(CONTRACT.schema, **changes)


class Open(BaseModel):
    speed: float


@pytest.mark.req("T1")
def test_a_true_contract_has_no_faults() -> None:
    assert faults_of(Drive()) == []


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Drive!"}, "name"),
        ({"description": " "}, "description"),
        ({"schema": schema(required_fields=())}, "speed"),
        ({"schema": schema(required_fields=("speed", "gear"))}, "gear"),
        ({"schema": schema(required_fields=("speed", "sped"))}, "sped"),
        ({"schema": schema(nullable_fields=("note",))}, "way"),
        ({"schema": schema(nullable_fields=("note", "way", "speed"))}, "speed"),
        ({"schema": schema(enum_constraints={"gear": ("low", "high")})}, "way"),
        ({"schema": schema(enum_constraints={"gear": ("low",), "way": ("up", "down")})}, "gear"),
        ({"schema": schema(enum_constraints={"gear": ("low", "high"), "way": ("up", "down"), "note": ("a",)})}, "note"),
        ({"schema": schema(arguments=Open)}, "arguments"),
        ({"schema": schema(arguments=dict)}, "arguments"),
        ({"schema": schema(result=Open)}, "result"),
        ({"sla": SlaContract(0)}, "max_execution_time_ms"),
        ({"isolation": Isolation.PROCESS}, "isolation"),
        ({"sla": SlaContract(45_001)}, "max_execution_time_ms"),
        ({"sla": SlaContract(100, retries=-1)}, "retries"),
        ({"has_effect": True}, "retries"),
        ({"security": SecurityContract(AccessLevel.PUBLIC, "everything")}, "data_scope"),
        ({"security": SecurityContract(7, "field")}, "access_level"),  # type: ignore[arg-type]
        ({"telemetry": TelemetryContract("a", "", "c")}, "on_success"),
        ({"telemetry": TelemetryContract("a", "b", "c", redact=("password",))}, "password"),
    ],
)
def test_an_untrue_contract_names_tool_and_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ToolValidationError) as raised:
        Toolbox([drive(**changes)])
    assert field in [fault.split(": ")[1] for fault in raised.value.facts["faults"]]  # type: ignore[attr-defined]
    assert raised.value.facts["tool"] == changes.get("name", "drive")


@pytest.mark.req("T1")
def test_all_faults_of_all_tools_are_told_at_once() -> None:
    with pytest.raises(ToolValidationError) as raised:
        Toolbox([drive(sla=SlaContract(0)), drive(name="reverse", schema=schema(required_fields=()), description="")])
    for part in ("drive: max_execution_time_ms", "reverse: description", "reverse: speed"):
        assert part in raised.value.message


class Nothing:
    contract: ClassVar[ToolContract] = replace(CONTRACT, name="nothing")


class Untold:
    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, Any]:
        return {}


def test_a_tool_that_can_do_nothing_or_tells_nothing_is_refused() -> None:
    assert [fault.field for fault in faults_of(Nothing())] == ["run"]
    assert str(faults_of(Untold())[0]) == "Untold: contract: is missing"


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(ToolValidationError, match="drive: name: is used twice"):
        Toolbox([Drive(), Drive()])


@pytest.mark.req("T4")
def test_dependencies_come_first() -> None:
    box = Toolbox([drive(name="c", dependencies=("b", "a")), drive(name="a"), drive(name="b", dependencies=("a",))])
    assert box.names == ("a", "b", "c")


@pytest.mark.req("T4")
def test_a_missing_dependency_is_named() -> None:
    with pytest.raises(ToolValidationError, match="a: dependencies: there is no tool b"):
        Toolbox([drive(name="a", dependencies=("b",))])


@pytest.mark.req("T4")
@pytest.mark.parametrize(
    ("dependencies", "spelled"),
    [
        ({"A": ["A"]}, "A->A"),
        ({"A": ["B"], "B": ["A"]}, "A->B->A"),
        ({"X": ["A"], "A": ["B"], "B": ["C"], "C": ["A"]}, "A->B->C->A"),
    ],
)
def test_a_cycle_is_spelled(dependencies: dict[str, list[str]], spelled: str) -> None:
    with pytest.raises(CycleDetected, match=f"^{re.escape(spelled)}$"):
        in_dependency_order(dependencies)


@pytest.mark.req("T4")
def test_a_cycle_of_tools_is_not_loaded() -> None:
    with pytest.raises(CycleDetected, match=r"^a->b->a$"):
        Toolbox([drive(name="a", dependencies=("b",)), drive(name="b", dependencies=("a",))])


@pytest.mark.req("T9")
def test_unknown_tool_unknown_argument_and_wrong_type_have_their_own_words() -> None:
    box = Toolbox([Drive()])
    with pytest.raises(ToolValidationError, match="there is no tool fly"):
        box.find("fly")
    with pytest.raises(ToolValidationError, match="drive: speed: Field required"):
        box.check_arguments("drive", {})
    with pytest.raises(ToolValidationError, match="drive: sped: Extra inputs are not permitted"):
        box.check_arguments("drive", {"speed": 3, "sped": 3})
    with pytest.raises(ToolValidationError, match="drive: speed: Input should be a valid number") as raised:
        box.check_arguments("drive", {"speed": "what the person said"})
    assert "what the person said" not in raised.value.message
    assert raised.value.facts["field"] == "speed"
    with pytest.raises(ToolValidationError, match="drive: speed: Input should be a finite number"):
        box.check_arguments("drive", {"speed": float("nan")})


@pytest.mark.req("S6")
def test_no_tool_may_take_longer_than_45_seconds() -> None:
    Toolbox([drive(sla=SlaContract(45_000))])
    with pytest.raises(ToolValidationError, match="max_execution_time_ms: must be 1 to 45000 ms, is 45001"):
        Toolbox([drive(sla=SlaContract(45_001))])


@pytest.mark.req("S6")
def test_a_tool_of_its_own_process_is_loaded_as_one(tmp_path: Path) -> None:
    warden = Warden(tmp_path)
    rough = in_own_process(Rough, {"folder": str(tmp_path)}, warden)
    assert faults_of(rough) == []
    assert bound_s(rough) > Rough.contract.sla.max_execution_time_ms / 1000, "the warden's word is waited for"
    assert [fault.field for fault in faults_of(in_own_process(Drive, {}, warden))] == ["isolation"]


@pytest.mark.req("S8")
def test_a_tool_that_is_not_ready_says_why() -> None:
    class Guarded(Drive):
        contract = replace(CONTRACT, name="guarded")
        why = ""

        def not_ready(self) -> str:
            return self.why

    guarded = Guarded()
    box = Toolbox([Drive(), guarded])
    assert box.not_ready(["drive", "guarded", "fly"]) == {}
    guarded.why = "the guard is open"
    assert box.not_ready(["drive", "guarded", "fly"]) == {"guarded": "the guard is open"}
    assert box.not_ready(["drive"]) == {}


def test_a_result_is_checked_and_made_plain() -> None:
    box = Toolbox([Drive()])
    assert box.check_result("drive", {"reached": 3}) == {"reached": 3.0}
    with pytest.raises(ToolValidationError, match="drive: reached"):
        box.check_result("drive", {"reached": None})


@pytest.mark.req("T1")
def test_every_shipped_tool_has_true_contracts() -> None:
    nothing: Any = None  # ports are not used by loading
    box = Toolbox(
        shipped_tools(
            plant=shipped_plant(), bus=nothing, recaller=nothing, writer=nothing, procedures=nothing, wording=nothing,
            clock=nothing,
            ids=nothing, alarm_hands=nothing, alarm_shelf=nothing, history=nothing, spill=nothing,
            receivers=nothing, understand=nothing, read_vitals=nothing, playbooks=nothing,
        )
    )  # fmt: skip
    assert {name for name, contract in box.contracts.items() if contract.has_effect} == {"write_tag", "write_report"}
    held = {"create_work_order", "update_work_order", "notify"}  # besides what has an effect; all else goes on (R10)
    assert {name for name, contract in box.contracts.items() if contract.is_held} == held
    folder = Path(shipped.__file__).parent / "tools"
    assert set(box.names) == {file.stem for file in folder.glob("*.py")} - {"__init__"}, "one file a tool, each shipped"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("alarm", [alarm.id for alarm in shipped_plant().alarms])
def test_shipped_alarm_plans_fit_the_tools_they_call(alarm: str, language: str) -> None:
    nothing: Any = None
    tools = shipped_tools(
        plant=shipped_plant(), bus=nothing, recaller=nothing, writer=nothing, procedures=nothing, wording=nothing,
        clock=nothing,
        ids=nothing, alarm_hands=nothing, alarm_shelf=nothing, history=nothing, spill=nothing,
            receivers=nothing, understand=nothing, read_vitals=nothing, playbooks=nothing,
    )  # fmt: skip
    contracts = Toolbox(tools).contracts
    planner = Planner(shipped_phrasebook(), shipped_playbooks(), shipped_plant())
    plan = planner.plan_alarm(
        {"alarm_id": alarm, "change": "raised", "value": 94.2, "unit": "degC", "activation_id": "a"}, language
    )
    assert len(plan.steps) > 5
    for step in plan.steps:
        schema = contracts[step.tool].schema
        assert set(schema.required_fields) <= step.arguments.keys() <= set(schema.arguments.model_fields), step.id
