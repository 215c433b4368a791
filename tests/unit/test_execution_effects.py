"""Effects: intent on disk before the call, outcome after it, never twice, and an unknown one is said, checked and settled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Corrupt, Refused, Unavailable, Uncertain
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Step
from appliance.contracts.tool import SlaContract, ToolCall
from appliance.contracts.turn import Turn
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.settling import PATIENCE_S, verify_waits
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.say import Say
from appliance.store import effects
from tests.support.effect_file import MarkFile, lines
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import runner_ports

FINISHED = RunOutcome("finished")
STEPS = (Step("w", "mark", {"line": "one"}), Step("b", "say", {"text": "Written: {steps.w.line}."}))
UNKNOWN = "I was interrupted while the mark. I do not know yet whether it happened. I am checking."
APPLIED = "I checked. It was done: the mark."
NOT_APPLIED = "I checked. It was not done: the mark. I will not repeat it by myself."
STILL_UNKNOWN = "I still do not know whether it was done: the mark. Please check at the machine and settle it."


class Yard:
    """A bench, a file to mark, and runners of as many processes as a test needs."""

    def __init__(self, bench: Bench, path: Path) -> None:
        self.bench = bench
        self.path = path
        self.mark = MarkFile(path)

    def runner(self, waits: Sequence[float] = (0.0, 0.0), epoch: int | None = None) -> Runner:
        bench = self.bench
        box = Toolbox([Say(bench.clock, bench.ids), self.mark])
        return Runner(
            bench.database, box, bench.clock, bench.ids, bench.epoch if epoch is None else epoch, phrasing(),
            settle_waits=lambda: waits, **runner_ports(self.path.parent, bench.clock),
        )  # fmt: skip

    async def turn(self, *steps: Step) -> Turn:
        return await open_turn(self.bench.database, self.bench.clock, self.bench.ids, steps or STEPS)

    async def effect(self) -> dict[str, Any]:
        return await self.bench.one("SELECT * FROM effect")

    async def states(self) -> list[str]:
        return [row["state"] for row in await self.bench.rows("SELECT state FROM action ORDER BY position")]

    async def said(self) -> list[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]

    async def die_in_call(self, turn: Turn) -> None:
        """Leave the rows a process leaves that is killed inside the call: nothing of the outcome is written."""
        action = (await self.bench.rows("SELECT id FROM action WHERE tool = 'mark'"))[0]["id"]

        def intended(tx: Any) -> None:
            effects.intend(
                tx, self.bench.clock, action_id=action, turn_id=turn.id, tool="mark",
                arguments={"line": "one", "what": "the mark"}, epoch=self.bench.epoch,
            )  # fmt: skip
            tx.execute("UPDATE action SET state = 'started' WHERE id = ?", (action,))

        await self.bench.database.transaction(intended)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_bench(tmp_path) as bench:
        yield Yard(bench, tmp_path / "effects.txt")


@pytest.mark.req("T6", "T7")
async def test_the_intent_is_on_disk_before_the_call_with_exactly_what_is_sent(yard: Yard) -> None:
    found: list[dict[str, Any]] = []

    async def look(call: ToolCall) -> None:
        found.append(await yard.effect())
        assert await yard.states() == ["started", "pending"]

    yard.mark.before = look
    assert await yard.runner().run(await yard.turn()) == FINISHED
    assert found[0]["status"] == "intended"
    assert json.loads(found[0]["arguments"]) == {"line": "one", "what": "the mark"}
    effect = await yard.effect()
    assert (effect["status"], effect["settled_by"], effect["was_unknown"]) == ("applied", "reply", 0)
    assert json.loads(effect["result"]) == {"line": "one"}
    assert lines(yard.path) == ["one"]
    assert await yard.said() == ["Written: one."]


@pytest.mark.req("T7")
async def test_a_done_effect_is_never_run_again(yard: Yard) -> None:
    turn = await yard.turn()
    for _ in range(3):
        assert await yard.runner().run(turn) == FINISHED
    assert lines(yard.path) == ["one"]


@pytest.mark.parametrize("error", [Refused("the guard is open"), Unavailable("the link is down")])
async def test_a_call_that_says_nothing_was_changed_has_no_effect(yard: Yard, error: Exception) -> None:
    async def refuse(call: ToolCall) -> None:
        raise error

    yard.mark.before = refuse
    outcome = await yard.runner().run(await yard.turn())
    assert outcome.kind == "failed"
    assert ((await yard.effect())["status"], (await yard.effect())["was_unknown"]) == ("none", 0)
    assert await yard.states() == ["failed", "pending"]
    assert len(await yard.said()) == 1
    assert lines(yard.path) == []


@pytest.mark.req("T7", "F4")
@pytest.mark.parametrize("error", [Uncertain("no answer came"), Corrupt("half an answer came")])
async def test_an_unsure_call_is_said_unknown_checked_and_settled_in_the_same_process(yard: Yard, error: Exception) -> None:
    async def lose(call: ToolCall) -> None:
        raise error

    yard.mark.after = lose
    assert await yard.runner().run(await yard.turn()) == FINISHED
    effect = await yard.effect()
    assert (effect["status"], effect["settled_by"], effect["was_unknown"]) == ("applied", "verify", 1)
    assert await yard.said() == [UNKNOWN, APPLIED, "Written: one."]
    assert lines(yard.path) == ["one"]
    kinds = [k for k in await yard.bench.kinds(OperationLane.P1) if k.startswith("effect.")]
    assert kinds == ["effect.intended", "effect.unknown", "effect.applied"]


@pytest.mark.req("T7")
async def test_a_call_past_its_bound_may_have_happened(yard: Yard) -> None:
    async def hang(call: ToolCall) -> None:
        await asyncio.Event().wait()

    yard.mark.after = hang
    yard.mark.contract = replace(MarkFile.contract, sla=SlaContract(50))  # type: ignore[misc]  # a bound a test can wait for
    assert await yard.runner().run(await yard.turn()) == FINISHED
    assert (await yard.effect())["was_unknown"] == 1
    assert await yard.said() == [UNKNOWN, APPLIED, "Written: one."]


@pytest.mark.req("T7")
async def test_what_was_found_not_done_is_not_sent_again(yard: Yard) -> None:
    async def lose(call: ToolCall) -> None:
        raise Uncertain("no answer came")

    yard.mark.before = lose
    turn = await yard.turn()
    for _ in range(2):
        outcome = await yard.runner().run(turn)
        assert outcome == RunOutcome("failed", "w: not_applied: checking found that it did not happen")
    assert ((await yard.effect())["status"], (await yard.effect())["settled_by"]) == ("none", "verify")
    assert await yard.said() == [UNKNOWN, NOT_APPLIED]
    assert lines(yard.path) == []


@pytest.mark.req("R6", "T7")
@pytest.mark.parametrize("orphaned_first", [False, True])
@pytest.mark.parametrize("happened", [False, True])
async def test_an_effect_a_dead_process_left_is_checked_never_repeated(yard: Yard, orphaned_first: bool, happened: bool) -> None:
    turn = await yard.turn()
    await yard.die_in_call(turn)
    if happened:
        yard.path.write_text("one\n")
    if orphaned_first:
        found = await yard.bench.database.transaction(lambda tx: effects.orphan(tx, yard.bench.clock, yard.bench.epoch + 1))
        assert len(found) == 1
    for _ in range(2):
        assert (await yard.runner().run(turn)).kind == ("finished" if happened else "failed")
    effect = await yard.effect()
    assert (effect["status"], effect["was_unknown"], effect["settled_by"]) == ("applied" if happened else "none", 1, "verify")
    assert await yard.said() == ([UNKNOWN, APPLIED, "Written: one."] if happened else [UNKNOWN, NOT_APPLIED])
    assert lines(yard.path) == (["one"] if happened else [])


async def test_evidence_that_cannot_be_had_yet_is_waited_for(yard: Yard) -> None:
    turn = await yard.turn()
    await yard.die_in_call(turn)
    yard.path.write_text("one\n")
    yard.mark.unreadable_times = 2
    assert await yard.runner(waits=[0.0, 0.0]).run(turn) == FINISHED


@pytest.mark.req("T7")
async def test_without_evidence_it_stays_unknown_and_is_said_once(yard: Yard) -> None:
    turn = await yard.turn()
    await yard.die_in_call(turn)
    yard.mark.unreadable_times = 99
    for _ in range(3):
        outcome = await yard.runner(waits=[0.0]).run(turn)
        assert outcome == RunOutcome("failed", "w: unavailable: the file cannot be read now")
    assert (await yard.effect())["status"] == "unknown"
    assert await yard.states() == ["unknown", "pending"]
    assert await yard.said() == [UNKNOWN, STILL_UNKNOWN]


async def test_an_optional_effect_that_stays_unknown_does_not_stop_the_turn(yard: Yard) -> None:
    turn = await yard.turn(replace(STEPS[0], optional=True), Step("b", "say", {"text": "Going on."}))
    await yard.die_in_call(turn)
    yard.mark.unreadable_times = 99
    assert await yard.runner(waits=[]).run(turn) == FINISHED
    assert await yard.said() == [UNKNOWN, STILL_UNKNOWN, "Going on."]


def test_patience_is_about_a_minute() -> None:
    waits = list(verify_waits())
    assert 40 < sum(waits) <= PATIENCE_S
    assert len(waits) < 20


@pytest.mark.req("R7", "T7")
async def test_cancelling_inside_a_call_records_the_unknown_and_passes_on(yard: Yard) -> None:
    inside = asyncio.Event()

    async def hang(call: ToolCall) -> None:
        inside.set()
        await asyncio.Event().wait()

    yard.mark.after = hang
    turn = await yard.turn()
    running = asyncio.create_task(yard.runner().run(turn))
    await inside.wait()
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()  # a second stop does not cut the record short
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await yard.effect())["status"] == "unknown"
    assert (await yard.states())[0] == "unknown"
    assert await yard.said() == [UNKNOWN]
    assert await yard.runner().run(turn) == FINISHED
    assert await yard.said() == [UNKNOWN, APPLIED, "Written: one."]
    assert lines(yard.path) == ["one"]


async def test_a_fault_in_the_tool_is_an_unknown_too_and_is_not_hidden(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    async def break_down(call: ToolCall) -> None:
        raise KeyError("a mistake in the tool")

    yard.mark.after = break_down
    assert await yard.runner().run(await yard.turn()) == FINISHED
    assert "fault" in caplog.messages
    assert await yard.said() == [UNKNOWN, APPLIED, "Written: one."], "it was looked what became of it"
    assert lines(yard.path) == ["one"]


async def test_a_result_that_breaks_the_contract_does_not_undo_the_effect(yard: Yard) -> None:
    real = yard.mark.run

    async def run(call: ToolCall, arguments: Any) -> dict[str, Any]:
        await real(call, arguments)
        return {"lime": "one"}

    yard.mark.run = run  # type: ignore[method-assign]
    turn = await yard.turn()
    for _ in range(2):
        assert "broken_result" in (await yard.runner().run(turn)).failure
    assert (await yard.effect())["status"] == "applied"
    assert lines(yard.path) == ["one"]


@pytest.mark.parametrize(("verdict", "status", "state"), [("done", "applied", "done"), ("not-done", "none", "failed")])
async def test_a_person_settles_what_nothing_else_could(yard: Yard, verdict: Any, status: str, state: str) -> None:
    turn = await yard.turn()
    await yard.die_in_call(turn)
    yard.mark.unreadable_times = 99
    runner = yard.runner(waits=[])
    await runner.run(turn)
    action_id = (await yard.effect())["action_id"]
    with pytest.raises(Refused, match="with a note of how you know") as unnoted:
        await runner.settle_effect(action_id, verdict, " ", "anna")
    assert "--note" in unnoted.value.facts["cure"]
    settled = await runner.settle_effect(action_id, verdict, "looked at the gauge", "anna")
    assert (settled.status, settled.settled_by, settled.note) == (status, "anna", "looked at the gauge")
    assert (await yard.states())[0] == state
    with pytest.raises(Refused, match=f"is settled already, as {verdict.replace('-', ' ')} by anna: looked at the") as refused:
        await runner.settle_effect(action_id, verdict, "again", "bert")
    assert "unknowns list" in refused.value.facts["cure"]
    assert (await yard.effect())["note"] == "looked at the gauge"


async def test_only_an_unknown_effect_can_be_settled(yard: Yard) -> None:
    await yard.runner().run(await yard.turn())
    for action_id in ((await yard.effect())["action_id"], "ac_none"):
        with pytest.raises(Refused, match=r"never unknown|no effect at all"):
            await yard.runner().settle_effect(action_id, "done", "seen", "anna")
    with pytest.raises(Refused, match="done or not-done"):
        await yard.runner().settle_effect("ac_none", "perhaps", "", "anna")  # type: ignore[arg-type]


async def test_a_persons_word_stands_against_evidence_that_comes_later(yard: Yard) -> None:
    turn = await yard.turn()
    await yard.die_in_call(turn)
    asked = asyncio.Event()
    answer = asyncio.Event()

    class Slow(MarkFile):
        async def verify(self, call: ToolCall, arguments: Any) -> Any:
            asked.set()
            await answer.wait()
            return await super().verify(call, arguments)

    yard.mark = Slow(yard.path)
    runner = yard.runner()
    running = asyncio.create_task(runner.run(turn))
    await asked.wait()
    await runner.settle_effect((await yard.effect())["action_id"], "done", "seen", "anna")
    answer.set()
    assert (await running).kind == "failed"  # the person knew no line to say, so the next step has nothing to say
    assert ((await yard.effect())["status"], (await yard.effect())["settled_by"]) == ("applied", "anna")


async def test_a_tool_that_is_gone_leaves_the_effect_to_a_person(yard: Yard) -> None:
    turn = await yard.turn()
    await yard.die_in_call(turn)
    bench = yard.bench
    box = Toolbox([Say(bench.clock, bench.ids)])
    ports = runner_ports(yard.path.parent, bench.clock)
    runner = Runner(bench.database, box, bench.clock, bench.ids, bench.epoch, phrasing(), **ports, settle_waits=list)
    assert "there is no tool mark" in (await runner.run(turn)).failure
    assert (await yard.effect())["status"] == "unknown"
