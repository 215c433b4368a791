"""Actions, effects and questions as rows: at most one effect an action, unknown settled once, every question addressable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.effect import Confirmation, ConfirmationStatus, EffectStatus
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Action, ActionState, Step
from appliance.store import actions, confirmations, effects, owners
from tests.support.ledger import Bench, given_admission, given_turn, open_bench

STEPS = (
    Step("write", "write_tag", {"tag": "motor_3.fan", "value": 100}),
    Step("confirm", "ask", {"question": "shall I?"}, optional=True),
    Step("order", "create_work_order", {"title": "{alarm.text}"}, when="confirm"),
)
FINAL = [ActionState.DONE, ActionState.SKIPPED, ActionState.FAILED]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def given_actions(bench: Bench, key: str = "u1", lane: str = "speaker:floor") -> list[Action]:
    turn = await given_turn(bench, key, STEPS, lane=lane)
    return await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))


async def intend(bench: Bench, action: Action) -> None:
    await bench.database.transaction(
        lambda tx: effects.intend(
            tx,
            bench.clock,
            action_id=action.id,
            turn_id=action.turn_id,
            tool=action.tool,
            arguments=action.arguments,
            epoch=bench.epoch,
        )
    )


async def conclude(bench: Bench, action: Action, status: EffectStatus, by: str = "reply") -> None:
    await bench.database.transaction(
        lambda tx: effects.conclude(tx, bench.clock, action.id, status, settled_by=by, result={"read_back": 100}, note="seen")
    )


@pytest.mark.req("S1")
async def test_a_plan_is_stored_as_it_was_made(bench: Bench) -> None:
    stored = await given_actions(bench)
    assert [Step(a.step_id, a.tool, a.arguments, a.when, a.optional) for a in stored] == list(STEPS)
    assert [a.position for a in stored] == [0, 1, 2]
    assert {a.state for a in stored} == {ActionState.PENDING}
    assert len({a.id for a in stored}) == 3


@pytest.mark.req("R2")
@pytest.mark.parametrize("final", FINAL)
@pytest.mark.parametrize("state", list(ActionState))
async def test_what_has_ended_stays_so(bench: Bench, final: ActionState, state: ActionState) -> None:
    write, *_ = await given_actions(bench)
    await bench.database.transaction(lambda tx: actions.change(tx, write.id, ActionState.STARTED, {"part": 1}))
    await bench.database.transaction(lambda tx: actions.change(tx, write.id, final))
    with pytest.raises(Refused):
        await bench.database.transaction(lambda tx: actions.change(tx, write.id, state))
    row = await bench.one("SELECT state, result FROM action WHERE id = ?", write.id)
    assert row == {"state": final, "result": '{"part":1}'}


async def test_an_unknown_action_is_refused(bench: Bench) -> None:
    with pytest.raises(Refused, match="ac_x"):
        await bench.database.transaction(lambda tx: actions.change(tx, "ac_x", ActionState.DONE))


@pytest.mark.req("T6", "R1")
async def test_an_effect_is_intended_then_concluded(bench: Bench) -> None:
    write, *_ = await given_actions(bench)
    await intend(bench, write)
    intended = await bench.database.transaction(lambda tx: effects.of_action(tx, write.id))
    assert intended is not None
    assert (intended.status, intended.settled_by, intended.ended_utc) == (EffectStatus.INTENDED, None, None)
    await conclude(bench, write, EffectStatus.APPLIED)
    applied = await bench.database.transaction(lambda tx: effects.of_action(tx, write.id))
    assert applied is not None
    assert (applied.status, applied.settled_by, applied.note, applied.was_unknown) == (
        EffectStatus.APPLIED,
        "reply",
        "seen",
        False,
    )
    assert applied.result == {"read_back": 100}
    assert applied.ended_utc == bench.clock.utc()
    assert (await bench.kinds(OperationLane.P1))[-2:] == ["effect.intended", "effect.applied"]


@pytest.mark.req("R2")
async def test_an_action_never_gets_a_second_effect(bench: Bench) -> None:
    write, *_ = await given_actions(bench)
    await intend(bench, write)
    with pytest.raises(Refused):
        await intend(bench, write)
    await conclude(bench, write, EffectStatus.NONE)
    with pytest.raises(Refused):
        await intend(bench, write)
    assert len(await bench.rows("SELECT 1 FROM effect")) == 1


_PATHS = {
    EffectStatus.INTENDED: [],
    EffectStatus.APPLIED: [EffectStatus.APPLIED],
    EffectStatus.NONE: [EffectStatus.NONE],
    EffectStatus.UNKNOWN: [EffectStatus.UNKNOWN],
}
_ALLOWED = {
    EffectStatus.INTENDED: {EffectStatus.APPLIED, EffectStatus.NONE, EffectStatus.UNKNOWN},
    EffectStatus.UNKNOWN: {EffectStatus.APPLIED, EffectStatus.NONE},
}


@pytest.mark.req("T7")
@pytest.mark.parametrize("before", list(EffectStatus))
@pytest.mark.parametrize("after", list(EffectStatus))
async def test_every_step_between_effect_states(bench: Bench, before: EffectStatus, after: EffectStatus) -> None:
    write, *_ = await given_actions(bench)
    await intend(bench, write)
    for status in _PATHS[before]:
        await conclude(bench, write, status)
    logged = len(await bench.kinds(OperationLane.P1))
    if after in _ALLOWED.get(before, set()):
        await conclude(bench, write, after, by="maria")
        effect = await bench.database.transaction(lambda tx: effects.of_action(tx, write.id))
        assert effect is not None and effect.status is after
        assert effect.was_unknown is (EffectStatus.UNKNOWN in (before, after))
        assert effect.settled_by == (None if after is EffectStatus.UNKNOWN else "maria")
        assert (await bench.kinds(OperationLane.P1))[logged:] == [f"effect.{after}"]
    else:
        with pytest.raises(Refused):
            await conclude(bench, write, after)
        assert (await bench.one("SELECT status FROM effect"))["status"] == before
        assert len(await bench.kinds(OperationLane.P1)) == logged


@pytest.mark.req("R6", "R2")
async def test_only_intents_of_dead_epochs_become_unknown(bench: Bench) -> None:
    dead, *rest = await given_actions(bench)
    settled = rest[0]
    await intend(bench, dead)
    await intend(bench, settled)
    await conclude(bench, settled, EffectStatus.APPLIED)
    newer = await bench.database.transaction(lambda tx: owners.take_ownership(tx, bench.clock, "next"))
    bench.epoch = newer.epoch
    living = rest[1]
    await intend(bench, living)
    found = await bench.database.transaction(lambda tx: effects.orphan(tx, bench.clock, newer.epoch))
    assert found == [dead.id]
    (unknown,) = await bench.database.transaction(effects.unknown)
    assert (unknown.action_id, unknown.status, unknown.was_unknown) == (dead.id, EffectStatus.UNKNOWN, True)
    states = {a.id: a.state for a in await bench.database.transaction(lambda tx: actions.of_turn(tx, dead.turn_id))}
    assert states[dead.id] is ActionState.UNKNOWN
    assert await bench.database.transaction(lambda tx: effects.orphan(tx, bench.clock, newer.epoch)) == []


async def ask(bench: Bench, action: Action) -> str:
    asked = await bench.database.transaction(
        lambda tx: confirmations.ask(
            tx, bench.clock, bench.ids, turn_id=action.turn_id, action_id=action.id, question="shall I?", delivery_id=None
        )
    )
    return asked.id


async def answer(bench: Bench, confirmation_id: str, yes: bool, by: str) -> Confirmation:
    return await bench.database.transaction(lambda tx: confirmations.answer(tx, bench.clock, confirmation_id, yes, by))


@pytest.mark.req("S7")
@pytest.mark.field("FC-R11")
async def test_every_question_is_addressable_and_answered_once(bench: Bench) -> None:
    _, first, _ = await given_actions(bench, "u1", "a")
    _, second, _ = await given_actions(bench, "u2", "b")
    ids = [await ask(bench, second), await ask(bench, first)]
    pending = await bench.database.transaction(confirmations.pending)
    assert [c.id for c in pending] == ids
    assert [c.asked_seq for c in pending] == [1, 2]
    word = await given_admission(bench, "yes")
    answered = await answer(bench, ids[0], True, word.id)
    assert (answered.status, answered.answered_by) == (ConfirmationStatus.YES, word.id)
    for late in (True, False):
        with pytest.raises(Refused, match="yes"):
            await answer(bench, ids[0], late, word.id)
    assert [c.id for c in await bench.database.transaction(confirmations.pending)] == ids[1:]
    with pytest.raises(Refused):
        await ask(bench, first)
    assert [k for k in await bench.kinds(OperationLane.P1) if k.startswith("confirmation")] == [
        "confirmation.asked",
        "confirmation.asked",
        "confirmation.yes",
    ]


@pytest.mark.req("S7")
async def test_silence_is_not_consent(bench: Bench) -> None:
    _, question, _ = await given_actions(bench)
    confirmation_id = await ask(bench, question)
    closed = await bench.database.transaction(lambda tx: confirmations.abandon(tx, bench.clock, confirmation_id))
    assert (closed.status, closed.answered_by) == (ConfirmationStatus.ABANDONED, None)
    word = await given_admission(bench, "yes")
    with pytest.raises(Refused, match="abandoned"):
        await answer(bench, confirmation_id, True, word.id)
