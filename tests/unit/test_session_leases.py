"""A turn works under a lease that is renewed, within its lifespan, and only while it gets on; else it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Outcome
from appliance.contracts.errors import Refused
from appliance.contracts.plan import ActionState, Plan, Step
from appliance.contracts.turn import TurnEvent
from appliance.session.lease_keeper import LeaseKeeper
from appliance.session.settings import SessionSettings
from appliance.session.turn_watch import LIVENESS_S, TurnWatch
from appliance.session.turns import Turns
from appliance.store import actions, leases
from tests.support.hall import Hall, open_hall
from tests.support.ledger import Bench, given_admission, given_turn, open_bench
from tests.support.waiting import until

TEMPERATURE = "what is the temperature of motor three"
SET_FAN = "set the fan speed of motor three to eighty percent"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.open_gate.set()
        hall.bus.write_gate.set()


def turns_of(bench: Bench, **changes: Any) -> Turns:
    return Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings(**changes))


async def opened(bench: Bench, turns: Turns, key: str = "u1", lane: str = "a") -> Any:
    admission = await given_admission(bench, key, lane=lane)
    return await turns.open(admission, language="en", intent="x", context={}, offline=False)


async def held(bench: Bench) -> list[dict[str, Any]]:
    return await bench.rows(
        "SELECT turn_id, lane, epoch, boot_id, expires_mono_ns - renewed_mono_ns AS lasts_ns FROM lease ORDER BY turn_id"
    )


async def wishes(bench: Bench) -> list[tuple[str, str, str]]:
    rows = await bench.rows("SELECT turn_id, cause, reason FROM interrupt ORDER BY seq")
    return [(row["turn_id"], row["cause"], row["reason"]) for row in rows]


# leases ------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R3")
async def test_a_turn_has_a_lease_of_300_s_exactly_while_it_works(bench: Bench) -> None:
    turns = turns_of(bench)
    turn = await opened(bench, turns)
    assert (leases.LEASE_S, leases.RENEW_EVERY_S) == (300.0, 60.0)
    lease = {"turn_id": turn.id, "lane": "a", "epoch": bench.epoch, "boot_id": bench.clock.boot_id, "lasts_ns": 300 * 10**9}
    assert await held(bench) == [lease]
    await turns.end(turn.id, TurnEvent.FINISHED, turn.admission_id, Outcome.DONE)
    assert await held(bench) == []


@pytest.mark.req("R3", "S7")
async def test_a_turn_that_waits_for_an_answer_has_no_lease_and_gets_one_with_the_answer(hall: Hall) -> None:
    asked = await hall.say(SET_FAN)
    assert await held(hall.bench) == []
    hall.bus.write_gate.clear()
    answer = (await hall.console_door.admit("yes confirm", "en", "console")).admission
    await until(lambda: hall.bus.writes, "the machine is written to")
    assert [lease["turn_id"] for lease in await held(hall.bench)] == [asked.turn_id]
    hall.bus.write_gate.set()
    await hall.ended(answer)
    assert await held(hall.bench) == []


@pytest.mark.req("R3")
async def test_all_leases_are_renewed_in_one_transaction(bench: Bench) -> None:
    turns = turns_of(bench)
    for number in range(3):
        await opened(bench, turns, f"u{number}", f"lane {number}")
    commits = 0

    def count() -> None:
        nonlocal commits
        commits += 1

    bench.database.on_commit(count)
    bench.clock.advance(60)
    assert await LeaseKeeper(bench.database, bench.clock, bench.ids, bench.epoch).renew() == []
    until_ns = {row["expires_mono_ns"] for row in await bench.rows("SELECT expires_mono_ns FROM lease")}
    assert until_ns == {bench.clock.mono_ns + 300 * 10**9} and commits == 1


@pytest.mark.req("R3")
async def test_nothing_is_written_while_nothing_works(bench: Bench) -> None:
    commits: list[int] = []
    bench.database.on_commit(lambda: commits.append(1))
    assert await LeaseKeeper(bench.database, bench.clock, bench.ids, bench.epoch).renew() == [] and commits == []


LOSSES = {
    "it is gone": "DELETE FROM lease",
    "another boot's": "UPDATE lease SET boot_id = 'before'",
    "run out": "UPDATE lease SET expires_mono_ns = 0",
}


@pytest.mark.req("R3", "R7")
@pytest.mark.parametrize("how", LOSSES)
async def test_who_loses_the_lease_is_interrupted_in_the_systems_name(hall: Hall, how: str) -> None:
    hall.bus.open_gate.clear()
    asked = (await hall.console_door.admit(TEMPERATURE, "en", "console")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    turn_id = (await hall.look(asked)).turn_id
    await hall.bench.database.transaction(lambda tx: tx.execute(LOSSES[how]) and None)
    assert await hall.keeper.renew() == [turn_id]
    ended = await hall.ended(asked)
    turn = await hall.turn(turn_id)
    assert (ended.outcome, turn["state"], turn["failure"]) == (Outcome.INTERRUPTED, "failed", "its lease of 300 s was lost")
    assert await wishes(hall.bench) == [(turn_id, "system", "its lease of 300 s was lost")]
    assert await hall.keeper.renew() == []


@pytest.mark.req("R3")
async def test_a_stall_longer_than_the_lease_loses_it(bench: Bench) -> None:
    turn = await opened(bench, turns_of(bench))
    keeper = LeaseKeeper(bench.database, bench.clock, bench.ids, bench.epoch)
    for _ in range(10):  # renewed in time it lasts for ever
        bench.clock.advance(60)
        assert await keeper.renew() == []
    bench.clock.advance(300.1)
    assert await keeper.renew() == [turn.id]


@pytest.mark.req("R3", "T6")
async def test_no_effect_begins_without_a_lease(bench: Bench) -> None:
    turn = await opened(bench, turns_of(bench))
    database, clock, epoch = bench.database, bench.clock, bench.epoch
    await database.transaction(lambda tx: leases.require(tx, clock, turn.id, epoch))
    for epoch_asking in (epoch - 1, epoch + 1):
        with pytest.raises(Refused, match="has lost its lease of 300 s"):
            await database.transaction(lambda tx, asking=epoch_asking: leases.require(tx, clock, turn.id, asking))
    clock.advance(300)
    with pytest.raises(Refused, match=turn.id):
        await database.transaction(lambda tx: leases.require(tx, clock, turn.id, epoch))


@pytest.mark.req("R3", "T6")
async def test_a_step_of_a_turn_that_lost_its_lease_has_no_effect(tmp_path: Path) -> None:
    write = Step("write", "write_report", {"title": "Fan", "asset": "motor_3", "lines": ["It was set."]})
    async with open_hall(tmp_path, is_open=False) as hall:  # else its conductor may take the admission before the turn is opened
        turn = await given_turn(hall.bench, "u1", [write])
        hall.bench.clock.advance(301)
        outcome = await hall.rooms.runner.run(turn)
        assert outcome.kind == "failed" and "has lost its lease of 300 s" in outcome.failure
        assert await hall.bench.rows("SELECT 1 FROM effect") == []
        await hall.rooms.turns.end(turn.id, TurnEvent.FAILED, turn.admission_id, Outcome.FAILED, reason=outcome.failure)
        hall.open()


@pytest.mark.req("R3")
async def test_the_keeper_renews_by_itself(bench: Bench) -> None:
    await opened(bench, turns_of(bench))
    bench.clock.advance(100)
    keeper = LeaseKeeper(bench.database, bench.clock, bench.ids, bench.epoch, every_s=0.01)
    keeping = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(20):
            renewed = "SELECT 1 FROM lease WHERE renewed_mono_ns = ?"
            while not await bench.rows(renewed, bench.clock.mono_ns):  # noqa: ASYNC110 - it is looked at in the ledger
                await asyncio.sleep(0)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


# progress and lifespan ---------------------------------------------------------------------------------------------
def watch_of(bench: Bench, turns: Turns) -> TurnWatch:
    return TurnWatch(turns, bench.database, bench.clock, bench.ids)


@pytest.mark.req("R3")
async def test_renewing_is_not_progress(bench: Bench) -> None:
    """600 s without progress end a turn whose lease was renewed every minute."""
    assert LIVENESS_S == 600.0
    turns = turns_of(bench, base_conversation_s=10_000)
    watch, keeper = watch_of(bench, turns), LeaseKeeper(bench.database, bench.clock, bench.ids, bench.epoch)
    turn = await opened(bench, turns)
    for _ in range(10):
        assert await wishes(bench) == []
        await watch.look()
        bench.clock.advance(60)
        assert await keeper.renew() == []
    assert await watch.look() is not None
    assert await wishes(bench) == [(turn.id, "system", "it got nowhere for 600 s")]
    assert await watch.look() is None  # once is enough


@pytest.mark.req("R3")
async def test_every_step_and_every_move_is_progress(bench: Bench) -> None:
    turns = turns_of(bench, base_conversation_s=10_000)
    watch = watch_of(bench, turns)
    turn = await opened(bench, turns)
    for _ in range(4):
        bench.clock.advance(400)
        watch.progress(turn.id)
        await watch.look()
    await turns.move(turn.id, TurnEvent.PLAN_REJECTED, reason="x")
    bench.clock.advance(599)
    assert await watch.look() == pytest.approx(1.0)
    assert await wishes(bench) == []


@pytest.mark.req("S2", "R7")
async def test_a_turn_whose_lifespan_is_over_is_stopped_while_it_runs(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    asked = (await hall.console_door.admit(TEMPERATURE, "en", "console")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    turn_id = (await hall.look(asked)).turn_id
    next_s = await hall.watch.look()
    assert next_s == pytest.approx(120 * 0.8)  # one tool call has begun
    hall.bench.clock.advance(95)
    assert await hall.watch.look() == pytest.approx(1.0)
    hall.bench.clock.advance(1)
    await hall.watch.look()
    ended = await hall.ended(asked)
    assert ended.outcome is Outcome.INTERRUPTED
    assert (await hall.turn(turn_id))["failure"] == "its lifespan is over"
    assert await hall.said(turn_id) == ["That took too long, so I have stopped it. Please look at what it did."]


@pytest.mark.req("S2", "S7", "R3")
async def test_neither_watch_nor_lease_runs_while_a_person_thinks(hall: Hall) -> None:
    await hall.say(SET_FAN)
    assert await hall.watch.look() is None
    hall.bench.clock.advance(1_700)
    assert (await hall.watch.look(), await hall.keeper.renew()) == (None, [])
    assert await wishes(hall.bench) == [] and await hall.questions() != []


@pytest.mark.req("S2")
async def test_the_lifespan_stands_still_while_the_appliance_is_down(bench: Bench) -> None:
    turns = turns_of(bench)
    turn = await opened(bench, turns)
    bench.clock.advance(100)
    await turns.move(turn.id, TurnEvent.PLAN_REJECTED, reason="x")
    bench.clock.advance(100_000)
    again = turns_of(bench)
    assert await again.left_s([turn.id]) == {turn.id: pytest.approx(200.0)}
    assert again.working == frozenset()


@pytest.mark.req("S2", "R3")
async def test_the_watch_wakes_by_itself_at_the_earliest_limit_and_polls_nothing(hall: Hall) -> None:
    looks = 0
    look = hall.watch.look

    async def counted() -> float | None:
        nonlocal looks
        looks += 1
        return await look()

    hall.watch.look = counted  # type: ignore[method-assign]
    watching = asyncio.create_task(hall.watch.run())
    try:
        hall.bus.open_gate.clear()
        asked = (await hall.console_door.admit(TEMPERATURE, "en", "console")).admission
        await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
        hall.bench.clock.advance(119.9)  # manual: less than the real timer's tolerance is left of 96 s
        hall.watch.progress("another turn")
        assert (await hall.ended(asked)).outcome is Outcome.INTERRUPTED
        assert looks <= 4
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.req("S2")
async def test_a_step_of_a_turn_shortens_what_is_left(bench: Bench) -> None:
    turns = turns_of(bench)
    turn = await opened(bench, turns)
    turn = await turns.plan(turn, Plan("x", "phrase:x", (Step("a", "say", {"text": "x"}), Step("b", "say", {"text": "x"})), 1.0))
    first, second = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
    assert await turns.left_s([turn.id]) == {turn.id: pytest.approx(300)}
    for step, left_s in ((first, 120 * 0.8), (second, 120 * 0.8**2)):
        await bench.database.transaction(lambda tx, id=step.id: actions.change(tx, id, ActionState.DONE, {}))
        assert await turns.left_s([turn.id]) == {turn.id: pytest.approx(left_s)}
