"""The life of a turn on a real ledger: every pair of its table, atomic with its record, timed while it runs and only then."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.admission.recovery import take_over
from appliance.contracts.admission import Admission, AdmissionStatus, Outcome, RequestKind
from appliance.contracts.effect import Confirmation
from appliance.contracts.errors import OwnedElsewhere, Refused, StateViolationError
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import ActionState, Plan, Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import TRANSITIONS, Turn, TurnEvent, TurnState
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import actions, admissions, confirmations, leases, owners, snapshot
from appliance.store.columns import utc_text
from tests.support.ledger import Bench, given_admission, given_turn, open_bench

STEPS = (Step("read", "read_tags", {"tags": ["motor_3.temperature"]}), Step("confirm", "ask", {"question": "shall I?"}))
PLAN = Plan("read_tag", "phrase:read_tag", STEPS, estimate_s=2.0)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
def turns(bench: Bench) -> Turns:
    return Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())


async def open_turn(bench: Bench, turns: Turns, key: str = "u1", **changes: Any) -> Turn:
    admission = await given_admission(bench, key, **changes)
    return await turns.open(admission, language="en", intent="read_tag", context={"slots": {"tag": "x"}}, offline=False)


async def asking(bench: Bench, turns: Turns, key: str = "u1", lane: str = "asset:motor_3") -> tuple[Turn, Confirmation]:
    """A turn that waits for an answer."""
    turn = await given_turn(bench, key, STEPS, lane=lane)
    _, ask = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))

    def work(tx: Transaction) -> Confirmation:
        actions.change(tx, ask.id, ActionState.WAITING)
        return confirmations.ask(
            tx, bench.clock, bench.ids, turn_id=turn.id, action_id=ask.id, question="shall I?", delivery_id=None
        )

    question = await bench.database.transaction(work)
    return await turns.end(turn.id, TurnEvent.ASKED, turn.admission_id, Outcome.DONE), question


async def admission_of(bench: Bench, admission_id: str) -> Admission:
    return await bench.database.transaction(lambda tx: admissions.by_id(tx, admission_id))


@pytest.mark.req("S1", "S3", "R4")
async def test_opening_is_one_transaction_with_its_admission(bench: Bench, turns: Turns) -> None:
    bound: list[str] = []
    admission = await given_admission(bench, "u1")
    before = len(await bench.kinds(OperationLane.P1))
    turn = await turns.open(
        admission,
        language="en",
        intent="read_tag",
        context={"slots": {}},
        offline=True,
        asset="motor_3",
        also=lambda tx, opened: bound.append(opened.session_id),
    )
    assert re.fullmatch(r"tr_[0-9a-f]{8}", turn.id)
    assert (turn.state, turn.offline, turn.lifespan_s, turn.plan) == (TurnState.PLANNING, True, 300.0, None)
    started = await admission_of(bench, admission.id)
    assert (started.status, started.epoch, started.turn_id) == (AdmissionStatus.STARTED, bench.epoch, turn.id)
    assert bound == [turn.session_id]
    assert await bench.one("SELECT lane, asset, state FROM session") == {"lane": turn.lane, "asset": "motor_3", "state": "open"}
    assert (await bench.kinds(OperationLane.P1))[before:] == ["session.opened", "admission.started", "turn.planning"]
    assert await turns.load(turn.id) == turn


@pytest.mark.req("S3")
async def test_opening_that_fails_leaves_the_admission_queued(bench: Bench, turns: Turns) -> None:
    admission = await given_admission(bench, "u1")

    def refuse(_: Transaction, __: Turn) -> None:
        raise Refused("no")

    with pytest.raises(Refused):
        await turns.open(admission, language="en", intent="x", context={}, offline=False, also=refuse)
    assert await admission_of(bench, admission.id) == admission
    assert await bench.rows("SELECT 1 FROM turn UNION ALL SELECT 1 FROM session") == []


@pytest.mark.req("S1")
async def test_a_turns_id_comes_from_its_admission_and_grows_where_it_is_taken(bench: Bench, turns: Turns) -> None:
    first = await open_turn(bench, turns, "u1", lane="a")
    admission = await given_admission(bench, "u2", lane="b")
    hashed = hashlib.sha256(f"{utc_text(admission.admitted_utc)} {admission.id}".encode()).hexdigest()

    def rename(tx: Transaction) -> None:
        leases.release(tx, first.id)  # it names the turn
        tx.execute("UPDATE turn SET id = ? WHERE id = ?", (f"tr_{hashed[:8]}", first.id))

    await bench.database.transaction(rename)
    second = await turns.open(admission, language="en", intent="x", context={}, offline=False)
    assert second.id == f"tr_{hashed[:9]}"


@pytest.mark.req("S1")
async def test_turns_of_a_lane_share_its_session(bench: Bench, turns: Turns) -> None:
    first = await open_turn(bench, turns, "u1", lane="a")
    await turns.end(first.id, TurnEvent.FINISHED, first.admission_id, Outcome.DONE)
    second = await open_turn(bench, turns, "u2", lane="a")
    other = await open_turn(bench, turns, "u3", lane="b")
    assert first.session_id == second.session_id != other.session_id


@pytest.mark.req("S3")
@pytest.mark.parametrize("state", list(TurnState))
@pytest.mark.parametrize("event", list(TurnEvent))
async def test_every_pair_of_the_table(bench: Bench, turns: Turns, state: TurnState, event: TurnEvent) -> None:
    turn = await open_turn(bench, turns)
    await bench.database.transaction(lambda tx: tx.execute("UPDATE turn SET state = ?", (state,)) and None)
    row = await bench.one("SELECT * FROM turn")
    logged = len(await bench.kinds(OperationLane.P1))
    written: list[str] = []

    def also(tx: Transaction) -> None:
        tx.execute("UPDATE session SET asset = 'touched'")
        written.append("also")

    if (state, event) in TRANSITIONS:
        moved = await turns.move(turn.id, event, reason="because", also=also)
        assert moved.state is TRANSITIONS[state, event]
        assert await turns.load(turn.id) == moved
        assert moved.state_hash != turn.state_hash
        ended_badly = moved.state in (TurnState.FAILED, TurnState.ABANDONED)
        assert (moved.failure, moved.blocking_reason) == (("because", "") if ended_badly else ("", "because"))
        assert (await bench.kinds(OperationLane.P1))[logged:] == [f"turn.{moved.state}"]
        assert written == ["also"]
    else:
        with pytest.raises(StateViolationError):
            await turns.move(turn.id, event, also=also)
        assert await bench.one("SELECT * FROM turn") == row
        assert (await bench.kinds(OperationLane.P1))[logged:] == ["audit.state_violation"]
        audited = await bench.one("SELECT entity, payload FROM operation ORDER BY lane DESC, seq DESC LIMIT 1")
        assert (audited["entity"], json.loads(audited["payload"])) == (turn.id, {"state": state, "event": event})
        assert written == []


@pytest.mark.req("S3")
async def test_a_violation_takes_back_what_came_before_it_and_keeps_the_audit(bench: Bench, turns: Turns) -> None:
    """An answer closes its question, then finds the turn failed: only the audit entry stays."""
    turn, question = await asking(bench, turns)
    await bench.database.transaction(lambda tx: tx.execute("UPDATE turn SET state = 'failed'") and None)
    word = await given_admission(bench, "yes")
    with pytest.raises(StateViolationError):
        await turns.answer(question.id, True, word)
    assert [q.id for q in await bench.database.transaction(confirmations.pending)] == [question.id]
    assert await admission_of(bench, word.id) == word
    assert (await bench.kinds(OperationLane.P1))[-1] == "audit.state_violation"
    assert (await turns.load(turn.id)).state is TurnState.FAILED


@pytest.mark.req("S8")
async def test_a_plan_is_stored_with_its_actions(bench: Bench, turns: Turns) -> None:
    turn = await turns.plan(await open_turn(bench, turns), PLAN)
    assert turn.state is TurnState.EXECUTING
    assert turn.plan is not None and Plan.from_json(turn.plan) == PLAN
    stored = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
    assert [a.step_id for a in stored] == ["read", "confirm"]


@pytest.mark.req("S8")
@pytest.mark.parametrize(
    ("estimate_s", "age_s", "fits"), [(166.6, 0, True), (300 / 1.8, 0, False), (100, 119, True), (100, 121, False)]
)
async def test_a_plan_needs_its_reserve_of_lifespan(
    bench: Bench, turns: Turns, estimate_s: float, age_s: float, fits: bool
) -> None:
    turn = await open_turn(bench, turns)
    bench.clock.advance(age_s)
    plan = replace(PLAN, estimate_s=estimate_s)
    if fits:
        assert (await turns.plan(turn, plan)).state is TurnState.EXECUTING
        return
    with pytest.raises(Refused) as refused:
        await turns.plan(turn, plan)
    for number in (f"{1.8 * estimate_s:.1f}", "1.8", f"{estimate_s:.1f}", f"{300 - age_s:.1f}"):
        assert number in refused.value.message
    stored = await turns.load(turn.id)
    assert (stored.state, stored.plan, stored.blocking_reason) == (TurnState.PLANNING, None, refused.value.message)
    assert await bench.rows("SELECT 1 FROM action") == []
    failed = await turns.end(turn.id, TurnEvent.FAILED, turn.admission_id, Outcome.REFUSED, reason=refused.value.message)
    assert (failed.state, failed.failure) == (TurnState.FAILED, refused.value.message)


@pytest.mark.req("S3", "S7")
async def test_asking_frees_the_lane_and_the_answer_goes_on(bench: Bench, turns: Turns) -> None:
    turn, question = await asking(bench, turns)
    assert (turn.state, turn.blocking_reason) == (TurnState.CONFIRMING, "waiting for an answer")
    assert (await admission_of(bench, turn.admission_id)).status is AdmissionStatus.TERMINAL
    other = await open_turn(bench, turns, "a2", lane="asset:motor_3")  # other work on the same asset goes on
    await turns.end(other.id, TurnEvent.FINISHED, other.admission_id, Outcome.DONE)
    word = await given_admission(bench, "yes", lane="speaker")
    going_on = await turns.answer(question.id, True, word, heard={"intent": "confirm", "ms": 12.0})
    assert (going_on.state, going_on.blocking_reason) == (TurnState.EXECUTING, "")
    assert going_on.context["answers"] == [{"intent": "confirm", "ms": 12.0}]
    started = await admission_of(bench, word.id)
    assert (started.status, started.turn_id) == (AdmissionStatus.STARTED, turn.id)
    done = (await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id)))[1]
    assert (done.state, done.result) == (ActionState.DONE, {"confirmed": True})
    ended = await turns.end(turn.id, TurnEvent.FINISHED, word.id, Outcome.DONE)
    assert ended.state is TurnState.IDLE


@pytest.mark.req("S7")
@pytest.mark.field("FC-R11")
async def test_a_question_is_answered_by_one_admission_only(bench: Bench, turns: Turns) -> None:
    _, question = await asking(bench, turns)
    first, second = [await given_admission(bench, key, lane=key) for key in ("no", "yes")]
    turn = await turns.answer(question.id, False, first)
    done = (await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id)))[1]
    assert done.result == {"confirmed": False}
    with pytest.raises(Refused, match="closed already"):
        await turns.answer(question.id, True, second)
    assert (await admission_of(bench, second.id)).status is AdmissionStatus.QUEUED


@pytest.mark.req("R1")
@pytest.mark.field("FC-R02")
async def test_an_answer_waits_for_the_turns_own_lane(bench: Bench, turns: Turns) -> None:
    _, question = await asking(bench, turns)
    running = await open_turn(bench, turns, "a2", lane="asset:motor_3")
    word = await given_admission(bench, "yes", lane="speaker")
    with pytest.raises(Refused, match="busy"):
        await turns.answer(question.id, True, word)
    await turns.end(running.id, TurnEvent.FINISHED, running.admission_id, Outcome.DONE)
    assert (await turns.answer(question.id, True, word)).state is TurnState.EXECUTING
    newer = await given_admission(bench, "a3", lane="asset:motor_3")  # the answered turn holds its own lane, led from another
    with pytest.raises(Refused, match="busy"):
        await turns.open(newer, language="en", intent="x", context={}, offline=False)


@pytest.mark.req("S3")
async def test_ending_stands_or_falls_with_the_admission(bench: Bench, turns: Turns) -> None:
    turn = await turns.plan(await open_turn(bench, turns), PLAN)
    await turns.close_admission(await admission_of(bench, turn.admission_id), Outcome.FAILED)
    with pytest.raises(Refused, match="ended already"):
        await turns.end(turn.id, TurnEvent.FINISHED, turn.admission_id, Outcome.DONE)
    assert await turns.load(turn.id) == turn


@pytest.mark.req("S7")
async def test_thirty_minutes_of_silence_abandon_a_turn(bench: Bench, turns: Turns) -> None:
    turn, question = await asking(bench, turns)
    assert await turns.abandon_unanswered() == []
    bench.clock.advance(1799)
    assert await turns.abandon_unanswered() == []
    bench.clock.advance(1)
    told: list[str] = []
    (abandoned,) = await turns.abandon_unanswered(also=lambda tx, t: told.append(t.id))
    assert (abandoned.id, abandoned.state, abandoned.failure) == (turn.id, TurnState.ABANDONED, "no answer within 30 minutes")
    assert told == [turn.id]
    assert await bench.database.transaction(confirmations.pending) == []
    assert await turns.abandon_unanswered() == []
    word = await given_admission(bench, "yes")
    with pytest.raises(Refused):
        await turns.answer(question.id, True, word)


@pytest.mark.req("S7", "S2")
@pytest.mark.field("FC-B01")
async def test_neither_a_clock_step_nor_a_restart_shortens_the_wait(bench: Bench, turns: Turns) -> None:
    await asking(bench, turns)
    await turns.abandon_unanswered()
    bench.clock.now = bench.clock.now.replace(year=2036)  # the network time arrives
    assert await turns.abandon_unanswered() == []
    bench.clock.advance(1500)
    after_restart = Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())
    assert await after_restart.abandon_unanswered() == []
    bench.clock.advance(1000)
    assert await after_restart.abandon_unanswered() == []
    bench.clock.advance(800)
    assert len(await after_restart.abandon_unanswered()) == 1


@pytest.mark.req("S2", "S7")
async def test_the_lifespan_runs_while_the_turn_does(bench: Bench, turns: Turns) -> None:
    turn = await open_turn(bench, turns, lane="asset:motor_3")
    bench.clock.advance(20)
    turn = await turns.plan(turn, PLAN)
    assert turn.lifespan_s == pytest.approx(280)
    read, ask = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
    bench.clock.advance(10)

    def work(tx: Transaction) -> Confirmation:
        actions.change(tx, read.id, ActionState.DONE, {})
        actions.change(tx, ask.id, ActionState.WAITING)
        return confirmations.ask(
            tx, bench.clock, bench.ids, turn_id=turn.id, action_id=ask.id, question="shall I?", delivery_id=None
        )

    question = await bench.database.transaction(work)
    turn = await turns.end(turn.id, TurnEvent.ASKED, turn.admission_id, Outcome.DONE)
    assert turn.lifespan_s == pytest.approx(600 * 0.8 * 1.5 - 30)
    bench.clock.advance(1000)  # neither runs while a person thinks
    word = await given_admission(bench, "yes")
    turn = await turns.answer(question.id, True, word)
    assert turn.lifespan_s == pytest.approx(120 * 0.8**2 - 30)
    bench.clock.advance(5)
    turn = await turns.end(turn.id, TurnEvent.FINISHED, word.id, Outcome.DONE)
    assert turn.lifespan_s == pytest.approx(120 * 0.8**2 - 35)


@pytest.mark.req("S2")
async def test_the_lifespan_stands_still_while_the_appliance_is_down(bench: Bench, turns: Turns) -> None:
    turn = await open_turn(bench, turns)
    bench.clock.advance(50)
    turn = await turns.plan(turn, PLAN)
    bench.clock.advance(600)
    recovered = await take_over(bench.database, bench.clock, bench.ids, "next", os.getpid())
    bench.clock.advance(600)
    again = Turns(bench.database, bench.clock, bench.ids, recovered.ownership.epoch, SessionSettings())
    turn = await again.resume(recovered.resumed[0])
    assert turn.state is TurnState.EXECUTING
    assert turn.lifespan_s == pytest.approx(250)
    bench.clock.advance(7)
    assert (await again.move(turn.id, TurnEvent.FINISHED)).lifespan_s == pytest.approx(243)


@pytest.mark.req("R2")
async def test_resuming_a_turn_that_ended_changes_nothing(bench: Bench, turns: Turns) -> None:
    turn = await open_turn(bench, turns)
    ended = await turns.end(turn.id, TurnEvent.FINISHED, turn.admission_id, Outcome.DONE)
    late = await given_admission(bench, "resume", kind=RequestKind.RESUME, payload={"turn_id": turn.id})
    assert await turns.resume(late) == ended
    await turns.close_admission(late, Outcome.DONE)
    assert (await admission_of(bench, late.id)).outcome is Outcome.DONE


@pytest.mark.req("R2")
async def test_a_process_that_lost_the_ledger_writes_nothing(bench: Bench, turns: Turns) -> None:
    turn = await open_turn(bench, turns)
    bench.database.own(bench.epoch)
    await bench.database.transaction(lambda tx: owners.take_ownership(tx, bench.clock, "next"))
    before = await bench.rows("SELECT * FROM operation")
    with pytest.raises(OwnedElsewhere):
        await turns.move(turn.id, TurnEvent.FINISHED)
    with pytest.raises(OwnedElsewhere):
        await turns.open(await admission_of(bench, turn.admission_id), language="en", intent="", context={}, offline=False)
    assert await bench.rows("SELECT * FROM operation") == before


@pytest.mark.req("S1")
async def test_the_snapshot_has_twelve_fields_and_each_counts(bench: Bench, turns: Turns) -> None:
    turn, _ = await asking(bench, turns)
    taken = await bench.database.transaction(lambda tx: snapshot.take(tx, turn))
    assert len(taken) == 12
    assert turn.state_hash == snapshot.state_hash(taken)
    assert taken["tools_run"] == [["confirm", "ask", "waiting"]]
    assert len(taken["awaiting"]) == 1
    for name, value in taken.items():
        changed = not value if isinstance(value, bool) else [] if isinstance(value, list) else f"{value}x"
        assert snapshot.state_hash({**taken, name: changed}) != turn.state_hash, name
    documented = re.findall(r"^\| (\w+) \|", snapshot.__doc__ or "", re.MULTILINE)
    assert documented == ["field", *taken]


async def test_what_is_not_there_is_refused(turns: Turns) -> None:
    with pytest.raises(Refused, match="tr_x"):
        await turns.load("tr_x")
    with pytest.raises(Refused, match="tr_x"):
        await turns.move("tr_x", TurnEvent.FINISHED)
    with pytest.raises(Refused, match="tr_x"):
        await turns.end("tr_x", TurnEvent.FAILED, "ad_x", Outcome.DONE)
