"""Plans run step by step on a real ledger; what is read, said, asked and failed is on disk as it should be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from appliance.contracts.admission import PRIORITY_UTTERANCE
from appliance.contracts.delivery import PRIORITY_ANSWER, PRIORITY_FLOOD_TOLD
from appliance.contracts.effect import ConfirmationStatus
from appliance.contracts.errors import Malformed, OwnedElsewhere, Refused, Unavailable
from appliance.contracts.plan import Step
from appliance.contracts.turn import Turn
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.say import Say
from appliance.store import actions, confirmations, owners
from tests.support.effect_file import Look
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import runner_ports

FINISHED = RunOutcome("finished")


class Table:
    """A bench with a runner on it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.told = 0

    def runner(self, *tools: AnyTool) -> Runner:
        bench = self.bench
        box = Toolbox([Say(bench.clock, bench.ids), Ask(bench.clock, bench.ids, phrasing()), *tools])

        def delivered() -> None:
            self.told += 1

        return Runner(
            bench.database, box, bench.clock, bench.ids, bench.epoch, phrasing(),
            delivered=delivered, settle_waits=lambda: [0.0, 0.0], retry_waits=lambda: iter([0.0] * 9),
            **runner_ports(bench.database.path.parent, bench.clock),
        )  # fmt: skip

    async def turn(self, *steps: Step, **how: Any) -> Turn:
        return await open_turn(self.bench.database, self.bench.clock, self.bench.ids, steps, **how)

    async def states(self) -> dict[str, str]:
        return {row["step_id"]: row["state"] for row in await self.bench.rows("SELECT * FROM action ORDER BY position")}

    async def result(self, step_id: str) -> dict[str, Any]:
        found = await self.bench.database.transaction(lambda tx: actions.of_turn(tx, "tr_1"))
        return dict(next(a.result or {} for a in found if a.step_id == step_id))

    async def said(self) -> Sequence[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[Table]:
    async with open_bench(tmp_path) as bench:
        yield Table(bench)


@pytest.mark.req("T6")
async def test_steps_run_in_order_and_later_ones_see_earlier_results(table: Table) -> None:
    look = Look({"seen": "94.2"})
    turn = await table.turn(
        Step("a", "look", {"at": "{slots.where}"}),
        Step("b", "say", {"text": "At {slots.where}: {steps.a.seen}, {alarm.quantity}."}),
        context={"slots": {"where": "motor_3"}, "alarm": {"quantity": {"value": 94.2, "unit": "degC", "decimals": 0}}},
    )
    assert await table.runner(look).run(turn) == FINISHED
    assert await table.said() == ["At motor 3: 94.2, 94 degrees Celsius."]
    assert await table.result("a") == {"seen": "94.2", "effect_disposition": "none"}
    (call,) = look.calls
    assert call.arguments == {"at": "motor_3"}  # a whole placeholder keeps its value: only text is worded
    assert call.idempotency_key == (await table.bench.one("SELECT id FROM action WHERE step_id = 'a'"))["id"]
    assert call.context["turn"] == {"id": "tr_1", "language": "en", "opened_utc": table.bench.clock.utc().isoformat()}
    assert table.told == 1


@pytest.mark.parametrize(
    ("context", "priority"),
    [
        ({"by": "voice", "slots": {}}, PRIORITY_ANSWER),
        ({"alarm": {}, "answers": [{"intent": "confirm"}]}, PRIORITY_ANSWER),
        ({"flood": {}}, PRIORITY_FLOOD_TOLD),
        ({"alarm": {"priority": "critical"}}, 12),
        ({"alarm": {"priority": "low"}}, 9),
        ({"alarm": {"priority": "critical", "change": "cleared"}}, 9),
        ({"by": "console", "slots": {}}, PRIORITY_UTTERANCE),
    ],
)
async def test_who_has_just_spoken_is_answered_next_then_floods_and_alarms_are_told(
    table: Table, context: dict[str, Any], priority: int
) -> None:
    turn = await table.turn(Step("a", "say", {"text": "Hot.", "lead": "Alarm."}), context=context)
    await table.runner().run(turn)
    row = await table.bench.one("SELECT * FROM delivery")
    assert (row["priority"], row["lead"], row["text"], row["turn_id"]) == (priority, "Alarm.", "Hot.", "tr_1")


async def test_running_again_does_nothing_again(table: Table) -> None:
    look = Look()
    turn = await table.turn(Step("a", "look", {}), Step("b", "say", {"text": "Done."}))
    for _ in range(2):
        assert await table.runner(look).run(turn) == FINISHED
    assert len(look.calls) == 1
    assert await table.said() == ["Done."]


@pytest.mark.req("R6")
async def test_a_read_only_step_left_started_is_run_again(table: Table) -> None:
    look = Look()
    turn = await table.turn(Step("a", "look", {}))
    await table.bench.database.transaction(lambda tx: tx.execute("UPDATE action SET state = 'started'"))
    assert await table.runner(look).run(turn) == FINISHED
    assert len(look.calls) == 1


@pytest.mark.req("S7")
@pytest.mark.parametrize(("yes", "said"), [(True, "Going on."), (False, "Leaving it.")])
async def test_a_question_waits_for_its_answer(table: Table, yes: bool, said: str) -> None:
    runner = table.runner()
    turn = await table.turn(
        Step("confirm", "ask", {"question": "Shall I?", "requires_keyword": True}),
        Step("go", "say", {"text": "Going on."}, when="confirm"),
        Step("leave", "say", {"text": "Leaving it."}, when="not confirm"),
    )
    for _ in range(2):  # coming back without an answer asks nothing again
        assert await runner.run(turn) == RunOutcome("waiting")
        assert await table.said() == ["Shall I?"]
    (question,) = await table.bench.database.transaction(confirmations.pending)
    assert question.delivery_id == (await table.bench.one("SELECT id FROM delivery"))["id"]
    await table.bench.database.transaction(
        lambda tx: confirmations.answer(tx, table.bench.clock, question.id, yes, turn.admission_id)
    )
    assert await runner.run(turn) == FINISHED
    assert (await table.said())[1:] == [said]
    assert (await table.result("confirm"))["confirmed"] is yes
    assert sorted((await table.states()).values()) == ["done", "done", "skipped"]


@pytest.mark.req("S7")
async def test_silence_is_not_consent(table: Table) -> None:
    runner = table.runner()
    turn = await table.turn(
        Step("confirm", "ask", {"question": "Shall I?"}), Step("go", "say", {"text": "Going on."}, when="confirm")
    )
    await runner.run(turn)
    (question,) = await table.bench.database.transaction(confirmations.pending)
    closed = await table.bench.database.transaction(lambda tx: confirmations.abandon(tx, table.bench.clock, question.id))
    assert closed.status is ConfirmationStatus.ABANDONED
    assert (await runner.run(turn)).kind == "failed"
    assert await table.said() == ["Shall I?"]


@pytest.mark.req("T9")
async def test_a_mandatory_failure_is_said_and_ends_the_turn(table: Table) -> None:
    turn = await table.turn(Step("a", "look", {}), Step("b", "say", {"text": "Never."}))
    outcome = await table.runner(Look(Refused("the guard is open"))).run(turn)
    assert outcome == RunOutcome("failed", "a: refused: the guard is open")
    assert await table.said() == ["I cannot do that. The guard is open."]
    assert await table.states() == {"a": "failed", "b": "pending"}
    assert await table.runner(Look()).run(turn) == outcome  # found failed after a restart: said once, not tried again
    assert len(await table.said()) == 1


async def test_an_optional_failure_does_not_stop_the_turn(table: Table) -> None:
    turn = await table.turn(
        Step("a", "look", {}, optional=True),
        Step("b", "say", {"text": "Seen {steps.a.seen}."}, when="a"),
        Step("c", "say", {"text": "Not seen: {steps.a.error}."}, when="not a"),
    )
    assert await table.runner(Look(Refused("the guard is open"))).run(turn) == FINISHED
    assert await table.said() == ["Not seen: the guard is open."]


async def test_a_read_only_call_is_tried_again_while_the_other_side_is_away(table: Table) -> None:
    look = Look(Unavailable("away"), Unavailable("away"), {"seen": "x"})
    assert await table.runner(look).run(await table.turn(Step("a", "look", {}))) == FINISHED
    assert len(look.calls) == 3


async def test_tries_end_with_the_contract(table: Table) -> None:
    look = Look(Unavailable("away"))
    outcome = await table.runner(look).run(await table.turn(Step("a", "look", {})))
    assert outcome.failure == "a: unavailable: away"
    assert len(look.calls) == 3
    assert await table.said() == ["That cannot be done now. Away."]


async def test_a_call_past_its_bound_is_stopped_and_told(table: Table) -> None:
    look = Look(asyncio.Event().wait())
    assert (await table.runner(look).run(await table.turn(Step("a", "look", {})))).failure == "a: timeout: look took too long"
    assert await table.said() == ["That took too long and was stopped."]


@pytest.mark.req("T9")
async def test_errors_are_made_fit_to_be_kept_and_said(table: Table) -> None:
    look = Look(Refused("line one\n\x00\x1b[31mline two " + "x" * 9_000))
    await table.runner(look).run(await table.turn(Step("a", "look", {}, optional=True)))
    error = (await table.result("a"))["error"]
    assert error.startswith("line one [31mline two xxx")
    assert len(error) == 2_048


@pytest.mark.req("T9")
async def test_a_result_beyond_its_bound_is_kept_as_a_preview_that_says_so(table: Table) -> None:
    await table.runner(Look({"seen": "x" * 100_001})).run(await table.turn(Step("a", "look", {})))
    result = await table.result("a")
    assert result["truncated"] is True
    assert len(result["preview"]) == 1_500


@pytest.mark.req("T9")
@pytest.mark.parametrize(
    ("step", "failure"),
    [
        (Step("a", "fly", {}), "there is no tool fly"),
        (Step("a", "look", {"att": "x"}), "look: att: Extra inputs are not permitted"),
        (Step("a", "look", {"at": 7}), "look: at: Input should be a valid string"),
        (Step("a", "look", {"at": "{alarm.vallue}"}), "{alarm.vallue} is not known: there is no alarm"),
        (Step("a", "look", {}, when="nobody"), "condition 'nobody' names no earlier step"),
    ],
)
async def test_a_mistake_in_the_plan_is_named_and_nothing_runs(table: Table, step: Step, failure: str) -> None:
    what = "It has a step I cannot do." if step.tool == "fly" else "The step that did not fit: look."
    look = Look()
    outcome = await table.runner(look).run(await table.turn(step))
    assert outcome.kind == "failed"
    assert failure in outcome.failure
    assert look.calls == []
    assert await table.said() == [f"Something in my plan was wrong, so I stopped. {what}"]


async def test_a_result_that_breaks_the_contract_is_a_failure(table: Table) -> None:
    outcome = await table.runner(Look({"saw": 1})).run(await table.turn(Step("a", "look", {})))
    assert "broken_result" in outcome.failure
    assert await table.said() == ["What came back made no sense, so I stopped."]


@pytest.mark.req("T9")
async def test_a_result_json_has_no_word_for_is_a_failure_and_no_crash(table: Table) -> None:
    class Loose(BaseModel):
        model_config = ConfigDict(extra="forbid")
        seen: float

    look = Look({"seen": float("nan")})
    look.contract = replace(Look.contract, schema=replace(Look.contract.schema, result=Loose))  # type: ignore[misc]
    outcome = await table.runner(look).run(await table.turn(Step("a", "look", {})))
    assert outcome.failure.startswith("a: broken_result: look: result: is no JSON")


async def test_a_sentence_that_cannot_be_queued_leaves_no_row(table: Table) -> None:
    outcome = await table.runner().run(await table.turn(Step("a", "say", {"text": " "})))
    assert outcome.kind == "failed"
    assert "a delivery needs words" in outcome.failure


@pytest.mark.req("R2")
async def test_a_process_that_lost_the_ledger_writes_nothing(table: Table) -> None:
    runner = table.runner()
    turn = await table.turn(Step("a", "say", {"text": "Mine."}))
    table.bench.database.own(table.bench.epoch)
    await table.bench.database.transaction(lambda tx: owners.take_ownership(tx, table.bench.clock, instance="newer"))
    with pytest.raises(OwnedElsewhere):
        await runner.run(turn)
    assert await table.said() == []
    assert await table.states() == {"a": "pending"}


async def test_words_follow_the_language_of_the_turn(table: Table) -> None:
    steps = Step("a", "say", {"text": "现在{alarm.now}。"}), Step("b", "look", {})
    turn = await table.turn(*steps, language="zh", context={"alarm": {"now": {"value": 94, "unit": "degC"}}})
    await table.runner(Look(Malformed("x"))).run(turn)
    assert await table.said() == ["现在94摄氏度。", "我的计划有误，已停止。有问题的步骤：look。"]


@pytest.mark.req("T1")
async def test_each_call_logs_start_end_and_a_digest_but_no_argument(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    turn = await table.turn(Step("a", "look", {"at": "the safe"}), Step("b", "say", {"text": "the secret word"}))
    await table.runner(Look()).run(turn)
    events = {record.getMessage(): record for record in caplog.records}
    assert {"look.started", "look.done", "say.started", "say.queued"} <= events.keys()
    assert vars(events["look.done"])["duration_ms"] >= 0
    assert len(vars(events["look.done"])["input_digest"]) == 64
    assert not any("safe" in str(vars(record)) or "secret" in str(vars(record)) for record in caplog.records)


@pytest.mark.req("T1")
async def test_a_failed_call_logs_its_code(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    await table.runner(Look(Refused("no"))).run(await table.turn(Step("a", "look", {})))
    (failed,) = [record for record in caplog.records if record.getMessage() == "look.failed"]
    assert vars(failed)["error_code"] == "refused"
