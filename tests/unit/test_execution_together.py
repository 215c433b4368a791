"""Steps that need nothing of each other run at the same time; what shares a resource, changes something or asks does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, ActionState, Step
from appliance.contracts.tool import SlaContract, ToolCall
from appliance.execution.runner import RunOutcome
from appliance.execution.standing import Begun, Ending
from appliance.execution.together import Hands
from appliance.execution.turn_signal import TurnSignal
from appliance.store import actions
from tests.support.effect_file import Look, lines
from tests.support.stopping import FINISHED, MARK, STOPPED, STOPPED_UNKNOWN, Yard, open_yard
from tests.support.waiting import until, within


class Glance(Look):
    """Looks of its own name, which tell when they begin and go on when they are let."""

    def __init__(self, name: str, *, resource: str = "", ms: int = 30_000) -> None:
        super().__init__()
        self.contract = replace(Look.contract, name=name, resource=resource, sla=SlaContract(ms))  # type: ignore[misc]
        self.release = asyncio.Event()
        self.under_way = 0
        self.most = 0
        self.fails: Exception | None = None

    async def run(self, call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        self.calls.append(call)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.release.wait()
        finally:
            self.under_way -= 1
        if self.fails is not None:
            raise self.fails
        return {"seen": self.contract.name}


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


def glances(yard: Yard, *names: str, resource: str = "") -> list[Glance]:
    tools = [Glance(name, resource=resource) for name in names]
    yard.more.extend(tools)
    return tools


async def settled() -> None:
    """Let everything go on that can."""
    for _ in range(200):
        await asyncio.sleep(0)


async def begun(yard: Yard, turn: Any, *expected: Glance) -> asyncio.Task[RunOutcome]:
    """Run a turn until all these are inside their calls."""
    running = asyncio.create_task(yard.runner.run(turn, yard.bell))
    await until(lambda: all(tool.under_way for tool in expected), "the calls are where they should be")
    return running


def steps(*names: str, **how: Any) -> list[Step]:
    return [Step(name, name, {}, **how) for name in names]


@pytest.mark.req("T8")
async def test_reads_that_need_nothing_of_each_other_run_at_once_and_share_their_commits(yard: Yard) -> None:
    a, b, c = glances(yard, "a", "b", "c")
    turn = await yard.turn(*steps("a", "b", "c"), Step("say", "say", {"text": "{steps.a.seen}{steps.b.seen}{steps.c.seen}"}))
    commits = []
    yard.bench.database.on_commit(lambda: commits.append(1))
    running = await begun(yard, turn, a, b, c)
    assert await yard.states() == {"a": "started", "b": "started", "c": "started", "say": "pending"}
    for tool in (c, b, a):  # whichever ends first
        tool.release.set()
    assert await running == FINISHED
    assert await yard.said() == ["abc"]
    assert len(commits) == 2, "begun on one page, ended on one page with what follows"


@pytest.mark.req("T8")
@pytest.mark.parametrize(
    "second",
    [
        Step("b", "b", {"at": "{steps.a.seen}"}),
        Step("b", "b", {}, when="a"),
        Step("b", "b", {}, when='a.seen == "a"'),
        Step("b", "b", {}, after=("a",)),
    ],
)
async def test_what_needs_another_step_waits_for_it(yard: Yard, second: Step) -> None:
    a, b = glances(yard, "a", "b")
    running = await begun(yard, await yard.turn(*steps("a"), second), a)
    await settled()
    assert b.calls == []
    a.release.set()
    b.release.set()
    assert await running == FINISHED
    assert await yard.states() == {"a": "done", "b": "done"}


@pytest.mark.req("T8")
async def test_what_has_an_effect_or_asks_is_alone(yard: Yard) -> None:
    a, b, c = glances(yard, "a", "b", "c")
    ask = Step("ask", "ask", {"question": "Shall I?"})
    turn = await yard.turn(*steps("a"), MARK, *steps("b"), ask, *steps("c"))
    running = await begun(yard, turn, a)
    await settled()
    assert lines(yard.path) == [] and b.calls == []
    a.release.set()
    b.release.set()
    assert await running == RunOutcome("waiting")
    assert lines(yard.path) == ["one"] and c.calls == [] and len(b.calls) == 1


@pytest.mark.req("T8")
async def test_calls_on_one_resource_are_made_one_after_the_other_in_the_order_of_the_plan(yard: Yard) -> None:
    a, b = glances(yard, "a", "b", resource="field")
    (other,) = glances(yard, "other")
    running = await begun(yard, await yard.turn(*steps("a", "b", "other")), a, other)
    await settled()
    assert b.calls == []
    a.release.set()
    await until(lambda: b.under_way, "the calls are where they should be")
    b.release.set()
    other.release.set()
    assert await running == FINISHED


@pytest.mark.req("T8")
async def test_no_more_than_eight_at_once(yard: Yard) -> None:
    (a,) = glances(yard, "a")
    turn = await yard.turn(*[Step(f"s{n}", "a", {"at": str(n)}) for n in range(20)])
    running = await begun(yard, turn, a)
    await settled()
    assert a.under_way == 8
    a.release.set()
    assert await running == FINISHED
    assert (a.most, len(a.calls)) == (8, 20)


@pytest.mark.req("T8")
async def test_a_turn_does_not_wait_for_the_hands_that_another_has_taken() -> None:
    hands, release, made = Hands(), asyncio.Event(), []

    async def make(call: Begun, within_s: float) -> Ending | None:
        made.append(call.action.step_id)
        if call.action.step_id.startswith("slow"):
            await release.wait()
        return None

    slow = asyncio.create_task(hands.make_all([_begun(f"slow{n}") for n in range(10)], make))
    await settled()
    assert len(made) == 8
    await asyncio.wait_for(hands.make_all([_begun("quick1"), _begun("quick2")], make), 20)
    assert made[8:] == ["quick1", "quick2"]
    release.set()
    assert await slow == [None] * 10
    assert hands._free == 7


@pytest.mark.req("T8")
async def test_a_batch_may_take_420_seconds() -> None:
    told: list[float] = []

    async def make(call: Begun, within_s: float) -> Ending | None:
        told.append(within_s)
        return None

    await Hands().make_all([_begun("alone")], make)
    await Hands().make_all([_begun("a"), _begun("b")], make)
    assert told[0] == 420.0 and all(300.0 < each <= 420.0 for each in told)


@pytest.mark.req("T8")
async def test_what_has_no_time_left_within_the_limit_of_a_batch_is_not_called(yard: Yard) -> None:
    a, b = glances(yard, "a", "b", resource="field")
    yard.runner._hands = Hands(limit_s=0.05)
    outcome = await yard.runner.run(await yard.turn(*steps("a", "b", optional=True)), yard.bell)
    assert outcome == FINISHED
    assert (len(a.calls), b.calls) == (1, [])
    assert (await yard.result("a"))["error"] == "a took too long"
    assert (await yard.result("b"))["error"] == "no time was left for b"


@pytest.mark.req("T8")
async def test_one_that_fails_fails_the_turn_once_and_the_others_are_recorded(yard: Yard) -> None:
    a, b, c = glances(yard, "a", "b", "c")
    b.fails, c.fails = Refused("the guard is open"), Refused("the door is open")
    turn = await yard.turn(MARK, *steps("a", "b", "c"), Step("say", "say", {"text": "Never."}))
    running = await begun(yard, turn, a, b, c)
    for tool in (a, b, c):
        tool.release.set()
    outcome = await running
    assert outcome == RunOutcome("failed", "b: refused: the guard is open")
    assert await yard.states() == {"write": "done", "a": "done", "b": "failed", "c": "failed", "say": "pending"}
    assert await yard.said() == ["I cannot do that. The guard is open.", "This was done already: the mark."]
    assert await yard.runner.run(turn) == outcome, "found failed after a restart: said once"
    assert len(await yard.said()) == 2


@pytest.mark.req("T8", "R7")
async def test_a_stop_ends_all_of_them_within_a_second(yard: Yard) -> None:
    a, b = glances(yard, "a", "b")
    running = await begun(yard, await yard.turn(MARK, *steps("a", "b"), MARK_TWO), a, b)
    await yard.stop()
    with within(1.0):
        assert await running == STOPPED
    assert await yard.states() == {"write": "done", "a": "skipped", "b": "skipped", "two": "skipped"}
    assert await yard.open_wishes() == 0
    assert STOPPED_UNKNOWN not in await yard.said()


@pytest.mark.req("T8", "R7")
async def test_cancelling_one_of_them_leaves_the_others(yard: Yard) -> None:
    a, b, c = glances(yard, "a", "b", "c")
    running = await begun(yard, await yard.turn(*steps("a", "b", "c")), a, b, c)
    await yard.stop("b")
    await until(lambda: not b.under_way, "the calls are where they should be")
    await settled()
    assert not running.done() and a.under_way and c.under_way
    a.release.set()
    c.release.set()
    assert await running == FINISHED
    assert await yard.states() == {"a": "done", "b": "skipped", "c": "done"}
    assert await yard.open_wishes() == 0


@pytest.mark.req("T8", "R7")
async def test_one_cancelled_beside_one_that_fails_is_not_left_under_way(yard: Yard) -> None:
    a, b = glances(yard, "a", "b")
    a.fails = Refused("the guard is open")
    running = await begun(yard, await yard.turn(*steps("a", "b")), a, b)
    await yard.stop("b")
    await until(lambda: not b.under_way, "the calls are where they should be")
    a.release.set()
    assert (await running).kind == "failed"
    assert await yard.states() == {"a": "failed", "b": "skipped"}
    assert await yard.open_wishes() == 0


@pytest.mark.req("T8", "R6")
async def test_what_a_crash_left_under_way_is_read_again_together(yard: Yard) -> None:
    a, b = glances(yard, "a", "b")
    turn = await yard.turn(*steps("a", "b"))
    running = await begun(yard, turn, a, b)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await yard.states() == {"a": "started", "b": "started"}
    for tool in (a, b):
        tool.release.set()
    assert await yard.runner.run(turn, TurnSignal()) == FINISHED
    assert (len(a.calls), len(b.calls)) == (2, 2)


@pytest.mark.req("T8")
async def test_a_fault_in_one_of_them_fails_its_step_as_if_it_had_been_alone(yard: Yard) -> None:
    a, b = glances(yard, "a", "b")
    a.fails = KeyError("a mistake in the tool")
    running = await begun(yard, await yard.turn(*steps("a", "b")), a, b)
    a.release.set()
    b.release.set()
    assert (await running).failure.startswith("a: fault: a fault of mine, the log has it: KeyError: ")
    assert not b.under_way, "nothing is left over"
    assert await yard.states() == {"a": "failed", "b": "done"}


@pytest.mark.req("T8")
async def test_a_steer_is_let_in_when_all_of_them_have_ended(yard: Yard) -> None:
    a, b = glances(yard, "a", "b")
    turn = await yard.turn(*steps("a", "b"), Step("say", "say", {"text": "Done."}))
    running = await begun(yard, turn, a, b)
    yard.bell.steered = True
    yard.bell.ring()
    a.release.set()
    await settled()
    assert not running.done()
    b.release.set()
    assert await running == RunOutcome("steered")
    found = await yard.bench.database.transaction(lambda tx: actions.of_turn(tx, "tr_1"))
    assert [action.state for action in found] == [ActionState.DONE, ActionState.DONE, ActionState.PENDING]


MARK_TWO = Step("two", "mark", {"line": "two"})


def _begun(name: str) -> Begun:
    action = Action("ac", "tr", 0, name, "look", {}, "", False, ActionState.STARTED, None)
    return Begun(action, None, Look())  # type: ignore[arg-type]  # the hands look at nothing but the tool
