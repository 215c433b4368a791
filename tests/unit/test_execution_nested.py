"""Tools that call others: declared ones, that only read, never themselves, and within the call that is under way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import RecursiveCallPrevented, Refused
from appliance.contracts.plan import Step
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.contracts.tool import SchemaContract, SecurityContract, SlaContract, ToolCall, ToolCaller, ToolResult
from appliance.execution.calls import call_of
from appliance.execution.toolbox.nested_calls import run_composed
from tests.support.effect_file import Look, MarkArguments
from tests.support.gate import Gate, open_gate, principal, rules
from tests.support.stopping import FINISHED, STOPPED, Yard, open_yard


class Composed(Look):
    """Calls other tools, one after the other, and tells what they saw."""

    def __init__(self, name: str, *calls: str, dependencies: Sequence[str] | None = None, level: int = 0) -> None:
        super().__init__()
        needed = tuple(calls if dependencies is None else dependencies)
        security = SecurityContract(AccessLevel(level), "field")
        sla = SlaContract(30_000)
        self.contract = replace(Look.contract, name=name, dependencies=needed, security=security, sla=sla)  # type: ignore[misc]
        self.called = calls
        self.results: list[ToolResult] = []

    def uses(self, caller: ToolCaller) -> None:
        self.caller = caller

    async def run(self, call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        self.calls.append(call)
        self.results += await asyncio.gather(*(self.caller.call(name, {}) for name in self.called))
        return {"seen": "+".join(str(result.value.get("seen", result.error)) for result in self.results)}


def peek(level: int = 0) -> Look:
    """Another tool that looks."""
    tool = Look()
    security = SecurityContract(AccessLevel(level), "field")
    tool.contract = replace(Look.contract, name="peek", security=security)  # type: ignore[misc]
    return tool


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


async def failure(yard: Yard, *tools: Composed) -> str:
    yard.more.extend(tools)
    return (await yard.runner.run(await yard.turn(Step("s", tools[0].contract.name, {})), yard.bell)).failure


@pytest.mark.req("T4")
async def test_a_tool_calls_its_dependencies_and_theirs(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    yard.more += [Composed("a", "b", "look"), Composed("b", "look")]
    assert await yard.runner.run(await yard.turn(Step("s", "a", {}))) == FINISHED
    assert (await yard.result("s"))["seen"] == "all well+all well"
    assert [call.action_id for call in yard.look.calls] == [(await yard.bench.one("SELECT id FROM action"))["id"]] * 2
    assert [record.getMessage() for record in caplog.records].count("look.done") == 4, "each tool's own, and both nested ones"


@pytest.mark.req("T4")
async def test_a_tool_that_is_called_within_itself_is_told_with_its_path(yard: Yard) -> None:
    class Sly(Composed):
        """Calls what it does not declare, since a cycle that is declared is not even loaded."""

    told = await failure(yard, Composed("a", "b"), Sly("b", "a", dependencies=("look",)))
    assert told == "s: recursive_call_prevented: a tool would call itself: a->b->a"
    assert await yard.said() == ["I cannot do that. My tool for b is faulty. Please have it looked at."]


@pytest.mark.req("T4")
async def test_a_tool_that_calls_itself_at_once(yard: Yard) -> None:
    assert "a->a" in await failure(yard, Composed("a", "a", dependencies=("look",)))


@pytest.mark.req("T4")
async def test_the_same_tool_may_be_called_twice_beside_itself(yard: Yard) -> None:
    yard.more.append(Composed("a", "look", "look", dependencies=("look",)))
    assert await yard.runner.run(await yard.turn(Step("s", "a", {}), Step("s2", "a", {}))) == FINISHED


@pytest.mark.req("T4")
async def test_what_is_not_declared_is_not_called(yard: Yard) -> None:
    yard.more.append(peek())
    told = await failure(yard, Composed("a", "look", dependencies=("peek",)))
    assert told == "s: refused: a does not declare look as a dependency"
    assert yard.look.calls == [] and yard.approvals.refused_nested == ["look"]


@pytest.mark.req("T4")
@pytest.mark.parametrize("name", ["say", "create_work_order"])
async def test_what_does_more_than_read_is_not_called(yard: Yard, name: str) -> None:
    assert (
        await failure(yard, Composed("a", name, level=2))
        == f"s: refused: {name} does more than read, so no other tool may call it"
    )
    assert yard.approvals.refused_nested == [name]


@pytest.mark.req("T4", "T3")
async def test_a_tool_above_the_askers_level_is_not_there_for_a_nested_call_either(yard: Yard) -> None:
    outer, inner = Composed("a", "peek", level=2), peek(level=2)
    yard.more += [outer, inner]
    guest = Principal("guest", Identification.VOICE, "guest", AccessLevel.PUBLIC)
    await yard.runner.run(await yard.turn(Step("s", "a", {}), **{PRINCIPAL: guest.to_json()}))
    (result,) = outer.results
    assert (result.error_code, result.error) == ("tool_validation", "there is no tool peek")
    assert inner.calls == []


@pytest.mark.req("T4", "T3")
async def test_an_unfit_nested_call_of_a_hidden_tool_is_on_record(yard: Yard) -> None:
    outer, inner = Composed("a", "peek", level=2), peek(level=2)
    schema = SchemaContract(MarkArguments, Look.contract.schema.result, required_fields=("line",))
    telemetry = replace(inner.contract.telemetry, redact=())
    inner.contract = replace(inner.contract, schema=schema, telemetry=telemetry)  # type: ignore[misc]
    yard.more += [outer, inner]
    guest = Principal("guest", Identification.VOICE, "guest", AccessLevel.PUBLIC)
    await yard.runner.run(await yard.turn(Step("s", "a", {}), **{PRINCIPAL: guest.to_json()}))
    (result,) = outer.results
    assert (result.error, yard.approvals.refused_nested) == ("there is no tool peek", ["peek"])


@pytest.mark.req("T4")
async def test_a_nested_call_ends_with_the_one_it_is_part_of(yard: Yard) -> None:
    yard.more.append(Composed("a", "look"))
    yard.looking(yard.hang)
    outcome, took_s = await yard.stop_inside(await yard.turn(Step("s", "a", {})))
    assert outcome == STOPPED and took_s < 0.9


@pytest.mark.req("T4")
async def test_a_nested_call_has_its_own_bound_and_fails_alone(yard: Yard) -> None:
    outer = Composed("a", "look")
    yard.more.append(outer)
    yard.look.contract = replace(yard.look.contract, sla=SlaContract(10))  # type: ignore[misc]
    yard.looking(yard.hang)
    assert await yard.runner.run(await yard.turn(Step("s", "a", {}))) == FINISHED
    assert (await yard.result("s"))["seen"] == "look took too long"


async def test_a_caller_is_good_only_while_its_tool_is_called(yard: Yard) -> None:
    tool = Composed("a", "look")
    yard.more.append(tool)
    await yard.runner.run(await yard.turn(Step("s", "a", {})))
    with pytest.raises(Refused, match="only while it is called itself") as caught:
        await tool.caller.call("look", {})
    assert not isinstance(caught.value, RecursiveCallPrevented)


# the gate -----------------------------------------------------------------------------------------------------------------
class Levelled(Composed):
    """Reads, and says that this call needs more than its contract."""

    def level_of(self, arguments: Any) -> AccessLevel:
        return AccessLevel.CRITICAL


def nested(inner: Look, **ruled: Any) -> tuple[Composed, dict[str, Any]]:
    """A tool that calls ``inner``, and how to open a gate for both with these rules."""
    outer = Composed("a", inner.contract.name)
    return outer, {"settings": rules(**ruled), "more": lambda bench: [outer, inner]}


async def asked(gate: Gate, outer: Composed, level: str = "operator", **how: Any) -> ToolResult:
    """Have the outer tool called; return what it got of the inner one."""
    outer.results.clear()
    await gate.run(await gate.unprepared([Step("s", "a", {})], principal(level), **how))
    (result,) = outer.results
    return result


@pytest.mark.req("T4", "X2", "X5")
@pytest.mark.field("FC-A03")
@pytest.mark.parametrize("kind", ["deny", "ask"])
async def test_what_a_rule_denies_or_asks_about_is_not_had_by_way_of_another_tool(tmp_path: Path, kind: str) -> None:
    inner = peek()
    outer, how = nested(inner, **{kind: [{"tools": ["peek"]}]})
    async with open_gate(tmp_path, **how) as gate:
        result = await asked(gate, outer)
        assert (result.ok, result.error_code, inner.calls) == (False, "refused", [])
        assert [(tool, verdict) for tool, verdict, _ in await gate.decisions()] == [("peek", "deny")]
        audited = await gate.bench.rows("SELECT payload FROM operation WHERE kind = 'audit.call_denied'")
        assert len(audited) == 1 and '"peek"' in audited[0]["payload"]


@pytest.mark.req("T4", "X2", "T3")
async def test_a_nested_call_that_needs_a_higher_level_is_denied(tmp_path: Path) -> None:
    inner = Levelled("peek", dependencies=("look",))
    looking = Look()
    outer = Composed("a", "peek")
    async with open_gate(tmp_path, rules(), more=lambda bench: [outer, inner, looking]) as gate:
        result = await asked(gate, outer)
        assert (result.ok, result.error_code, inner.calls) == (False, "refused", [])
        assert [(tool, verdict) for tool, verdict, _ in await gate.decisions()] == [("peek", "deny")]


@pytest.mark.req("T4", "T3", "X5")
async def test_a_nested_call_of_a_tool_for_operators_is_recorded_and_no_models_to_make(tmp_path: Path) -> None:
    inner = peek(level=2)
    outer = Composed("a", "peek", level=0)
    outer.contract = replace(outer.contract, security=SecurityContract(AccessLevel.OPERATOR, "field"))  # type: ignore[misc]
    gated = rules(allow=[{"tools": ["*"]}])
    async with open_gate(tmp_path, gated, more=lambda bench: [outer, inner]) as gate:
        assert (await asked(gate, outer)).ok, "an operator's is made, and leaves a row"
        assert ("peek", "allow") in [(tool, verdict) for tool, verdict, _ in await gate.decisions()]
        model = await asked_by_model(gate, outer)
        assert not model.ok, "what a model wants with it needs a yes that a nested call cannot get"
    assert len(inner.calls) == 1


async def asked_by_model(gate: Gate, outer: Composed) -> ToolResult:
    """Call the outer tool's dependency as part of a turn that a model planned."""
    outer.results.clear()
    turn = await gate.unprepared([Step("s", "read_tags", {"keys": ["motor_3.temperature"]})], principal(), source="model:m")
    call = call_of(turn, (await gate.steps(turn))["s"], {}, tool="a")
    await run_composed(outer, call, None)
    (result,) = outer.results
    return result


@pytest.mark.req("T4")
async def test_a_nested_call_that_plainly_reads_costs_no_row(tmp_path: Path) -> None:
    inner = peek()
    outer, how = nested(inner)
    async with open_gate(tmp_path, **how) as gate:
        assert (await asked(gate, outer)).ok
        assert await gate.decisions() == []
