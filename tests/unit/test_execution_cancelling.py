"""One step cancelled, a plan steered, everything held: the rest of the plan goes on as it may, and says why where it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.hold import HoldSource
from appliance.contracts.plan import Step
from appliance.execution.runner import RunOutcome
from appliance.store import actions, holds
from tests.support.effect_file import lines
from tests.support.plans import open_turn
from tests.support.stopping import AFTER, FINISHED, MARK, STOPPED_UNKNOWN, Yard, open_yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


# one step -------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R7", "S1")
async def test_a_step_that_waits_is_cancelled_by_itself_and_those_that_need_it_with_it(yard: Yard) -> None:
    turn = await yard.turn(
        Step("look", "look", {}),
        MARK,
        Step("tell", "say", {"text": "Written: {steps.write.line}."}),
        Step("go", "say", {"text": "It is written."}, when="write"),
        Step("leave", "say", {"text": "Not written, {steps.look.seen}."}, when="not write"),
    )
    await yard.stop("write")
    assert await yard.runner.run(turn, yard.bell) == FINISHED
    assert await yard.states() == {"look": "done", "write": "skipped", "tell": "skipped", "go": "skipped", "leave": "done"}
    assert (await yard.result("write"))["error_code"] == "cancelled"
    assert (await yard.result("tell"))["error"] == "it needs write, which was cancelled"
    assert await yard.said() == ["Not written, all well."]
    assert lines(yard.path) == []
    assert await yard.open_wishes() == 0


@pytest.mark.req("R7", "S1")
async def test_a_read_only_step_under_way_is_cancelled_and_the_plan_goes_on(yard: Yard) -> None:
    yard.looking(yard.ignore_stop)
    turn = await yard.turn(Step("look", "look", {}), Step("b", "say", {"text": "Going on."}))
    outcome, took_s = await yard.stop_inside(turn, "look")
    assert outcome == FINISHED
    assert took_s < 1.0
    assert await yard.states() == {"look": "skipped", "b": "done"}


@pytest.mark.req("R7", "T7")
async def test_a_cancelled_effect_that_may_have_happened_is_unknown_never_silently_not_done(yard: Yard) -> None:
    yard.mark.after = yard.hang  # type: ignore[assignment]
    turn = await yard.turn(MARK, AFTER, Step("b", "say", {"text": "Going on."}))
    outcome, _ = await yard.stop_inside(turn, "write")
    assert outcome == FINISHED
    assert await yard.states() == {"write": "unknown", "done": "skipped", "b": "done"}
    assert (await yard.effect())["status"] == "unknown"
    assert await yard.said() == [STOPPED_UNKNOWN, "Going on."]


async def test_cancelling_a_step_that_is_done_changes_nothing(yard: Yard) -> None:
    yard.looking(yard.hang)
    turn = await yard.turn(MARK, Step("look", "look", {}))
    running = asyncio.create_task(yard.runner.run(turn, yard.bell))
    await yard.inside.wait()
    await yard.stop("write")
    yard.release.set()
    assert await running == FINISHED
    assert await yard.states() == {"write": "done", "look": "done"}
    assert await yard.open_wishes() == 0


# steer ----------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R7")
async def test_a_steer_is_let_in_between_two_steps_and_not_within_one(yard: Yard) -> None:
    yard.mark.after = yard.hang  # type: ignore[assignment]
    turn = await yard.turn(MARK, AFTER)
    running = asyncio.create_task(yard.runner.run(turn, yard.bell))
    await yard.inside.wait()
    yard.bell.steered = True
    yard.bell.ring()
    assert not (await asyncio.wait({running}, timeout=0.05))[0]
    yard.release.set()
    assert await running == RunOutcome("steered")
    assert await yard.states() == {"write": "done", "done": "pending"}, "what was under way has ended, and is recorded"
    yard.bell.steered = False
    bench = yard.bench
    await bench.database.transaction(
        lambda tx: actions.append_plan(tx, bench.ids, "tr_1", [Step("done", "say", {"text": "And more."})])
    )
    assert await yard.runner.run(turn, yard.bell) == FINISHED
    assert await yard.said() == ["Written: one.", "And more."]


async def test_a_steer_that_comes_with_the_end_leaves_the_turn_finished(yard: Yard) -> None:
    turn = await yard.turn(MARK)
    yard.mark.after = yard.hang  # type: ignore[assignment]
    running = asyncio.create_task(yard.runner.run(turn, yard.bell))
    await yard.inside.wait()
    yard.bell.steered = True
    yard.release.set()
    assert await running == FINISHED


@pytest.mark.req("R3")
async def test_progress_is_told_with_each_step(yard: Yard) -> None:
    await yard.runner.run(await yard.turn(Step("look", "look", {}), MARK, AFTER))
    assert yard.progress == ["tr_1"] * 3  # looking begun; looked and writing begun; written, said and done


# hold -----------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R10")
@pytest.mark.parametrize("step", [MARK, Step("order", "create_work_order", {"asset": "motor_3", "title": "Check"})])
async def test_on_hold_nothing_is_executed_and_who_holds_and_why_is_said(yard: Yard, step: Step) -> None:
    bench = yard.bench
    await bench.database.transaction(lambda tx: holds.begin(tx, bench.clock, HoldSource.PERSON, by="anna", reason="cleaning"))
    turn = await yard.turn(Step("look", "look", {}), Step("tell", "say", {"text": "It is hot."}), step)
    outcome = await yard.runner.run(turn)
    assert outcome.kind == "failed"
    assert await yard.said() == ["It is hot.", "I am on hold by anna and carry nothing out. The reason: cleaning."]
    assert len(yard.look.calls) == 1, "reading and telling go on"
    assert await bench.rows("SELECT 1 FROM effect UNION ALL SELECT 1 FROM work_order") == []
    assert lines(yard.path) == []


@pytest.mark.req("R10")
@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "I am on hold by the key switch and carry nothing out."), ("zh", "钥匙开关已让我暂停，我不执行任何操作。")],
)
async def test_the_key_switch_is_named_in_the_language_of_the_turn(yard: Yard, language: str, said: str) -> None:
    bench = yard.bench
    await bench.database.transaction(lambda tx: holds.begin(tx, bench.clock, HoldSource.KEY_SWITCH, by="panel", reason=""))
    turn = await open_turn(bench.database, bench.clock, bench.ids, [MARK], language=language)
    outcome = await yard.runner.run(turn)
    assert outcome.failure.startswith("write: on_hold: ")
    assert await yard.said() == [said]


@pytest.mark.req("R10")
async def test_after_the_hold_work_goes_on(yard: Yard) -> None:
    bench = yard.bench
    await bench.database.transaction(lambda tx: holds.begin(tx, bench.clock, HoldSource.KEY_SWITCH, by="", reason=""))
    await bench.database.transaction(lambda tx: holds.end(tx, bench.clock, HoldSource.KEY_SWITCH, of="", by=""))
    assert await yard.runner.run(await yard.turn(MARK)) == FINISHED
