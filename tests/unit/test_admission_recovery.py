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
from appliance.contracts.interrupt import Cause
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import ActionState, Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.session.lifespan import longest_s
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import actions, admissions, confirmations, effects, interrupts, leases, owners, stopping, turns
from tests.support.clock import ManualClock
from tests.support.ledger import Bench, given_admission, given_turn, open_bench
from tests.support.waiting import within

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
    assert recovered.unknown_effects == [write.id]
    (unknown,) = await bench.database.transaction(effects.unknown)
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


async def want_stopped(bench: Bench, turn_id: str, cause: Cause = Cause.USER) -> None:
    """Somebody wants the turn to stop, and nobody gets to see to it."""
    await bench.database.transaction(
        lambda tx: stopping.stop(tx, bench.clock, bench.ids, turn_id, cause=cause, by="ann", reason="not now") and None
    )


@pytest.mark.req("R7", "R2", "R4")
@pytest.mark.parametrize(("cause", "state"), [(Cause.USER, TurnState.ABANDONED), (Cause.SYSTEM, TurnState.FAILED)])
async def test_a_turn_that_was_to_stop_is_ended_and_not_resumed(bench: Bench, cause: Cause, state: TurnState) -> None:
    turn = await given_turn(bench, "u1", [WRITE, ASK])
    await want_stopped(bench, turn.id, cause)
    recovered = await restart(bench)
    assert recovered.resumed == []
    (stopped,) = recovered.stopped
    assert (stopped.id, stopped.state, stopped.failure) == (turn.id, state, "not now")
    assert (await admission_of(bench, turn.admission_id)).outcome is Outcome.INTERRUPTED
    steps = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
    assert {step.state for step in steps} == {ActionState.SKIPPED}
    assert await bench.rows("SELECT 1 FROM interrupt WHERE handled_utc IS NULL") == []
    assert (await restart(bench)).stopped == []


@pytest.mark.req("R7", "R6", "T7")
async def test_what_a_turn_that_was_to_stop_had_begun_stays_unknown(bench: Bench) -> None:
    turn = await given_turn(bench, "u1", [WRITE])
    (write,) = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))

    def begin(tx: Transaction) -> None:
        actions.change(tx, write.id, ActionState.STARTED)
        effects.intend(
            tx, bench.clock, action_id=write.id, turn_id=turn.id, tool=write.tool, arguments=write.arguments, epoch=bench.epoch
        )

    await bench.database.transaction(begin)
    await want_stopped(bench, turn.id)
    recovered = await restart(bench)
    assert recovered.unknown_effects == [write.id]
    assert [turn.state for turn in recovered.stopped] == [TurnState.ABANDONED]


@pytest.mark.req("R7", "R2")
async def test_a_stop_while_the_successor_waits_ends_it_at_the_next_restart_or_when_its_turn_comes(bench: Bench) -> None:
    turns = []
    for key in ("u1", "u2"):
        turns.append(await given_turn(bench, key, [WRITE], lane=key))
    first, second = (await restart(bench)).resumed
    for turn in turns:
        await want_stopped(bench, turn.id)
    ended = await resume(bench, first)
    assert ended.state is TurnState.ABANDONED
    assert (await admission_of(bench, first.id)).outcome is Outcome.INTERRUPTED
    recovered = await restart(bench)
    assert ([turn.id for turn in recovered.stopped], recovered.resumed) == ([turns[1].id], [])
    assert (await admission_of(bench, second.id)).outcome is Outcome.INTERRUPTED


@pytest.mark.req("R3", "R2")
async def test_the_leases_of_the_dead_are_dropped(bench: Bench) -> None:
    turn = await given_turn(bench, "u1", [WRITE])
    assert [row["turn_id"] for row in await bench.rows("SELECT turn_id FROM lease")] == [turn.id]
    (successor,) = (await restart(bench)).resumed
    assert await bench.rows("SELECT 1 FROM lease") == []
    await resume(bench, successor)
    assert (await bench.one("SELECT turn_id, epoch FROM lease")) == {"turn_id": turn.id, "epoch": bench.epoch}


@pytest.mark.req("R4", "S2")
@pytest.mark.parametrize(("longest_turn_s", "age_s", "goes_on"), [(900, 3599, True), (900, 3700, False), (7200, 14_000, True)])
async def test_how_old_a_turn_may_be_follows_from_how_long_one_may_last(
    bench: Bench, longest_turn_s: float, age_s: float, goes_on: bool
) -> None:
    settings = SessionSettings(base_conversation_s=longest_turn_s)
    assert longest_s(settings) == longest_turn_s
    await given_turn(bench, "u1", [WRITE])
    bench.clock.advance(age_s)
    recovered = await take_over(bench.database, bench.clock, bench.ids, "next", os.getpid(), turn_limit_s=longest_s(settings))
    assert (len(recovered.resumed), len(recovered.suspended)) == ((1, 0) if goes_on else (0, 1))


