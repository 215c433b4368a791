"""Whatever a tool of another package is made of and does: it is left out and named, or a step of one turn fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, OwnedElsewhere, Refused, Unavailable, Uncertain
from appliance.contracts.plan import Step
from appliance.contracts.third_party import ToolPorts
from appliance.contracts.tool import AccessLevel, SchemaContract, TelemetryContract, ToolContract
from appliance.execution.toolbox.contained_tool import ContainedTool
from appliance.execution.toolbox.contract_check import faults_of
from appliance.execution.toolbox.third_party import ThirdParty, build_toolbox
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.workers.warden import Warden
from appliance.foundation.supervisor import Degraded
from tests.support.bus import TableBus
from tests.support.clock import ManualClock
from tests.support.effect_file import Look
from tests.support.gate import open_gate, principal
from tests.support.plans import PLANT, open_turn, phrasing
from tests.support.stopping import FINISHED, Yard, open_yard

LOOKS = replace(
    Look.contract,
    name="theirs",
    telemetry=replace(Look.contract.telemetry, redact=()),
    sla=replace(Look.contract.sla, retries=0),
)


class Loose(BaseModel):
    model_config = ConfigDict(extra="forbid")
    seen: Any = None


class Broken(BaseModel):
    model_config = ConfigDict(extra="forbid")
    seen: Any = None

    @model_validator(mode="after")
    def look_at(self) -> Any:
        return {}["nope"]


class Schemaless(Loose):
    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        raise KeyError("no schema")


class Sly(ToolContract):
    @property
    def changes_something(self) -> bool:
        raise KeyError("x")


def theirs(**changes: Any) -> Any:
    """A class of a tool whose contract has these changes, whatever their type."""
    contract = replace(LOOKS, **changes)

    class Theirs:
        def __init__(self, ports: Any = None) -> None:
            pass

        async def run(self, call: Any, arguments: Any) -> Any:
            return {"seen": "all well"}

    Theirs.contract = contract  # type: ignore[attr-defined]
    return Theirs


def built(kind: Any, folder: Path, degraded: Degraded) -> Toolbox:
    found = ThirdParty(kinds={"theirs": kind}, packages={"theirs": "acme 1.0"})
    clock = ManualClock()
    ports = ToolPorts(TableBus(PLANT, clock), PLANT, phrasing(), clock)
    return build_toolbox([Look()], found, ports, Warden(folder), degraded)


WRONG: list[dict[str, Any]] = [
    {"name": None}, {"name": 7}, {"description": None}, {"schema": None}, {"sla": None}, {"security": None}, {"telemetry": None},
    {"resource": 7}, {"resource": None}, {"dependencies": 5}, {"dependencies": "look"}, {"dependencies": ["look"]},
    {"dependencies": (1,)}, {"fallback_tool": ["look"]}, {"fallback_tool": None}, {"has_effect": "no"}, {"isolation": "core"},
    {"overwrites": 1}, {"sla": replace(LOOKS.sla, max_execution_time_ms="9")}, {"sla": replace(LOOKS.sla, retries=None)},
    {"sla": replace(LOOKS.sla, max_execution_time_ms=float("nan"))}, {"security": replace(LOOKS.security, access_level=0)},
    {"security": replace(LOOKS.security, data_scope=["field"])}, {"telemetry": TelemetryContract("a", "b", None)},  # type: ignore[arg-type]
    {"telemetry": replace(LOOKS.telemetry, redact=None)}, {"schema": replace(LOOKS.schema, arguments=None)},
    {"schema": replace(LOOKS.schema, arguments=int)}, {"schema": replace(LOOKS.schema, required_fields=None)},
    {"schema": replace(LOOKS.schema, enum_constraints=[("a", 1)])}, {"schema": replace(LOOKS.schema, result=Schemaless)},
]  # fmt: skip


@pytest.mark.req("T1", "T4")
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{next(iter(wrong))}-{str(next(iter(wrong.values())))[:40]}")
def test_a_contract_of_any_type_costs_its_tool_alone(tmp_path: Path, wrong: dict[str, Any]) -> None:
    kind = theirs(**wrong)
    assert faults_of(ContainedTool(kind()))
    degraded = Degraded()
    assert built(kind, tmp_path, degraded).names == ("look",)
    assert degraded.reasons["tool:theirs"].startswith("the tool theirs of acme 1.0 is left out: ")


def raising_property() -> Any:
    kind = theirs()
    kind.run = property(lambda self: 1 / 0)
    return kind


def raising_contract() -> Any:
    kind = theirs()
    kind.contract = property(lambda self: 1 / 0)
    return kind


def sly_contract() -> Any:
    kind = theirs()
    kind.contract = Sly(**{name: getattr(LOOKS, name) for name in LOOKS.__dataclass_fields__})
    return kind


def raising_uses() -> Any:
    kind = theirs(dependencies=("look",))

    def uses(self: Any, caller: Any) -> None:
        raise KeyboardInterrupt

    kind.uses = uses
    return kind


def raising_start() -> Any:
    kind = theirs()

    def begin(self: Any, ports: Any) -> None:
        raise GeneratorExit

    kind.__init__ = begin
    return kind


@pytest.mark.req("T1", "T4")
@pytest.mark.parametrize("make", [raising_property, raising_contract, sly_contract, raising_uses, raising_start])
def test_a_class_that_breaks_while_it_is_loaded_costs_its_tool_alone(tmp_path: Path, make: Any) -> None:
    degraded = Degraded()
    assert built(make(), tmp_path, degraded).names == ("look",)
    assert list(degraded.reasons) == ["tool:theirs"]


# at the call --------------------------------------------------------------------------------------------------------------
@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


class Breaking(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("boo")

    def __iter__(self) -> Iterator[str]:
        return iter(["seen"])

    def __len__(self) -> int:
        return 1


class Odd(BaseException):
    """No Exception."""


class Unsaid(Refused):
    def __str__(self) -> str:
        raise KeyError


def circle() -> dict[str, Any]:
    around: dict[str, Any] = {}
    around["seen"] = around
    return around


def worded() -> FloorhandError:
    return Refused("no").worded("no_such_reply", why=object())


def later(told: Any) -> FloorhandError:
    away = Unavailable("away")
    away.retry_after_s = told
    return away


RESULTS: list[Any] = [
    None, 5, {"seen": object()}, circle(), {"seen": [circle()]}, {"seen": "\ud800"}, {"\ud800": 1},
    {"seen": 10**6000}, Breaking(), {"seen": {1: {2: b"\xff"}}}, {5: 6}, [("seen", 1)],
]  # fmt: skip
RAISED: list[BaseException] = [
    Refused(None), Refused(7), Refused("\ud800 no"), Unsaid("x"), worded(), later("soon"), later(-1), later(float("inf")),  # type: ignore[arg-type]
    OwnedElsewhere("mine now"), Corrupt("your file"), FloorhandError("root"), Uncertain(None), Malformed(b"x"), KeyError("x"),  # type: ignore[arg-type]
    KeyboardInterrupt(), GeneratorExit(), SystemExit(0), Odd("x"), StopIteration(1), StopAsyncIteration(), TimeoutError(),
    BaseExceptionGroup("several", [Odd(), KeyError()]), ExceptionGroup("ours", [OwnedElsewhere("mine")]), RecursionError(),
    MemoryError(), asyncio.CancelledError(),
]  # fmt: skip


async def fails_alone(yard: Yard, kind: Any) -> str:
    """Run a plan with the tool; check that its step failed and that the next turn is led. Return why."""
    yard.more.append(ContainedTool(kind()))  # type: ignore[arg-type]
    outcome = await yard.runner.run(await yard.turn(Step("s", "theirs", {})))
    assert outcome.kind == "failed" and outcome.failure.startswith("s: ")
    assert len(await yard.said()) == 1
    await another_turn(yard)
    return outcome.failure


async def another_turn(yard: Yard) -> None:
    bench = yard.bench
    turn = await open_turn(bench.database, bench.clock, bench.ids, [Step("s", "look", {})], turn_id="tr_2")
    assert await yard.runner.run(turn) == FINISHED


@pytest.mark.req("T7", "T9")
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
async def test_a_result_of_any_kind_is_a_failed_step(yard: Yard, result: Any) -> None:
    kind = theirs(schema=SchemaContract(Loose, Loose))

    async def run(self: Any, call: Any, arguments: Any) -> Any:
        return result

    kind.run = run
    await fails_alone(yard, kind)


@pytest.mark.req("T7")
@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: type(raised).__name__)
async def test_whatever_a_call_raises_is_a_failed_step(yard: Yard, raised: BaseException) -> None:
    kind = theirs()

    async def run(self: Any, call: Any, arguments: Any) -> Any:
        raise raised

    kind.run = run
    await fails_alone(yard, kind)


@pytest.mark.req("T7")
@pytest.mark.parametrize("part", ["arguments", "result"])
async def test_a_model_that_breaks_is_a_failed_step(yard: Yard, part: str) -> None:
    schema = SchemaContract(**{"arguments": Loose, "result": Loose, part: Broken})
    assert "its model is broken" in await fails_alone(yard, theirs(schema=schema))


@pytest.mark.req("T7", "X2")
@pytest.mark.parametrize("raised", [KeyError("x"), Refused(None), Odd("x")])  # type: ignore[arg-type]
async def test_an_effect_of_a_tool_that_breaks_is_unknown_until_it_is_known(yard: Yard, raised: BaseException) -> None:
    kind = theirs(has_effect=True)

    async def run(self: Any, call: Any, arguments: Any) -> Any:
        raise raised

    async def verify(self: Any, call: Any, arguments: Any) -> Any:
        return "applied", {"seen": object()}

    kind.run, kind.verify = run, verify
    yard.more.append(ContainedTool(kind()))  # type: ignore[arg-type]
    outcome = await yard.runner.run(await yard.turn(Step("s", "theirs", {})))
    status = (await yard.effect())["status"]
    if isinstance(raised, Refused):  # it says that nothing was changed
        assert (outcome.kind, status) == ("failed", "none")
    else:
        assert status == "unknown", "what it says of it is no answer either"
    await another_turn(yard)


@pytest.mark.req("T7", "T3")
@pytest.mark.parametrize("answer", [None, 3, "public", KeyError("x"), Odd("x")])
async def test_a_level_in_doubt_is_the_highest_one(tmp_path: Path, answer: Any) -> None:
    kind = theirs()

    def level_of(self: Any, arguments: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    kind.level_of = level_of
    tool: Any = ContainedTool(kind())
    assert tool.level_of(None) is AccessLevel.CRITICAL
    async with open_gate(tmp_path, more=lambda bench: [tool]) as gate:
        turn = await gate.unprepared([Step("s", "theirs", {})], principal("operator"))
        assert (await gate.run(turn)).kind == "failed"


@pytest.mark.req("S8")
@pytest.mark.parametrize("answer", [None, 5, KeyError("x"), Odd("x")])
def test_readiness_in_doubt_is_none(answer: Any) -> None:
    kind = theirs()

    def not_ready(self: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    kind.not_ready = not_ready
    tool: Any = ContainedTool(kind())
    assert Toolbox([tool]).not_ready(["theirs"])["theirs"].startswith("theirs broke: ")


@pytest.mark.req("T8")
@pytest.mark.parametrize("answer", [None, 5, "field", [1], KeyError("x"), Odd("x")])
def test_resources_in_doubt_are_those_of_the_contract(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    kind = theirs(resource="field")

    def resources_of(self: Any, arguments: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    kind.resources_of = resources_of
    tool: Any = ContainedTool(kind())
    assert [tool.resources_of(None) for _ in range(3)] == [["field"]] * 3
    assert caplog.messages == ["fault"], "what is asked again and again is told once"
