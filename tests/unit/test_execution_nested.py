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
from appliance.contracts.tool import SecurityContract, SlaContract, ToolCall, ToolCaller, ToolResult
from tests.support.effect_file import Look
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
    assert yard.look.calls == []


@pytest.mark.req("T4")
@pytest.mark.parametrize("name", ["say", "create_work_order"])
async def test_what_does_more_than_read_is_not_called(yard: Yard, name: str) -> None:
    assert (
        await failure(yard, Composed("a", name, level=2))
        == f"s: refused: {name} does more than read, so no other tool may call it"
    )


@pytest.mark.req("T4", "T3")
async def test_a_tool_above_the_askers_level_is_not_there_for_a_nested_call_either(yard: Yard) -> None:
    outer, inner = Composed("a", "peek", level=2), peek(level=2)
    yard.more += [outer, inner]
    guest = Principal("guest", Identification.VOICE, "guest", AccessLevel.PUBLIC)
    await yard.runner.run(await yard.turn(Step("s", "a", {}), **{PRINCIPAL: guest.to_json()}))
    (result,) = outer.results
    assert (result.error_code, result.error) == ("tool_validation", "there is no tool peek")
    assert inner.calls == []


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