# a long history ------------------------------------------------------------------------------------------------------
HISTORY = 100_000

NUMBERS = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {HISTORY})"
PAST = (
    "INSERT INTO session (id, lane, state, opened_utc) VALUES ('se_past', 'past', 'open', '2026-01-01T00:00:00.000000+00:00')",
    f"""{NUMBERS} INSERT INTO admission (id, door, kind, lane, dedupe_key, digest, payload, priority, status, outcome, epoch,
          turn_id, admitted_utc, admitted_mono_ns, boot_id, clock_synced)
        SELECT 'ad_p' || i, 'voice', 'utterance', 'lane' || (i % 50), 'past' || i, '', '{{}}', 6, 'terminal', 'done', 1,
          'tr_p' || i, '2026-01-01T00:00:00.000000+00:00', i, 'boot-0', 1 FROM n""",
    f"""{NUMBERS} INSERT INTO turn (id, session_id, admission_id, lane, language, state, intent, plan, context, blocking_reason,
          failure, state_hash, lifespan_s, offline, opened_utc, updated_utc)
        SELECT 'tr_p' || i, 'se_past', 'ad_p' || i, 'lane' || (i % 50), 'en', 'idle', 'read_tag', '{{}}', '{{}}', '', '', '', 1.0,
          0, '2026-01-01T00:00:00.000000+00:00', '2026-01-01T00:00:00.000000+00:00' FROM n""",
    f"""{NUMBERS} INSERT INTO action (id, turn_id, position, step_id, tool, arguments, condition, optional, state)
        SELECT 'ac_p' || i, 'tr_p' || i, 0, 'write', 'write_tag', '{{}}', '', 0, 'done' FROM n""",
    f"""{NUMBERS} INSERT INTO effect (action_id, turn_id, tool, arguments, status, epoch, intended_utc)
        SELECT 'ac_p' || i, 'tr_p' || i, 'write_tag', '{{}}', 'applied', 1, '2026-01-01T00:00:00.000000+00:00' FROM n""",
    f"""{NUMBERS} INSERT INTO interrupt (id, turn_id, cause, by, reason, asked_utc, handled_utc)
        SELECT 'in_p' || i, 'tr_p' || i, 'user', 'ann', '', '2026-01-01', '2026-01-01' FROM n WHERE i % 10 = 0""",
)


@pytest.mark.req("R2", "R4", "R8")
async def test_a_hundred_thousand_rows_of_history_do_not_delay_a_start(bench: Bench) -> None:
    """The bound for the whole start is 5 s; taking over and the first look at the queue get a tenth of it."""
    for statement in PAST:
        await bench.database.transaction(lambda tx, statement=statement: tx.execute(statement) and None)
    turn = await given_turn(bench, "u1", [WRITE])
    await want_stopped(bench, (await given_turn(bench, "u2", [WRITE], lane="b")).id)
    await given_admission(bench, "u3", lane="c")
    with within(0.5):
        recovered = await restart(bench)
        queue = AdmissionQueue(bench.database, bench.clock)
        admission = await queue.next(NOBODY)
    assert (len(recovered.resumed), len(recovered.stopped)) == (1, 1)
    assert (admission.id, admission.payload["turn_id"]) == (recovered.resumed[0].id, turn.id)
    searched = await bench.database.transaction(_plans_of_recovery)
    assert [plan for plan in searched if _scans_history(plan)] == []


def _plans_of_recovery(tx: Transaction) -> list[str]:
    """How SQLite finds what recovery and the runtime's other looks ask for."""
    seen: list[str] = []
    tx.set_trace_callback(seen.append)
    try:
        admissions.started(tx)
        admissions.waiting_of(tx, RequestKind.RESUME)
        effects.orphan(tx, ManualClock(), 1)
        leases.renew_all(tx, ManualClock(), 1)
        leases.drop_before(tx, 1)
        turns.under_way(tx)
        turns.newest_of(tx, "past")
        interrupts.open_of(tx, "tr_p1")
        tx.execute(interrupts.OPEN_TURNS).fetchall()
        tx.execute(admissions.STEERING, ('["lane1"]',)).fetchall()
        tx.execute(leases.WORK).fetchall()
        tx.execute(turns.SPENDING, ('["tr_p1"]',)).fetchall()
    finally:
        tx.set_trace_callback(None)
    return [row["detail"] for sql in seen for row in tx.execute(f"EXPLAIN QUERY PLAN {sql}")]


def _scans_history(plan: str) -> bool:
    big = ("admission", "turn", "action", "effect", "interrupt")
    return plan.startswith(tuple(f"SCAN {table}" for table in big)) and "USING" not in plan
