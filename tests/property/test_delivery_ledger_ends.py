"""Whatever the other side answers and whenever the core dies: every delivery ends, and a repeat says that it is one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.contracts.delivery import Channel, Delivery
from appliance.contracts.store import Transaction
from appliance.store import deliveries, operations
from appliance.store.database import Database
from appliance.store.deliveries import MOST_ATTEMPTS
from tests.support.clock import CountingIds, ManualClock

WEBHOOKS = ("one", "two")
SERVED: tuple[tuple[Channel, str | None], ...] = (
    (Channel.SPEECH, None),
    (Channel.MQTT, None),
    *((Channel.WEBHOOK, n) for n in WEBHOOKS),
)

OUTBOX = st.integers(0, len(SERVED) - 1)
MOVES = st.one_of(
    st.tuples(st.just("queue"), OUTBOX),
    st.tuples(st.just("taken, no receipt"), OUTBOX),
    st.tuples(st.just("taken"), OUTBOX),
    st.tuples(st.just("refused"), OUTBOX),
    st.tuples(st.just("not sent"), OUTBOX),
    st.tuples(st.just("in doubt"), OUTBOX),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("reboot"), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 30 * 3600)),
)


@dataclass
class Books:
    """What the other sides got: deliveries as they were when they were handed over."""

    got: list[Delivery]
    queued: list[str]
    under_way: dict[int, str]


@pytest.mark.req("R5")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(moves=st.lists(MOVES, min_size=5, max_size=50))
def test_every_delivery_ends_and_every_repeat_is_marked(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, int]]
) -> None:
    async def scenario(folder: Path) -> None:
        clock = ManualClock()
        database = await Database.open(folder / "ledger.db", clock)
        try:
            database = await _live(database, folder, clock, moves)
        finally:
            await database.close()

    asyncio.run(scenario(tmp_path_factory.mktemp("deliveries")))


async def _live(database: Database, folder: Path, clock: ManualClock, moves: list[tuple[str, int]]) -> Database:
    ids, books = CountingIds(), Books([], [], {})
    await database.transaction(lambda tx: operations.set_origin(tx, clock, "line-3"))
    for what, amount in moves:
        if what == "queue":
            await database.transaction(partial(_queue, clock=clock, ids=ids, books=books, outbox=amount))
        elif what == "wait":
            clock.advance(amount)
        elif what in ("restart", "reboot"):
            await database.close()
            if what == "reboot":
                clock = ManualClock(clock.now, boot_id=f"{clock.boot_id}+")
            database = await Database.open(folder / "ledger.db", clock)
            for outbox, (channel, topic) in enumerate(SERVED):
                await database.transaction(partial(deliveries.recover, clock=clock, channel=channel, topic=topic))
                books.under_way.pop(outbox, None)
        else:
            await database.transaction(partial(_attempt, clock=clock, books=books, what=what, outbox=amount))
    clock.advance(25 * 3600)  # nobody is there any more
    books.under_way.clear()
    for outbox, (channel, topic) in enumerate(SERVED):
        await database.transaction(partial(deliveries.recover, clock=clock, channel=channel, topic=topic))
        while await database.transaction(partial(_attempt, clock=clock, books=books, what="taken", outbox=outbox)):
            pass
    await _check(database, books)
    return database


def _queue(tx: Transaction, clock: ManualClock, ids: CountingIds, books: Books, outbox: int) -> None:
    channel, topic = SERVED[outbox]
    if channel is Channel.SPEECH:
        queued = deliveries.queue(tx, clock, ids, turn_id=None, language="en", text="x", priority=7)
    elif channel is Channel.MQTT:
        queued = deliveries.queue_message(tx, clock, ids, turn_id=None, topic="a", payload={}, priority=7)
    else:
        queued = deliveries.queue_webhook(tx, clock, ids, turn_id=None, name=str(topic), payload={}, priority=7)
    books.queued.append(queued.id)


def _attempt(tx: Transaction, clock: ManualClock, books: Books, what: str, outbox: int) -> bool:
    """One try of an outbox, as it would go: begun, handed over or not, and what came of it recorded or lost with the process."""
    if outbox in books.under_way:
        return False  # it died over this one, and did not come back yet
    channel, topic = SERVED[outbox]
    delivery = deliveries.begin_next(tx, clock, channel, topic)
    if delivery is None:
        return False
    if what in ("taken", "taken, no receipt", "in doubt"):
        books.got.append(delivery)
    if what == "taken":
        deliveries.finish(tx, clock, delivery.id)
    elif what == "refused":
        deliveries.fail(tx, clock, delivery.id, why="no")
    elif what == "taken, no receipt":
        books.under_way[outbox] = delivery.id
    else:
        deliveries.give_back(tx, clock, delivery.id, may_have_been_heard=what == "in doubt", why="away")
    return True


async def _check(database: Database, books: Books) -> None:
    rows = {row["id"]: row for row in await database.fetch("SELECT * FROM delivery")}
    assert list(rows) == books.queued
    assert {row["status"] for row in rows.values()} <= {"delivered", "failed", "abandoned"}
    got = Counter(each.id for each in books.got)
    for identity, row in rows.items():
        if row["status"] == "delivered":
            assert got[identity] >= 1
        assert got[identity] <= MOST_ATTEMPTS
    seen: set[str] = set()
    for each in books.got:
        assert each.may_be_repeat >= (each.id in seen), "the second time it says that it may be the second"
        seen.add(each.id)
    first_times = [each for n, each in enumerate(books.got) if each.id not in {other.id for other in books.got[:n]}]
    for channel, topic in SERVED:
        order = [each.seq for each in first_times if each.channel is channel and (topic is None or each.topic == topic)]
        assert order == sorted(order), "who is told is told in order"
    ends = await database.fetch("SELECT entity, count(*) AS times FROM operation WHERE kind IN"
                                " ('delivery.delivered', 'delivery.failed', 'delivery.abandoned') GROUP BY entity")  # fmt: skip
    assert {row["entity"]: row["times"] for row in ends} == dict.fromkeys(books.queued, 1), "and ends once"
