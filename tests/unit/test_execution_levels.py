"""What follows a call that failed: restored and tried again, another tool, people; and one slow tool that stops no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.approval import Decision, Rule, Verdict
from appliance.contracts.errors import Corrupt, Refused, Unavailable, Uncertain
from appliance.contracts.plan import Step
from appliance.contracts.tool import SecurityContract, SlaContract, ToolCall
from appliance.execution.tool_breaker import COOL_DOWN_S, TIMEOUTS_IN_A_ROW, ToolBreaker
from appliance.store import actions
from tests.support.clock import ManualClock
from tests.support.effect_file import Look, MarkArguments, MarkFile, lines
from tests.support.stopping import AFTER, FINISHED, MARK, STOPPED, Yard, open_yard

AWAY = "That cannot be done now."


class Restorable(MarkFile):
    """Marks half a line and fails, as often as it is told; what it left can be taken away again."""

    def __init__(self, path: Path, *fails: Exception, retries: int = 2, restoring: Exception | None = None) -> None:
        super().__init__(path)
        sla = SlaContract(2_000, retries)
        self.contract = replace(MarkFile.contract, name="press", sla=sla)  # type: ignore[misc]
        self.fails = list(fails)
        self.restoring = restoring
        self.calls = 0
        self.snapshots: list[str] = []

    async def snapshot(self, call: ToolCall, arguments: MarkArguments) -> str:
        self.snapshots.append(self._path.read_text() if self._path.exists() else "")
        return self.snapshots[-1]

    async def restore(self, call: ToolCall, arguments: MarkArguments, snapshot: str) -> None:
        if self.restoring is not None:
            raise self.restoring
        self._path.write_text(snapshot)

    async def run(self, call: ToolCall, arguments: MarkArguments) -> Mapping[str, Any]:
        self.calls += 1
        if self.fails:
            with self._path.open("a") as file:
                file.write("half\n")
            raise self.fails.pop(0)
        return await super().run(call, arguments)


PRESS = Step("write", "press", {"line": "one"})


def named(name: str, *answers: Any, **how: Any) -> Look:
    """A tool that looks, under another name."""
    tool = Look(*answers)
    tool.contract = replace(Look.contract, name=name, **how)  # type: ignore[misc]
    return tool


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


# the first level -----------------------------------------------------------------------------------------------------
@pytest.mark.req("T5")
async def test_a_call_that_failed_is_made_again_after_what_was_there_before_is_restored(yard: Yard) -> None:
    yard.path.write_text("before\n")
    tool = Restorable(yard.path, Unavailable("away"), Unavailable("away"))
    yard.more.append(tool)
    assert await yard.runner.run(await yard.turn(PRESS)) == FINISHED
    assert lines(yard.path) == ["before", "one"], "nothing of the tries that failed is left"
    assert tool.snapshots == ["before\n"] and tool.calls == 3
    assert yard.approvals.live == ["press"] * 3, "what has to hold is asked before each try"
    assert (await yard.effect())["status"] == "applied"


@pytest.mark.req("T5")
async def test_tries_end_with_the_contract_and_leave_what_was_there(yard: Yard) -> None:
    tool = Restorable(yard.path, *[Unavailable("away")] * 9)
    yard.more.append(tool)
    assert (await yard.runner.run(await yard.turn(PRESS))).failure == "write: unavailable: away"
    assert (tool.calls, lines(yard.path)) == (3, [])
    assert (await yard.effect())["status"] == "none"
    assert yard.tickets.opened == [("write", "press", "unavailable")]


@pytest.mark.req("T5")
async def test_a_refusal_is_restored_and_not_tried_again(yard: Yard) -> None:
    tool = Restorable(yard.path, Refused("the guard is open"))
    yard.more.append(tool)
    assert (await yard.runner.run(await yard.turn(PRESS))).failure == "write: refused: the guard is open"
    assert (tool.calls, lines(yard.path)) == (1, [])
    assert yard.tickets.opened == []


@pytest.mark.req("T5", "T7")
async def test_what_nobody_is_sure_of_is_never_made_again(yard: Yard) -> None:
    tool = Restorable(yard.path, Uncertain("no answer came"))
    yard.more.append(tool)
    assert (await yard.runner.run(await yard.turn(PRESS))).failure.startswith("write: not_applied")
    assert tool.calls == 1


@pytest.mark.req("T5", "T7")
@pytest.mark.parametrize("error", [Unavailable("the link is down"), Uncertain("no answer came")])
async def test_what_could_not_be_restored_is_unknown_and_not_made_again(yard: Yard, error: Exception) -> None:
    tool = Restorable(yard.path, Unavailable("away"), restoring=error)
    tool.unreadable_times = 99
    yard.more.append(tool)
    assert (await yard.runner.run(await yard.turn(PRESS))).kind == "failed"
    effect = await yard.effect()
    assert (tool.calls, effect["status"]) == (1, "unknown")
    assert effect["note"] == f"it failed (away), and what was before could not be restored: {error.message}"  # type: ignore[attr-defined]


@pytest.mark.req("T5", "T7")
async def test_a_plain_effect_is_made_once_whatever_it_says(yard: Yard) -> None:
    calls = []

    async def fail(call: ToolCall) -> None:
        calls.append(call)
        raise Unavailable("away")

    yard.mark.before = fail
    assert (await yard.runner.run(await yard.turn(MARK))).failure == "write: unavailable: away"
    assert len(calls) == 1


@pytest.mark.req("T5", "R7")
async def test_a_stop_before_the_next_try_finds_it_restored(yard: Yard) -> None:
    tool = Restorable(yard.path, *[Unavailable("away")] * 9)
    yard.more.append(tool)
    restored = tool.restore

    async def stop(call: ToolCall, arguments: MarkArguments, snapshot: str) -> None:
        await restored(call, arguments, snapshot)
        await yard.stop()

    tool.restore = stop  # type: ignore[method-assign]
    assert await yard.runner.run(await yard.turn(PRESS, AFTER), yard.bell) == STOPPED
    assert (tool.calls, lines(yard.path), (await yard.effect())["status"]) == (1, [], "none")


# the second level ----------------------------------------------------------------------------------------------------
@pytest.mark.req("T5")
async def test_the_tool_that_stands_in_answers_and_the_result_says_so(yard: Yard) -> None:
    main = named("gauge", Unavailable("away"), fallback_tool="look", sla=SlaContract(200))
    yard.more.append(main)
    turn = await yard.turn(Step("s", "gauge", {"at": "x"}), Step("b", "say", {"text": "{steps.s.seen}"}))
    commits: list[int] = []
    yard.bench.database.on_commit(lambda: commits.append(1))
    assert await yard.runner.run(turn) == FINISHED
    assert await yard.result("s") == {
        "seen": "all well", "effect_disposition": "none", "answered_by": "look",
        "failed_before": [{"tool": "gauge", "error_code": "unavailable", "error": "away"}],
    }  # fmt: skip
    assert yard.look.calls[0].arguments == {"at": "x"} and yard.look.calls[0].tool == "look"
    assert await yard.said() == ["all well"]
    assert yard.approvals.asked == ["gauge", "look", "say"], "it passes the gate as every call does"
    assert len(commits) == 3 and yard.tickets.opened == []


@pytest.mark.req("T5")
async def test_when_none_answers_people_are_told_of_the_one_that_was_asked_for(yard: Yard) -> None:
    yard.tickets.sentence = "Maintenance has been told."
    yard.more += [
        named("gauge", Unavailable("away"), fallback_tool="second", sla=SlaContract(200)),
        named("second", Unavailable("dark"), fallback_tool="look", sla=SlaContract(200)),
    ]
    yard.looking(refuse)
    outcome = await yard.runner.run(await yard.turn(Step("s", "gauge", {})))
    assert outcome.failure == "s: unavailable: away; nor could another tool: the guard is open"
    assert await yard.said() == [f"{AWAY} Away; nor could another tool: the guard is open. Maintenance has been told."]
    assert [each["tool"] for each in (await yard.result("s"))["failed_before"]] == ["gauge", "second"]
    assert [code for _, _, code in yard.tickets.opened] == ["unavailable"]


@pytest.mark.req("T5", "X2")
async def test_a_tool_that_stands_in_is_refused_as_any_other(yard: Yard) -> None:
    yard.more.append(named("gauge", Unavailable("away"), fallback_tool="look", sla=SlaContract(200)))
    yard.approvals.verdicts["look"] = Verdict(Decision.DENY, Rule.DENY, "not at night")
    outcome = await yard.runner.run(await yard.turn(Step("s", "gauge", {})))
    assert outcome.failure == "s: unavailable: away; nor could another tool: not at night"
    assert yard.look.calls == []


@pytest.mark.req("T5")
@pytest.mark.parametrize("error", [Refused("the guard is open"), Corrupt("damaged")])
async def test_a_refusal_and_what_is_damaged_is_left_to_no_other_tool(yard: Yard, error: Exception) -> None:
    yard.more.append(named("gauge", error, fallback_tool="look"))
    assert (await yard.runner.run(await yard.turn(Step("s", "gauge", {})))).kind == "failed"
    assert yard.look.calls == []
    assert [code for _, _, code in yard.tickets.opened] == (["corrupt"] if isinstance(error, Corrupt) else [])


@pytest.mark.req("T5")
async def test_an_effect_that_did_not_happen_is_left_to_a_tool_that_only_reads(yard: Yard) -> None:
    press = Restorable(yard.path, *[Unavailable("away")] * 9, retries=0)
    press.contract = replace(press.contract, fallback_tool="glance")  # type: ignore[misc]

    class Glance(Look):
        schema = replace(MarkFile.contract.schema, result=Look.contract.schema.result)
        contract = replace(Look.contract, name="glance", schema=schema, telemetry=MarkFile.contract.telemetry)

    yard.more += [press, Glance()]
    assert await yard.runner.run(await yard.turn(PRESS)) == FINISHED
    assert ((await yard.effect())["status"], (await yard.result("write"))["answered_by"]) == ("none", "glance")
    assert lines(yard.path) == []


@pytest.mark.req("T5", "R6")
async def test_after_a_crash_the_tool_that_stands_in_is_asked_and_not_the_one_that_failed(yard: Yard) -> None:
    gauge = named("gauge", Unavailable("away"), fallback_tool="look", sla=SlaContract(200))
    yard.more.append(gauge)
    yard.looking(yard.hang)
    turn = await yard.turn(Step("s", "gauge", {}))
    assert (await yard.stop_inside_by_dying(turn)) == "started"
    yard.release.set()
    assert await yard.runner.run(turn) == FINISHED
    assert (len(gauge.calls), (await yard.result("s"))["answered_by"]) == (1, "look")


# the third level -----------------------------------------------------------------------------------------------------
@pytest.mark.req("T5")
async def test_a_broken_answer_is_left_to_people_at_once(yard: Yard) -> None:
    yard.more.append(named("gauge", {"saw": 1}, fallback_tool="look"))
    assert "broken_result" in (await yard.runner.run(await yard.turn(Step("s", "gauge", {})))).failure
    assert yard.look.calls == [] and yard.tickets.opened == [("s", "gauge", "broken_result")]


@pytest.mark.req("T5")
async def test_an_unknown_that_is_given_up_is_left_to_people_once(yard: Yard) -> None:
    async def lose(call: ToolCall) -> None:
        raise Uncertain("no answer came")

    yard.tickets.sentence = "Maintenance has been told."
    yard.mark.after, yard.mark.unreadable_times = lose, 99
    turn = await yard.turn(MARK)
    for _ in range(2):
        assert (await yard.runner.run(turn)).kind == "failed"
    assert yard.tickets.opened == [("write", "mark", "unavailable")]
    assert (await yard.said())[-1].endswith("Maintenance has been told.")


@pytest.mark.req("T5")
async def test_what_may_fail_calls_nobody(yard: Yard) -> None:
    yard.more.append(named("gauge", Unavailable("away"), sla=SlaContract(200)))
    assert await yard.runner.run(await yard.turn(Step("s", "gauge", {}, optional=True))) == FINISHED
    assert yard.tickets.opened == []


# one tool that is slow -----------------------------------------------------------------------------------------------
@pytest.mark.field("FC-A02")
async def test_one_time_out_fails_that_call_and_neither_its_tool_nor_another(yard: Yard) -> None:
    slow = named("gauge", sla=SlaContract(10), security=SecurityContract(Look.contract.security.access_level, "field"))
    yard.more.append(slow)
    ways = [yard.hang, quick]

    async def run(call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        return await ways.pop(0)()

    slow.run = run  # type: ignore[method-assign]
    steps = [Step("a", "gauge", {}, optional=True), Step("b", "look", {}), Step("c", "gauge", {}, after=("a",))]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    assert await yard.states() == {"a": "failed", "b": "done", "c": "done"}


@pytest.mark.field("FC-A02")
async def test_a_tool_that_times_out_three_times_in_a_row_rests_and_the_others_go_on(yard: Yard) -> None:
    slow = named("gauge", sla=SlaContract(10))

    async def hang(call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        slow.calls.append(call)
        return await yard.hang()

    slow.run = hang  # type: ignore[method-assign]
    yard.more.append(slow)
    count = TIMEOUTS_IN_A_ROW + 1
    chain = [Step(f"s{n}", "gauge", {"at": str(n)}, optional=True, after=(f"s{n - 1}",) if n else ()) for n in range(count)]
    turn = await yard.turn(*chain, Step("b", "look", {}))
    assert await yard.runner.run(turn) == FINISHED
    assert len(slow.calls) == TIMEOUTS_IN_A_ROW
    assert (await yard.result("s3"))["error"] == "gauge took too long 3 times in a row; try again in 15 seconds"
    assert (await yard.states())["b"] == "done"
    yard.bench.clock.advance(COOL_DOWN_S)
    slow.run = Look.run.__get__(slow)  # type: ignore[method-assign]
    more = [Step("again", "gauge", {})]
    await yard.bench.database.transaction(lambda tx: actions.append_plan(tx, yard.bench.ids, "tr_1", more))
    assert await yard.runner.run(turn) == FINISHED


@pytest.mark.field("FC-A02")
def test_time_outs_are_counted_tool_by_tool_and_in_a_row() -> None:
    breaker = ToolBreaker(ManualClock())
    for tool in ("gauge", "gauge", "other", "other"):
        breaker.timed_out(tool)
    breaker.answered("other")
    breaker.timed_out("other")
    assert [breaker.why_not(tool) for tool in ("gauge", "other")] == ["", ""]
    breaker.timed_out("gauge")
    assert breaker.why_not("gauge") and not breaker.why_not("other")


@pytest.mark.req("T5")
@pytest.mark.field("FC-A02")
async def test_while_a_tool_rests_the_one_that_stands_in_is_asked_at_once(yard: Yard) -> None:
    gauge = named("gauge", fallback_tool="look", sla=SlaContract(10))
    yard.more.append(gauge)
    for _ in range(TIMEOUTS_IN_A_ROW):
        yard.runner._attempts._breaker.timed_out("gauge")
    assert await yard.runner.run(await yard.turn(Step("s", "gauge", {}))) == FINISHED
    assert (await yard.result("s"))["answered_by"] == "look" and gauge.calls == []


async def quick() -> Mapping[str, Any]:
    return {"seen": "quick"}


async def refuse() -> Mapping[str, Any]:
    raise Refused("the guard is open")
