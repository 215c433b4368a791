"""Deliveries as rows: order, attempts, receipts, abandonment, and an operation for each that matters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.delivery import Delivery, DeliveryStatus
from appliance.contracts.errors import Malformed, StateViolationError
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import deliveries
from tests.support.clock import ManualClock
from tests.support.ledger import Bench, open_bench


class Tray:
    """A bench on which deliveries are queued and moved."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = bench.clock

    async def do(self, work: Callable[[Transaction], Any]) -> Any:
        return await self.bench.database.transaction(work)

    async def queue(self, text: str = "Hot.", *, priority: int = 6, lead: str = "") -> Delivery:
        delivery: Delivery = await self.do(
            lambda tx: deliveries.queue(
                tx, self.clock, self.bench.ids, turn_id=None, language="en", text=text, lead=lead, priority=priority
            )
        )
        return delivery

    async def begin(self) -> Delivery | None:
        begun: Delivery | None = await self.do(lambda tx: deliveries.begin_next(tx, self.clock))
        return begun

    async def give_back(self, delivery: Delivery, *, heard: bool) -> Delivery:
        given: Delivery = await self.do(
            lambda tx: deliveries.give_back(tx, self.clock, delivery.id, may_have_been_heard=heard, why="away")
        )
        return given

    async def kinds(self) -> list[str]:
        return await self.bench.kinds(OperationLane.P1)


@pytest.fixture
async def tray(tmp_path: Path) -> AsyncIterator[Tray]:
    async with open_bench(tmp_path) as bench:
        yield Tray(bench)


@pytest.mark.req("R5", "V5")
async def test_the_most_urgent_goes_first_and_equals_in_order(tray: Tray) -> None:
    for text, priority in (("a", 3), ("b", 9), ("c", 6), ("d", 9)):
        await tray.queue(text, priority=priority)
    order = [begun.text for _ in range(4) if (begun := await tray.begin())]
    assert order == ["b", "d", "c", "a"]
    assert await tray.begin() is None


@pytest.mark.req("R5", "Y1")
async def test_a_receipt_ends_it(tray: Tray) -> None:
    queued = await tray.queue(lead="Alarm.")
    assert (queued.status, queued.attempts, queued.lead, queued.queued_mono_ns) == ("pending", 0, "Alarm.", tray.clock.mono_ns)
    begun = await tray.begin()
    assert begun is not None and (begun.status, begun.attempts) == ("attempting", 1)
    done = await tray.do(lambda tx: deliveries.finish(tx, tray.clock, begun.id, first_audio_mono_ns=42))
    assert (done.status, done.first_audio_mono_ns, done.ended_utc) == ("delivered", 42, tray.clock.now)
    assert await tray.kinds() == ["delivery.queued", "delivery.delivered"]
    last = await tray.bench.one(deliveries.LAST_SAID)
    assert (last["lead"], last["text"]) == ("Alarm.", "Hot.")


async def test_it_never_goes_back(tray: Tray) -> None:
    await tray.queue()
    begun = await tray.begin()
    assert begun is not None
    await tray.do(lambda tx: deliveries.fail(tx, tray.clock, begun.id, why="no script"))
    moves: list[Callable[[Transaction], Any]] = [
        lambda tx: deliveries.begin(tx, begun.id),
        lambda tx: deliveries.finish(tx, tray.clock, begun.id, first_audio_mono_ns=1),
        lambda tx: deliveries.fail(tx, tray.clock, begun.id, why="again"),
        lambda tx: deliveries.give_back(tx, tray.clock, begun.id, may_have_been_heard=True, why=""),
    ]
    for move in moves:
        with pytest.raises(StateViolationError):
            await tray.do(move)
    assert (await tray.do(lambda tx: deliveries.load(tx, begun.id))).status is DeliveryStatus.FAILED
    assert await tray.kinds() == ["delivery.queued", "delivery.failed"]


@pytest.mark.field("FC-V11")
@pytest.mark.parametrize("text", ["", "  \n"])
async def test_nothing_to_say_is_refused(tray: Tray, text: str) -> None:
    with pytest.raises(Malformed):
        await tray.queue(text)
    assert await tray.begin() is None


@pytest.mark.req("R5")
async def test_only_tries_that_may_have_been_heard_count(tray: Tray) -> None:
    await tray.queue()
    for _ in range(20):
        begun = await tray.begin()
        assert begun is not None
        given = await tray.give_back(begun, heard=False)
        assert (given.status, given.attempts, given.may_be_repeat) == ("pending", 0, False)
    assert await tray.kinds() == ["delivery.queued"]


@pytest.mark.req("R5")
async def test_the_third_try_that_may_have_been_heard_is_the_last(tray: Tray) -> None:
    await tray.queue()
    statuses = []
    for _ in range(3):
        begun = await tray.begin()
        assert begun is not None
        given = await tray.give_back(begun, heard=True)
        statuses.append((str(given.status), given.attempts, given.may_be_repeat))
    assert statuses == [("pending", 1, True), ("pending", 2, True), ("abandoned", 3, True)]
    assert await tray.begin() is None
    assert await tray.kinds() == ["delivery.queued", "delivery.abandoned"]


@pytest.mark.req("R5")
async def test_a_restart_puts_back_what_was_being_said(tray: Tray) -> None:
    await tray.queue("a")
    await tray.queue("b")
    begun = await tray.begin()
    assert begun is not None
    recovered = await tray.do(lambda tx: deliveries.recover(tx, tray.clock))
    assert [(d.text, d.may_be_repeat, d.attempts) for d in recovered] == [("a", True, 1)]
    assert await tray.do(lambda tx: deliveries.recover(tx, tray.clock)) == []
    again = await tray.begin()
    assert again is not None and (again.text, again.attempts) == ("a", 2)
    assert await tray.do(deliveries.open_count) == 2


@pytest.mark.req("R5")
async def test_after_a_day_it_is_abandoned(tray: Tray) -> None:
    await tray.queue("old")
    tray.clock.advance(24 * 3600)
    await tray.queue("new")
    tray.clock.advance(1)
    begun = await tray.begin()
    assert begun is not None and begun.text == "new"
    assert (await tray.bench.one("SELECT status FROM delivery WHERE text = 'old'"))["status"] == "abandoned"


@pytest.mark.field("FC-B01")
@pytest.mark.parametrize(("synced", "abandoned"), [(False, False), (True, True)])
async def test_after_a_reboot_age_counts_only_by_a_clock_that_is_right(tmp_path: Path, synced: bool, abandoned: bool) -> None:
    async with open_bench(tmp_path) as bench:
        await Tray(bench).queue()
        ids = bench.ids
    rebooted = ManualClock(boot_id="boot-2")
    rebooted.advance(30 * 3600)
    rebooted.mono_ns = 5
    rebooted.is_synced = synced
    async with open_bench(tmp_path, clock=rebooted, ids=ids) as bench:
        assert (await Tray(bench).begin() is None) is abandoned
