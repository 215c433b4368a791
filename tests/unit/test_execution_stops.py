"""Stops: obeyed within a second whatever the tool does, recorded with what may have happened, never lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Unavailable, Uncertain
from appliance.contracts.interrupt import Cause
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Step
from appliance.contracts.tool import SlaContract, ToolCall
from appliance.execution.calling import MOST_GIVEN_UP, Calls
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.say import Say
from appliance.execution.turn_signal import TurnSignal
from appliance.store import interrupts
from tests.support.effect_file import lines
from tests.support.plans import phrasing
from tests.support.runner_ports import runner_ports
from tests.support.stopping import AFTER, FINISHED, MARK, STOPPED, STOPPED_UNKNOWN, Yard, open_yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


@pytest.mark.req("R7")
async def test_a_stop_before_a_step_begins_keeps_it_from_beginning(yard: Yard) -> None:
    turn = await yard.turn(Step("look", "look", {}), MARK, AFTER)
    await yard.stop(ring=False)  # nobody rings: it is found in the transaction that would begin the step
    assert await yard.runner.run(turn) == STOPPED
    assert await yard.states() == {"look": "skipped", "write": "skipped", "done": "skipped"}
    assert await yard.result("write") == {
        "cause": "user", "by": "anna", "reason": "wrong machine", "effect_disposition": "none", "error_code": "stopped",
        "error": "stopped by anna: wrong machine",
    }  # fmt: skip
    assert yard.look.calls == lines(yard.path) == await yard.said() == []
    assert await yard.open_wishes() == 0


@pytest.mark.req("R7")
async def test_a_stop_that_lands_between_the_intent_and_the_call_still_stops_it(yard: Yard) -> None:
    class Interfering:
        """Stops the turn while the commit of its intent is answered: the row is there, the call was not made."""

        async def transaction(self, work: Any) -> Any:
            value = await yard.bench.database.transaction(work)
            if await yard.bench.rows("SELECT 1 FROM effect WHERE status = 'intended'") and not yard.bell.is_rung:
                await yard.stop()
            return value

    bench, ledger = yard.bench, Interfering()
    tools = Toolbox([Say(bench.clock, bench.ids), yard.mark])
    ports = runner_ports(yard.path.parent, bench.clock)
    runner = Runner(ledger, tools, bench.clock, bench.ids, bench.epoch, phrasing(), **ports)  # type: ignore[arg-type]
    assert (await runner.run(await yard.turn(MARK, AFTER), yard.bell)).kind == "stopped"
    assert await yard.states() == {"write": "skipped", "done": "skipped"}
    assert (await yard.effect())["status"] == "none", "it is known that nothing was sent"
    assert lines(yard.path) == await yard.said() == []
    assert await yard.open_wishes() == 0


@pytest.mark.req("R7")
async def test_a_read_only_call_is_stopped_at_once(yard: Yard) -> None:
    yard.looking(yard.hang)
    outcome, took_s = await yard.stop_inside(await yard.turn(Step("look", "look", {}), AFTER))
    assert outcome == STOPPED
    assert took_s < 0.5
    assert await yard.states() == {"look": "skipped", "done": "skipped"}
    assert await yard.said() == []


@pytest.mark.req("R7", "T7")
async def test_a_tool_that_ignores_it_is_given_up_within_a_second_and_named(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    yard.mark.after = yard.ignore_stop  # type: ignore[assignment]
    yard.runner._calls._grace_s = 0.05
    outcome, took_s = await yard.stop_inside(await yard.turn(MARK, AFTER))
    assert outcome == STOPPED
    assert took_s < 1.0
    assert await yard.states() == {"write": "unknown", "done": "skipped"}
    assert ((await yard.effect())["status"], (await yard.result("write"))["error_code"]) == ("unknown", "stopped")
    assert await yard.said() == [STOPPED_UNKNOWN]
    async with asyncio.timeout(20):
        while not any(r.getMessage() == "tool.ignores_stop" for r in caplog.records):  # noqa: ASYNC110 - a log sets no event
            await asyncio.sleep(0.01)
    assert lines(yard.path) == ["one"]


@pytest.mark.req("R7", "T7")
@pytest.mark.parametrize(("ends", "status"), [({}, "applied"), (Unavailable("the link is down"), "none")])
async def test_what_a_stopped_effect_says_within_the_second_is_recorded_as_it_is(yard: Yard, ends: Any, status: str) -> None:
    async def tell(call: ToolCall) -> None:
        yard.inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ends:
                raise ends from None

    yard.mark.after = tell
    outcome, _ = await yard.stop_inside(await yard.turn(MARK, AFTER))
    assert outcome == STOPPED
    assert (await yard.effect())["status"] == status
    assert (await yard.states())["write"] == ("done" if status == "applied" else "failed")


@pytest.mark.req("R7", "T7")
async def test_one_that_says_nothing_may_have_happened_and_is_never_called_again(yard: Yard) -> None:
    yard.mark.after = yard.hang  # type: ignore[assignment]
    turn = await yard.turn(MARK, AFTER)
    outcome, _ = await yard.stop_inside(turn)
    assert outcome == STOPPED
    assert (await yard.effect())["status"] == "unknown"
    assert await yard.said() == [STOPPED_UNKNOWN]
    # whatever dies before the turn has ended: going on comes to the same end, and says and does nothing again
    assert await yard.runner.run(turn, TurnSignal()) == STOPPED
    assert await yard.said() == [STOPPED_UNKNOWN]
    assert lines(yard.path) == ["one"]


@pytest.mark.req("R7")
async def test_checking_an_unknown_effect_is_stopped_too(yard: Yard) -> None:
    async def lose(call: ToolCall) -> None:
        raise Uncertain("no answer came")

    async def check(call: ToolCall, arguments: Any) -> Any:
        return await yard.hang()

    yard.mark.after = lose
    yard.mark.verify = check  # type: ignore[method-assign]
    outcome, took_s = await yard.stop_inside(await yard.turn(MARK, AFTER))
    assert outcome == STOPPED
    assert took_s < 0.5
    assert await yard.states() == {"write": "unknown", "done": "skipped"}
    assert (await yard.said())[1:] == [STOPPED_UNKNOWN]


@pytest.mark.req("R7")
async def test_a_stop_after_the_last_step_stops_nothing(yard: Yard) -> None:
    turn = await yard.turn(Step("a", "say", {"text": "Done."}))
    await yard.runner.run(turn)
    await yard.stop()
    assert await yard.runner.run(turn, yard.bell) == FINISHED
    assert await yard.open_wishes() == 0


@pytest.mark.req("R7")
async def test_the_cause_is_kept_as_ours_or_a_persons(yard: Yard) -> None:
    turn = await yard.turn(MARK)
    bench = yard.bench
    await bench.database.transaction(
        lambda tx: interrupts.ask(tx, bench.clock, bench.ids, "tr_1", cause=Cause.SYSTEM, by="lifespan", reason="used up")
    )
    assert await yard.runner.run(turn) == RunOutcome("stopped", cause=Cause.SYSTEM, by="lifespan", reason="used up")
    assert (await yard.result("write"))["cause"] == "system"


async def test_a_bell_rung_for_something_else_stops_nothing(yard: Yard) -> None:
    yard.looking(yard.hang)
    turn = await yard.turn(Step("look", "look", {}), Step("b", "mark", {"line": "x"}))
    running = asyncio.create_task(yard.runner.run(turn, yard.bell))
    await yard.inside.wait()
    yard.bell.ring()
    assert not (await asyncio.wait({running}, timeout=0.05))[0]
    yard.release.set()
    assert await running == FINISHED


@pytest.mark.req("R7")
async def test_a_tool_with_too_many_calls_that_never_ended_is_not_called_again(yard: Yard) -> None:
    yard.look.contract = replace(yard.look.contract, sla=SlaContract(10))  # type: ignore[misc]
    yard.looking(yard.ignore_stop)
    after = [(), *((f"look_{n}",) for n in range(MOST_GIVEN_UP))]  # one after the other
    steps = [Step(f"look_{n}", "look", {}, optional=True, after=after[n]) for n in range(MOST_GIVEN_UP + 1)]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    assert len(yard.look.calls) == MOST_GIVEN_UP
    assert (await yard.result(f"look_{MOST_GIVEN_UP}"))["error"] == "earlier calls of look have not ended"


async def test_a_call_cancelled_from_within_is_not_taken_for_the_end_of_the_turn(yard: Yard) -> None:
    async def give_in() -> Mapping[str, Any]:
        raise asyncio.CancelledError

    yard.looking(give_in)
    assert "cancelled from within" in (await yard.runner.run(await yard.turn(Step("look", "look", {})))).failure


def test_calls_that_ended_clog_nothing() -> None:
    assert not Calls().is_clogged("look")


@pytest.mark.req("R7")
async def test_the_log_of_a_stopped_effect_is_unbroken(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    yard.mark.after = yard.hang  # type: ignore[assignment]
    await yard.stop_inside(await yard.turn(MARK, AFTER))
    kinds = await yard.bench.kinds(OperationLane.P1)
    assert [kind for kind in kinds if kind.startswith(("effect.", "interrupt."))] == [
        "effect.intended", "interrupt.asked", "effect.unknown",
    ]  # fmt: skip
    (failed,) = [record for record in caplog.records if record.getMessage() == "mark.failed"]
    assert vars(failed)["error_code"] == "stopped"
