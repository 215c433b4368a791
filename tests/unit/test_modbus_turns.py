"""Whose turn it is: rotation between units, order within one, units held back, cancelled waiters."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Unavailable
from drivers.modbus.turns import MOST_WAITING, TurnOrder


class Line:
    """Tasks that take a turn, note it and give it back."""

    def __init__(self) -> None:
        self.turns = TurnOrder()
        self.served: list[tuple[int, int]] = []
        self.tasks: dict[tuple[int, int], asyncio.Task[None]] = {}

    def wait(self, unit: int, number: int, *, first: bool = False) -> asyncio.Task[None]:
        task = asyncio.create_task(self._serve(unit, number, first))
        self.tasks[unit, number] = task
        return task

    async def _serve(self, unit: int, number: int, first: bool) -> None:
        await self.turns.take(unit, first=first)
        try:
            self.served.append((unit, number))
            await asyncio.sleep(0)
        finally:
            self.turns.give_back()

    async def all(self) -> None:
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.req("F1")
async def test_units_take_turns_and_each_keeps_its_order() -> None:
    line = Line()
    await line.turns.take(0)
    for number in range(4):
        line.wait(1, number)
    line.wait(2, 0)
    line.wait(3, 0)
    line.wait(2, 1)
    await _settle()
    line.turns.give_back()
    await line.all()
    assert line.served == [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2), (1, 3)]


async def test_a_second_try_goes_first_within_its_unit() -> None:
    line = Line()
    await line.turns.take(0)
    line.wait(1, 0)
    line.wait(2, 0)
    line.wait(1, 99, first=True)
    await _settle()
    line.turns.give_back()
    await line.all()
    assert line.served == [(1, 99), (2, 0), (1, 0)]


@pytest.mark.req("F1")
@pytest.mark.field("FC-F11")
async def test_a_unit_held_back_delays_nobody_and_keeps_its_requests() -> None:
    line = Line()
    line.turns.hold(1, 0.05)
    for number in range(3):
        line.wait(1, number)
    for number in range(3):
        line.wait(2, number)
    await _settle()
    await asyncio.gather(*(line.tasks[2, number] for number in range(3)))
    assert line.served == [(2, 0), (2, 1), (2, 2)]
    await line.all()
    assert line.served[3:] == [(1, 0), (1, 1), (1, 2)]


async def test_holding_again_counts_from_then_and_closing_lets_go() -> None:
    line = Line()
    line.turns.hold(1, 0.01)
    line.turns.hold(1, 30)
    waiting = line.wait(1, 0)
    await asyncio.wait({waiting}, timeout=0.03)
    assert line.served == []
    line.turns.close()
    await line.all()
    assert line.served == [(1, 0)]


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_a_cancelled_waiter_loses_no_turn_of_the_others(cancelled: int) -> None:
    line = Line()
    await line.turns.take(0)
    for number in range(3):
        line.wait(1, number)
    await _settle()
    line.tasks[1, cancelled].cancel()
    await _settle()
    line.turns.give_back()
    await line.all()
    assert line.served == [(1, number) for number in range(3) if number != cancelled]
    await line.turns.take(5)


async def test_a_turn_given_in_the_moment_of_the_cancellation_is_passed_on() -> None:
    line = Line()
    await line.turns.take(0)
    first, _ = line.wait(1, 0), line.wait(2, 0)
    await _settle()
    line.turns.give_back()
    first.cancel()
    await line.all()
    assert first.cancelled()
    assert line.served == [(2, 0)]


@pytest.mark.req("F1")
@pytest.mark.field("FC-F11")
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=12), st.booleans())
def test_however_many_are_cancelled_at_once_the_rest_is_served_and_the_next_one_too(
    waiters: list[tuple[int, bool]], is_holder_cancelled: bool
) -> None:
    """Of ``waiters``, the unit, and whether they are cancelled, all in one go with one request in flight."""
    asyncio.run(_cancelled_together(waiters, is_holder_cancelled))


async def _cancelled_together(waiters: list[tuple[int, bool]], is_holder_cancelled: bool) -> None:
    line, answered = Line(), asyncio.Event()

    async def ask() -> None:
        await line.turns.take(9)
        try:
            await answered.wait()
        finally:
            line.turns.give_back()

    line.tasks[9, 0] = in_flight = asyncio.create_task(ask())
    await asyncio.sleep(0)
    for number, (unit, _) in enumerate(waiters):
        line.wait(unit, number)
    await asyncio.sleep(0)
    if is_holder_cancelled:
        in_flight.cancel()
    for number, (unit, is_cancelled) in enumerate(waiters):
        if is_cancelled:
            line.tasks[unit, number].cancel()
    answered.set()
    async with asyncio.timeout(20):
        ends = await asyncio.gather(*line.tasks.values(), return_exceptions=True)
        assert {type(end) for end in ends if end is not None} <= {asyncio.CancelledError}
        for number, (unit, is_cancelled) in enumerate(waiters):
            assert ((unit, number) in line.served) is not is_cancelled
        await line.turns.take(1)


async def test_more_than_can_ever_be_served_do_not_wait() -> None:
    line = Line()
    await line.turns.take(0)
    for number in range(MOST_WAITING):
        line.wait(1, number)
    await _settle()
    with pytest.raises(Unavailable, match="wait for device 1"):
        await line.turns.take(1)
    line.wait(2, 0)
    await _settle()
    line.turns.give_back()
    await line.all()
    assert len(line.served) == MOST_WAITING + 1
