"""Taking over after a crash: nothing started is run again, what should go on has a successor, unknown stays visible."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.admission.queue import AdmissionQueue
from appliance.admission.recovery import Recovered, take_over
from appliance.contracts.admission import (
    PRIORITY_ALARM,
    PRIORITY_RESUME,
    Admission,
    AdmissionStatus,
    Door,
    Outcome,
    RequestKind,
)
from appliance.contracts.effect import EffectStatus
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import ActionState, Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import actions, admissions, confirmations, effects, owners
from tests.support.ledger import Bench, given_admission, given_turn, open_bench

NOBODY: set[str] = set()
WRITE = Step("write", "write_tag", {"tag": "motor_3.fan", "value": 100})
ASK = Step("confirm", "ask", {"question": "shall I?"})


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def restart(bench: Bench) -> Recovered:
    """A new process takes the same ledger over; the bench goes on as that process."""
    recovered = await take_over(bench.database, bench.clock, bench.ids, "next", os.getpid())
    bench.epoch = recovered.ownership.epoch
    return recovered


def turns_of(bench: Bench) -> Turns:
    return Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())


async def admission_of(bench: Bench, admission_id: str) -> Admission:
    return await bench.database.transaction(lambda tx: admissions.by_id(tx, admission_id))


@pytest.mark.req("R2", "R4")
async def test_a_turn_under_way_gets_a_successor_in_one_transaction(bench: Bench) -> None:
    turn = await given_turn(bench, "u1", [WRITE], lane="asset:motor_3")
    recovered = await restart(bench)
    (successor,) = recovered.resumed
    assert (successor.door, successor.kind, successor.lane) == (Door.RECOVERY, RequestKind.RESUME, "asset:motor_3")
    assert (successor.resumes, successor.payload) == (turn.admission_id, {"turn_id": turn.id})
    assert (successor.status, successor.priority) == (AdmissionStatus.QUEUED, PRIORITY_RESUME)
    assert successor.dedupe_key == f"resume:{turn.admission_id}:{recovered.ownership.epoch}"
    old = await admission_of(bench, turn.admission_id)
    assert (old.status, old.outcome) == (AdmissionStatus.TERMINAL, Outcome.INTERRUPTED)
    assert not recovered.ownership.previous_clean
    kinds = await bench.kinds(OperationLane.P1)
    assert kinds[-3:] == ["admission.unknown", "admission.terminal", "admission.queued"]


@pytest.mark.req("R2")
async def test_an_alarm_keeps_its_urgency(bench: Bench) -> None:
    admission = await given_admission(bench, "a1", kind=RequestKind.ALARM, priority=PRIORITY_ALARM, lane="asset:motor_3")
    await turns_of(bench).open(admission, language="en", intent="alarm_raised", context={}, offline=False)
    assert [a.priority for a in (await restart(bench)).resumed] == [PRIORITY_ALARM]


@pytest.mark.req("R1", "R2")
@pytest.mark.field("FC-R13")
async def test_what_waited_waits_on(bench: Bench) -> None:
    queued = await given_admission(bench, "u1")
    recovered = await restart(bench)
    assert recovered.resumed == []
    assert await admission_of(bench, queued.id) == queued
    assert (await AdmissionQueue(bench.database, bench.clock).next(NOBODY)).id == queued.id


@pytest.mark.req("R6", "T7")
async def test_an_effect_in_flight_is_unknown_and_its_action_too(bench: Bench) -> None:
    turn = await given_turn(bench, "u1", [WRITE])
    (write,) = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))

    def begin(tx: Transaction) -> None:
        actions.change(tx, write.id, ActionState.STARTED)
        effects.intend(
            tx, bench.clock, action_id=write.id, turn_id=turn.id, tool=write.tool, arguments=write.arguments, epoch=bench.epoch
        )

    await bench.database.transaction(begin)
    recovered = await restart(bench)
    (unknown,) = recovered.unknown_effects
    assert (unknown.action_id, unknown.status, unknown.was_unknown) == (write.id, EffectStatus.UNKNOWN, True)
    (action,) = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
    assert action.state is ActionState.UNKNOWN
    assert (await restart(bench)).unknown_effects == []


@pytest.mark.req("S7", "R2")
async def test_a_question_outlives_the_process(bench: Bench) -> None:
    turn = await given_turn(bench, "u1", [ASK])
    (asking,) = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))

    def ask(tx: Transaction) -> None:
        actions.change(tx, asking.id, ActionState.WAITING)
        confirmations.ask(tx, bench.clock, bench.ids, turn_id=turn.id, action_id=asking.id, question="shall I?", delivery_id=None)

    await bench.database.transaction(ask)
    await turns_of(bench).end(turn.id, TurnEvent.ASKED, turn.admission_id, Outcome.DONE)
    recovered = await restart(bench)
    assert recovered.resumed == []
    (question,) = await bench.database.transaction(confirmations.pending)
    word = await given_admission(bench, "yes")
    going_on = await turns_of(bench).answer(question.id, True, word)
    assert (going_on.id, going_on.state) == (turn.id, TurnState.EXECUTING)


@pytest.mark.req("R2")
@pytest.mark.field("FC-R02")
async def test_an_answered_turn_is_resumed_in_its_own_lane(bench: Bench) -> None:
    """The answer led the turn from another lane; the successor keeps to the turn's, where newer work waits."""
    turn = await given_turn(bench, "u1", [ASK], lane="asset:motor_3")
    (asking,) = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
    question = await bench.database.transaction(
        lambda tx: confirmations.ask(
            tx, bench.clock, bench.ids, turn_id=turn.id, action_id=asking.id, question="shall I?", delivery_id=None
        )
    )
    turns = turns_of(bench)
    await turns.end(turn.id, TurnEvent.ASKED, turn.admission_id, Outcome.DONE)
    word = await given_admission(bench, "yes", lane="speaker")
    await turns.answer(question.id, True, word)
    newer = await given_admission(bench, "a2", lane="asset:motor_3", priority=PRIORITY_ALARM)
    queue = AdmissionQueue(bench.database, bench.clock)
    assert await queue.look(NOBODY) is None  # the answered turn holds its own lane as well
    (successor,) = (await restart(bench)).resumed
    assert (successor.lane, successor.resumes) == ("asset:motor_3", word.id)
    queue = AdmissionQueue(bench.database, bench.clock)
    assert (await queue.next(NOBODY)).id == successor.id
    await turns_of(bench).resume(successor)
    assert await queue.look(NOBODY) is None
    assert newer.status is AdmissionStatus.QUEUED


