"""The gate every call passes, at the place where calls begin; and plans that are extended while they run."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from appliance.contracts.approval import Decision, Rule, Verdict
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.plan import Step
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.contracts.store import Transaction
from appliance.contracts.tool import SecurityContract, ToolCall, ToolContract
from appliance.execution.runner import Runner, RunOutcome
from appliance.store import actions
from tests.support.effect_file import Look, LookArguments, MarkFile, lines
from tests.support.stopping import AFTER, FINISHED, MARK, STOPPED, Yard, open_yard

ANNA = Principal("anna", Identification.TOKEN, "operator", AccessLevel.OPERATOR, "t1")
GUEST = Principal("guest", Identification.VOICE, "guest", AccessLevel.PUBLIC)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


@pytest.mark.req("X2")
@pytest.mark.field("FC-A03")
def test_no_runner_can_be_built_without_the_gate() -> None:
    for name in ("approvals", "escalator", "spill"):
        parameter = inspect.signature(Runner).parameters[name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is inspect.Parameter.empty


@pytest.mark.req("X2")
@pytest.mark.field("FC-A03")
async def test_every_step_passes_it_in_the_order_of_the_plan_once(yard: Yard) -> None:
    turn = await yard.turn(
        Step("a", "look", {}),
        Step("b", "look", {}),
        MARK,
        AFTER,
        Step("order", "create_work_order", {"asset": "m", "title": "t"}),
    )
    assert await yard.runner.run(turn) == FINISHED
    assert yard.approvals.asked == ["look", "look", "mark", "say", "create_work_order"]
    assert yard.approvals.live == ["mark"], "what holds in the machine is asked for effects, and for nothing else"


@pytest.mark.req("X2")
@pytest.mark.parametrize("step", [MARK, Step("a", "look", {}), Step("a", "create_work_order", {"asset": "m", "title": "t"})])
async def test_what_is_denied_is_not_begun_and_the_reason_is_said(yard: Yard, step: Step) -> None:
    yard.approvals.verdicts[step.tool] = Verdict(Decision.DENY, Rule.DENY, "That is not allowed at night.")
    assert await yard.runner.run(await yard.turn(step)) == RunOutcome(
        "failed", f"{step.id}: refused: That is not allowed at night."
    )
    assert await yard.said() == ["I cannot do that. That is not allowed at night."]
    assert lines(yard.path) == yard.look.calls == await yard.bench.rows("SELECT * FROM effect") == []
    assert await yard.bench.rows("SELECT * FROM work_order") == []
    assert yard.tickets.opened == [], "a refusal is an answer: nobody is called"


@pytest.mark.req("X2")
async def test_what_nobody_was_asked_for_is_not_done(yard: Yard) -> None:
    yard.approvals.verdicts["mark"] = Verdict(Decision.ASK, Rule.ASK)
    outcome = await yard.runner.run(await yard.turn(MARK))
    assert outcome.failure == "write: needs_yes: mark needs a person's yes, and nobody was asked"
    assert await yard.said() == ["That needs a person's yes first. Ask me for it yourself, and I will ask back before I do it."]
    assert lines(yard.path) == []


@pytest.mark.req("T3")
async def test_a_tool_that_may_not_be_known_is_refused_in_the_words_for_one_that_is_not_there(yard: Yard) -> None:
    yard.approvals.verdicts["mark"] = Verdict(Decision.DENY, Rule.HARD_FLOOR, "above your level", is_hidden=True)
    hidden, unknown = Step("a", "mark", {"line": "x"}, optional=True), Step("b", "fly", {}, optional=True)
    assert await yard.runner.run(await yard.turn(hidden, unknown)) == FINISHED
    told = [await yard.result("a"), await yard.result("b")]
    assert [{**each, "error": each["error"].replace("mark", "X").replace("fly", "X")} for each in told] == [
        {"effect_disposition": "none", "error_code": "tool_validation", "error": "there is no tool X"}
    ] * 2


@pytest.mark.req("T3")
async def test_nor_do_its_wrong_arguments_tell_that_it_is_there(yard: Yard) -> None:
    turn = await yard.turn(Step("a", "mark", {"lime": "x"}), **{PRINCIPAL: GUEST.to_json()})
    assert (await yard.runner.run(turn)).failure == "a: tool_validation: there is no tool mark"


@pytest.mark.req("T3")
async def test_a_call_tells_who_asked(yard: Yard) -> None:
    await yard.runner.run(await yard.turn(Step("a", "look", {}), **{PRINCIPAL: ANNA.to_json()}))
    assert yard.look.calls[0].principal == ANNA


# what has to hold in the machine -------------------------------------------------------------------------------------
@pytest.mark.req("X5")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Refused("The valve is open."), "I cannot do that. The valve is open."),
        (Unavailable("the field cannot be asked"), "That cannot be done now. The field cannot be asked."),
    ],
)
async def test_what_does_not_hold_now_keeps_an_effect_from_happening(yard: Yard, error: Exception, said: str) -> None:
    yard.approvals.not_live = error
    assert (await yard.runner.run(await yard.turn(MARK))).kind == "failed"
    effect = await yard.effect()
    assert (effect["status"], effect["was_unknown"]) == ("none", 0), "it is known that nothing was sent"
    assert lines(yard.path) == [] and await yard.said() == [said]


@pytest.mark.req("X5", "R7")
async def test_a_stop_while_it_is_looked_at_leaves_nothing_unknown(yard: Yard) -> None:
    async def hang(call: ToolCall, tool: Any, arguments: Any) -> None:
        await yard.ignore_stop()

    yard.approvals.require_live = hang  # type: ignore[method-assign]
    outcome, took_s = await yard.stop_inside(await yard.turn(MARK))
    assert outcome == STOPPED and took_s < 1.0
    assert (await yard.effect())["status"] == "none"
    yard.release.set()
    for _ in range(5):
        await yard.bench.rows("SELECT 1")
    assert lines(yard.path) == [], "nor is it called when the look has ended after all"


@pytest.mark.req("X5", "T7")
async def test_a_look_that_takes_too_long_is_no_unknown_effect(yard: Yard) -> None:
    async def hang(call: ToolCall, tool: Any, arguments: Any) -> None:
        await yard.hang()

    yard.approvals.require_live = hang  # type: ignore[method-assign]
    yard.mark.contract = replace(MarkFile.contract, sla=replace(MarkFile.contract.sla, max_execution_time_ms=20))  # type: ignore[misc]
    outcome = await yard.runner.run(await yard.turn(MARK))
    assert outcome.failure == "write: unavailable: what has to be known before mark could not be read in time"
    assert (await yard.effect())["status"] == "none" and lines(yard.path) == []


# plans that are extended ---------------------------------------------------------------------------------------------
class Extend:
    """Appends a step to its own turn."""

    contract: ClassVar[ToolContract] = replace(
        Look.contract, name="extend", extends_plan=True, security=SecurityContract(AccessLevel.PUBLIC, "ledger")
    )

    def __init__(self, yard: Yard) -> None:
        self._yard = yard

    def apply(self, tx: Transaction, call: ToolCall, arguments: LookArguments) -> Mapping[str, Any]:
        actions.append_plan(tx, self._yard.bench.ids, call.turn_id, [Step("more", "say", {"text": "And more."})])
        return {"seen": "one step"}


async def test_steps_a_tool_appends_to_its_own_turn_are_run(yard: Yard) -> None:
    yard.more.append(Extend(yard))
    turn = await yard.turn(Step("a", "extend", {}), Step("b", "say", {"text": "First."}))
    assert await yard.runner.run(turn) == FINISHED
    assert await yard.said() == ["First.", "And more."]
    assert await yard.states() == {"a": "done", "b": "done", "more": "done"}
