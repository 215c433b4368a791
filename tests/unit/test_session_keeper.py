"""Sessions that nobody goes on with are closed, and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from appliance.admission.session_keeper import SessionKeeper
from appliance.contracts.admission import Outcome
from appliance.contracts.operation import OperationLane
from appliance.contracts.turn import TurnEvent
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import admissions, sessions
from tests.support.hall import LOW_PRESSURE, Hall, open_hall
from tests.support.ledger import Bench, given_admission, given_turn, open_bench

IDLE_S = 600.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
def keeper(bench: Bench) -> SessionKeeper:
    return SessionKeeper(bench.database, bench.clock, idle_s=IDLE_S)


def turns_of(bench: Bench) -> Turns:
    return Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())


async def talked(bench: Bench, key: str, lane: str = "console:a") -> str:
    """One turn of a lane from its beginning to its end; return its session."""
    turn = await given_turn(bench, key, lane=lane)
    await turns_of(bench).end(turn.id, TurnEvent.FINISHED, turn.admission_id, Outcome.DONE)
    return turn.session_id


async def waits(bench: Bench, keeper: SessionKeeper) -> list[str]:
    """Let the whole time pass, and look twice: when it began and when it is over."""
    first = await keeper.close_idle()
    bench.clock.advance(IDLE_S)
    return first + await keeper.close_idle()


@pytest.mark.req("R10", "S9")
async def test_an_idle_session_is_closed_and_the_next_turn_opens_another(bench: Bench, keeper: SessionKeeper) -> None:
    session = await talked(bench, "u1")
    assert await keeper.close_idle() == []
    bench.clock.advance(IDLE_S - 1)
    assert await keeper.close_idle() == []
    bench.clock.advance(1)
    assert await keeper.close_idle() == [session]
    assert (await bench.one("SELECT state FROM session"))["state"] == "closed"
    assert (await bench.kinds(OperationLane.P1))[-1] == "session.closed"
    assert await talked(bench, "u2") != session


@pytest.mark.req("R10")
async def test_a_turn_in_between_begins_the_time_anew(bench: Bench, keeper: SessionKeeper) -> None:
    session = await talked(bench, "u1")
    await keeper.close_idle()
    bench.clock.advance(IDLE_S - 1)
    await talked(bench, "u2")
    bench.clock.advance(2)
    assert await keeper.close_idle() == []
    bench.clock.advance(IDLE_S)
    assert await keeper.close_idle() == [session]


@pytest.mark.req("R10")
async def test_one_that_goes_on_just_now_stays_open(bench: Bench) -> None:
    """A turn that came after the look and before its transaction: the session has been gone on with."""
    session = await talked(bench, "u1")
    newest = (await bench.one(sessions.RESTING))["newest"]
    await talked(bench, "u2")
    assert await bench.database.transaction(lambda tx: sessions.close_idle(tx, bench.clock, {session: newest})) == []


@pytest.mark.req("R10")
async def test_what_waits_runs_or_is_unknown_keeps_its_session(bench: Bench, keeper: SessionKeeper) -> None:
    await talked(bench, "u1")
    waiting = await given_admission(bench, "u2", lane="console:a")
    assert await waits(bench, keeper) == []
    turn = await turns_of(bench).open(waiting, language="en", intent="x", context={}, offline=False)
    assert await waits(bench, keeper) == []
    await bench.database.transaction(lambda tx: admissions.doubt(tx, bench.clock, waiting.id))
    assert await waits(bench, keeper) == []
    await bench.database.transaction(lambda tx: admissions.settle(tx, bench.clock, waiting.id, Outcome.INTERRUPTED))
    assert await waits(bench, keeper) == [], "its turn was never ended"
    await turns_of(bench).move(turn.id, TurnEvent.FAILED, reason="x")
    assert await waits(bench, keeper) == [turn.session_id]


@pytest.mark.req("R10")
async def test_a_clock_that_is_set_closes_nothing(bench: Bench, keeper: SessionKeeper) -> None:
    await talked(bench, "u1")
    await keeper.close_idle()
    bench.clock.now += timedelta(days=20_000)  # the time arrives: until now it was 1970
    assert await keeper.close_idle() == []
    assert await SessionKeeper(bench.database, bench.clock, idle_s=IDLE_S).close_idle() == [], "nor does a restart"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.mark.req("R10", "S7")
async def test_a_question_and_a_live_alarm_keep_their_sessions(hall: Hall) -> None:
    bench = hall.bench
    keeper = SessionKeeper(bench.database, bench.clock, idle_s=IDLE_S)
    await hall.say("set the fan speed of motor three to eighty percent")
    assert len(await hall.questions()) == 1
    assert await waits(bench, keeper) == []
    await hall.say("no")
    assert len(await waits(bench, keeper)) == 1
    await hall.alarm(**LOW_PRESSURE)
    assert await waits(bench, keeper) == []
    left = await bench.rows("SELECT lane FROM session WHERE state = 'open'")
    assert [row["lane"] for row in left] == ["asset:pump_3"]


@pytest.mark.req("R10")
async def test_many_are_closed_a_few_at_a_time(bench: Bench, keeper: SessionKeeper) -> None:
    for number in range(120):
        lane = f"console:{number}"
        await bench.database.transaction(lambda tx, lane=lane: sessions.open_for(tx, bench.clock, bench.ids, lane))
    assert len(await waits(bench, keeper)) == 120