async def resume(bench: Bench, admission: Admission) -> Turn:
    return await turns_of(bench).resume(admission)


@pytest.mark.req("R4")
@pytest.mark.field("FC-R03")
async def test_the_third_restart_in_a_row_suspends_the_turn(bench: Bench) -> None:
    turn = await given_turn(bench, "u1", [WRITE])
    for _ in range(2):
        recovered = await restart(bench)
        (successor,) = recovered.resumed
        assert recovered.suspended == []
        assert (await resume(bench, successor)).state is TurnState.EXECUTING
    recovered = await restart(bench)
    assert recovered.resumed == []
    (suspended,) = recovered.suspended
    assert (suspended.id, suspended.state, suspended.failure) == (turn.id, TurnState.FAILED, "interrupted by 3 restarts in a row")
    assert "audit.turn_suspended" in await bench.kinds(OperationLane.P1)
    assert {r["outcome"] for r in await bench.rows("SELECT outcome FROM admission")} == {"interrupted"}
    assert (await restart(bench)).suspended == []


@pytest.mark.req("R4")
async def test_a_restart_while_the_successor_still_waits_does_not_count(bench: Bench) -> None:
    turn = await given_turn(bench, "u1", [WRITE])
    (successor,) = (await restart(bench)).resumed
    for _ in range(5):
        recovered = await restart(bench)
        assert (recovered.resumed, recovered.suspended) == ([], [])
    assert (await resume(bench, successor)).id == turn.id


@pytest.mark.req("R4")
@pytest.mark.parametrize(("kind", "goes_on"), [(RequestKind.UTTERANCE, False), (RequestKind.ALARM, True)])
async def test_an_old_order_is_not_carried_out_but_an_alarm_goes_on(bench: Bench, kind: RequestKind, goes_on: bool) -> None:
    admission = await given_admission(bench, "u1", kind=kind)
    await turns_of(bench).open(admission, language="en", intent="x", context={}, offline=False)
    bench.clock.advance(3 * 3600)
    recovered = await restart(bench)
    assert bool(recovered.resumed) is goes_on
    assert [t.failure for t in recovered.suspended] == ([] if goes_on else ["interrupted 180 minutes after it was asked for"])


@pytest.mark.req("R4")
async def test_a_clean_shutdown_is_known(bench: Bench) -> None:
    await bench.database.transaction(lambda tx: owners.release(tx, bench.clock, bench.epoch))
    recovered = await restart(bench)
    assert recovered.ownership.previous_clean
    assert (recovered.resumed, recovered.unknown_effects) == ([], [])
