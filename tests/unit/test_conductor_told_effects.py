"""What became of a write is told whatever becomes of its turn: stopped, redirected, put aside or failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import Admission, Arrival
from appliance.contracts.interrupt import Cause
from appliance.contracts.plan import Step
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolCall
from appliance.contracts.turn import TurnEvent
from appliance.store import actions, stopping
from tests.support.hall import Hall, open_hall
from tests.support.stopping import AFTER, MARK, STOPPED, Yard, open_yard
from tests.support.waiting import until

pytestmark = pytest.mark.req("T7")

SET_FAN = "set the fan speed of motor three to eighty percent"
WHAT = "setting the fan speed of motor 3 to 80 percent"
CHECKING = f"I was interrupted while {WHAT}. I do not know yet whether it happened. I am checking."
DONE = "This was done already: the mark."


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.write_gate.set()


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


async def writing(hall: Hall) -> Admission:
    """A turn that has written to the machine and waits for its answer."""
    await hall.say(SET_FAN)
    await hall.speak_all()
    hall.bus.write_gate.clear()
    answer = (await hall.console_door.admit("yes confirm", "en", "console")).admission
    await until(lambda: hall.bus.writes, "the machine was written to")
    return await hall.look(answer)


async def heard(hall: Hall, turn_id: str | None) -> list[str]:
    """What is heard of a turn in the end."""
    await hall.speak_all()
    rows = await hall.bench.rows("SELECT text FROM delivery WHERE turn_id = ? AND status = 'delivered' ORDER BY seq", turn_id)
    return [row["text"] for row in rows]


@pytest.mark.req("R7", "R1")
async def test_a_redirect_during_a_write_does_not_swallow_that_it_was_done(hall: Hall) -> None:
    answer = await writing(hall)
    redirect = (
        await hall.console_door.admit("what is the load of motor three", "en", "console", arrival=Arrival.REDIRECT)
    ).admission
    (signal,) = [signal for lane, signal in hall.conductor.bells._led.values() if lane == redirect.lane]
    await until(lambda: signal.steered, "the turn knows")
    hall.bus.write_gate.set()
    assert (await hall.ended(redirect)).turn_id == answer.turn_id
    assert (await heard(hall, answer.turn_id))[-2:] == [f"This was done already: {WHAT}.", "The load of motor 3 is 80 percent."]


@pytest.mark.req("R7")
async def test_a_stop_while_a_write_ends_well_does_not_swallow_that_it_was_done(yard: Yard) -> None:
    turn = await yard.turn(MARK, AFTER)

    async def stop(call: ToolCall) -> None:
        await yard.stop(ring=False)

    yard.mark.after = stop
    assert await yard.runner.run(turn) == STOPPED
    assert await yard.states() == {"write": "done", "done": "skipped"} and await yard.said() == [DONE]
    assert await yard.runner.run(turn) == STOPPED and await yard.said() == [DONE]  # as after a restart


async def test_a_failure_after_a_write_does_not_swallow_that_it_was_done(yard: Yard) -> None:
    turn = await yard.turn(MARK, Step("other", "no_such_tool", {}), AFTER)
    for _ in range(2):
        assert (await yard.runner.run(turn)).kind == "failed"
        assert sorted(await yard.said()) == ["Something in my plan was wrong, so I stopped. It has a step I cannot do.", DONE]


async def test_what_was_told_of_is_not_told_again(yard: Yard) -> None:
    turn = await yard.turn(MARK, AFTER, Step("other", "no_such_tool", {}))
    assert (await yard.runner.run(turn)).kind == "failed"
    assert await yard.said() == ["Written: one.", "Something in my plan was wrong, so I stopped. It has a step I cannot do."]


@pytest.mark.req("R7")
async def test_words_on_a_write_outlive_a_stop_and_others_do_not(yard: Yard) -> None:
    turn = await yard.turn(Step("first", "say", {"text": "I begin."}), MARK, AFTER, Step("last", "say", {"text": "Thank you."}))
    await yard.runner.run(turn)
    bench = yard.bench
    await bench.database.transaction(lambda tx: stopping.clear_away(tx, bench.clock, turn.id, "enough"))
    left = await bench.rows("SELECT text FROM delivery WHERE status = 'pending'")
    assert [row["text"] for row in left] == ["Written: one."]


@pytest.mark.req("R4", "R6")
async def test_work_put_aside_after_restarts_is_named_with_what_nobody_knows_of_it(hall: Hall) -> None:
    answer = await writing(hall)
    await hall.die()
    suspended = []
    for _ in range(3):
        recovered = await hall.restart()
        suspended = recovered.suspended
        if suspended:
            break
        hall.bus.open_gate.clear()
        hall.open()
        await until(lambda: hall.bus.reading == 1, "the write is being checked")
        await hall.die()
    hall.bus.open_gate.set()
    assert [turn.id for turn in suspended] == [answer.turn_id]
    await hall.conductor.tell_recovered(0, suspended)
    told = await heard(hall, answer.turn_id)
    assert CHECKING in await hall.said() and CHECKING not in told  # nobody checks any more
    assert f"have put this aside: {SET_FAN}." in told[-2]
    assert told[-1] == f"I still do not know whether it was done: {WHAT}. Please check at the machine and settle it."
    hall.open()


@pytest.mark.req("R7", "R6")
async def test_a_stop_over_a_restart_tells_what_nobody_knows(hall: Hall) -> None:
    answer = await writing(hall)
    await hall.die()
    bench, turn_id = hall.bench, str(answer.turn_id)

    def stop(tx: Transaction) -> None:
        stopping.stop(tx, bench.clock, bench.ids, turn_id, cause=Cause.USER, by="console", reason="no")

    await bench.database.transaction(stop)
    hall.bus.write_gate.set()
    recovered = await hall.restart()
    assert [turn.id for turn in recovered.stopped] == [turn_id]
    await hall.conductor.tell_recovered(0, [], recovered.stopped)
    assert (await heard(hall, turn_id))[-1].startswith(f"I stopped while {WHAT}. I do not know whether it happened.")
    hall.open()


@pytest.mark.req("S7")
@pytest.mark.parametrize("event", [TurnEvent.FAILED, TurnEvent.UNANSWERED])
async def test_a_turn_that_ends_badly_leaves_no_step_pending(hall: Hall, event: TurnEvent) -> None:
    if event is TurnEvent.FAILED:
        hall.bus.is_away = True
        asked = await hall.say(SET_FAN)
        await hall.say("yes confirm")
        expected = {"confirm": "done", "write": "failed", "done": "skipped", "cancelled": "skipped"}
    else:
        asked = await hall.say("set the fan speed of motor three to thirty percent")
        await hall.say(SET_FAN)  # replaces it
        expected = dict.fromkeys(("confirm", "write", "done", "cancelled"), "skipped")
    steps = await hall.bench.database.transaction(lambda tx: actions.of_turn(tx, str(asked.turn_id)))
    assert {step.step_id: str(step.state) for step in steps} == expected
    assert all((step.result or {}).get("why") for step in steps if step.state == "skipped")
