"""Messages to the broker: on disk before they are sent, in order, with a receipt, and marked when they may be repeats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import Alarm, AlarmState
from appliance.contracts.delivery import Channel
from appliance.contracts.errors import Malformed, Refused, StorageFullError, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.delivery.alarm_messages import alarm_messages
from appliance.delivery.publisher import Publisher
from appliance.store import deliveries, views
from tests.support.ledger import Bench, open_bench

TOPIC = "floorhand/hand/alarms"


class Inbox:
    """Stands for the broker: remembers what it was given; ``answers`` are raised in turn instead of taking it."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, dict[str, Any], bool]] = []
        self.offered = 0
        self.answers: list[Exception] = []
        self.connected = asyncio.Event()
        self.connected.set()
        self.hangs = False

    async def wait_connected(self) -> None:
        await self.connected.wait()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.offered += 1
        if self.answers:
            raise self.answers.pop(0)
        self.taken.append((topic, json.loads(payload), retain))
        if self.hangs:
            await asyncio.get_running_loop().create_future()

    @property
    def numbers(self) -> list[int]:
        return [payload["n"] for _, payload, _ in self.taken]


class Desk:
    """A bench with a publisher on it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.inbox = Inbox()

    def publisher(self) -> Publisher:
        return Publisher(self.bench.database, self.bench.clock, self.inbox, waits=lambda: iter([0.0] * 99))

    async def queue(self, n: int, *, topic: str = TOPIC, priority: int = 9, retain: bool = False) -> None:
        def work(tx: Transaction) -> None:
            deliveries.queue_message(
                tx,
                self.bench.clock,
                self.bench.ids,
                turn_id=None,
                topic=topic,
                payload={"n": n},
                priority=priority,
                retain=retain,
            )

        await self.bench.database.transaction(work)

    async def rows(self) -> list[dict[str, Any]]:
        return await self.bench.rows("SELECT * FROM delivery ORDER BY seq")

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds(await self.rows()):  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.005)

    async def until_all(self, status: str) -> None:
        await self.until(lambda rows: all(row["status"] == status for row in rows))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_bench(tmp_path) as bench:
        yield Desk(bench)


@asynccontextmanager
async def running(publisher: Publisher) -> AsyncIterator[Publisher]:
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher
        assert not task.done(), "the publisher ended"
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.req("R5", "F5")
async def test_what_was_queued_is_published_in_order_and_the_receipt_is_kept(desk: Desk) -> None:
    for n in range(3):
        await desk.queue(n)
    async with running(desk.publisher()) as publisher:
        await desk.until_all("delivered")
        await desk.queue(3, retain=True)
        publisher.notify()
        await desk.until_all("delivered")
    assert desk.inbox.taken == [(TOPIC, {"n": n}, n == 3) for n in range(4)]
    assert await desk.bench.kinds(OperationLane.P1) == [*["delivery.queued"] * 3, *["delivery.delivered"] * 3, "delivery.queued",
                                                       "delivery.delivered"]  # fmt: skip


async def test_the_attempt_is_on_disk_before_anything_is_sent(desk: Desk) -> None:
    desk.inbox.hangs = True
    await desk.queue(1)
    async with running(desk.publisher()):
        await desk.until(lambda _: bool(desk.inbox.taken))
        (row,) = await desk.rows()
        assert (row["status"], row["attempts"]) == ("attempting", 1)


@pytest.mark.req("R5")
@pytest.mark.field("FC-F14")
async def test_without_a_broker_everything_waits_and_no_try_is_counted(desk: Desk) -> None:
    desk.inbox.connected.clear()
    async with running(desk.publisher()) as publisher:
        for n in range(5):
            await desk.queue(n)
            publisher.notify()
        assert {(row["status"], row["attempts"]) for row in await desk.rows()} == {("pending", 0)}
        desk.inbox.answers = [Unavailable("not connected to the broker")]
        desk.inbox.connected.set()
        await desk.until_all("delivered")
    assert desk.inbox.numbers == [0, 1, 2, 3, 4]
    assert {(row["attempts"], row["may_be_repeat"]) for row in await desk.rows()} == {(1, 0)}


@pytest.mark.req("R5")
async def test_what_may_have_arrived_says_so_and_is_given_up_after_three_tries(desk: Desk) -> None:
    lost = Unavailable("the broker did not acknowledge in time", may_have_arrived=True)
    desk.inbox.answers = [lost]
    await desk.queue(1)
    async with running(desk.publisher()) as publisher:
        await desk.until_all("delivered")
        assert desk.inbox.taken == [(TOPIC, {"n": 1, "may_be_repeat": True}, False)]
        desk.inbox.answers = [lost] * 3
        await desk.queue(2)
        publisher.notify()
        await desk.until(lambda rows: rows[1]["status"] == "abandoned")
    assert desk.inbox.numbers == [1]
    assert (await desk.rows())[1]["failure"] == "the broker did not acknowledge in time"


@pytest.mark.req("R5")
async def test_what_a_restart_cut_short_is_sent_again_and_marked(desk: Desk) -> None:
    desk.inbox.hangs = True
    await desk.queue(1)
    async with running(desk.publisher()):
        await desk.until(lambda _: bool(desk.inbox.taken))
    desk.inbox.hangs = False
    async with running(desk.publisher()):
        await desk.until_all("delivered")
    assert [payload for _, payload, _ in desk.inbox.taken] == [{"n": 1}, {"n": 1, "may_be_repeat": True}]


@pytest.mark.req("R5")
async def test_what_the_broker_will_never_take_failed_and_blocks_nothing(desk: Desk) -> None:
    desk.inbox.answers = [Refused("the broker refuses a message on x: Not authorized")]
    await desk.queue(1)
    await desk.queue(2)
    async with running(desk.publisher()):
        await desk.until(lambda rows: [row["status"] for row in rows] == ["failed", "delivered"])
    assert "Not authorized" in (await desk.rows())[0]["failure"]


@pytest.mark.req("R5")
async def test_a_message_that_waited_a_day_is_abandoned(desk: Desk) -> None:
    await desk.queue(1)
    desk.bench.clock.advance(24 * 3600 + 1)
    await desk.queue(2)
    async with running(desk.publisher()):
        await desk.until(lambda rows: [row["status"] for row in rows] == ["abandoned", "delivered"])
    assert desk.inbox.numbers == [2]


@pytest.mark.req("R5")
async def test_a_receipt_waits_for_the_card_and_nothing_is_sent_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.queue(1)
    real, fails = desk.bench.database.transaction, 3

    async def full(work: Callable[[Transaction], Any]) -> Any:
        nonlocal fails
        if desk.inbox.taken and fails:
            fails -= 1
            raise StorageFullError("full")
        return await real(work)

    monkeypatch.setattr(desk.bench.database, "transaction", full)
    async with running(desk.publisher()):
        await desk.until_all("delivered")
    assert (fails, desk.inbox.offered) == (0, 1)


async def test_finishing_begins_nothing_new(desk: Desk) -> None:
    publisher = desk.publisher()
    async with running(publisher):
        await publisher.finish(limit_s=1)
        await desk.queue(1)
        publisher.notify()
        for _ in range(20):
            await asyncio.sleep(0)
        assert desk.inbox.taken == []


@pytest.mark.req("R5")
async def test_who_speaks_takes_no_message_and_who_publishes_no_sentence(desk: Desk) -> None:
    bench = desk.bench
    await desk.queue(1)
    await bench.database.transaction(
        lambda tx: deliveries.queue(tx, bench.clock, bench.ids, turn_id=None, language="en", text="Hot.", priority=9)
    )
    spoken = await bench.database.transaction(lambda tx: deliveries.begin_next(tx, bench.clock))
    sent = await bench.database.transaction(lambda tx: deliveries.begin_next(tx, bench.clock, Channel.MQTT))
    assert spoken is not None and sent is not None
    assert (spoken.channel, spoken.text, spoken.topic, spoken.payload) == (Channel.SPEECH, "Hot.", "", None)
    assert (sent.channel, sent.text, sent.topic, sent.payload) == (Channel.MQTT, "", TOPIC, {"n": 1})
    assert await bench.database.transaction(lambda tx: deliveries.recover(tx, bench.clock)) != []
    assert (await desk.rows())[0]["status"] == "attempting", "recovering speech leaves messages alone"
    shown = await views.deliveries(bench.database, status=None, limit=9)
    assert [(row["channel"], row["topic"], row["payload"], row["retain"]) for row in shown] == [
        ("speech", None, None, False), ("mqtt", TOPIC, {"n": 1}, False),
    ]  # fmt: skip


@pytest.mark.parametrize("topic", ["", "a/#", "a/+/b", "a\n", "x" * 513])
async def test_what_is_no_topic_or_too_long_is_refused_before_it_is_queued(desk: Desk, topic: str) -> None:
    with pytest.raises(Malformed):
        await desk.queue(1, topic=topic)
    with pytest.raises(Malformed, match="characters"):
        await desk.bench.database.transaction(
            lambda tx: deliveries.queue_message(
                tx, desk.bench.clock, desk.bench.ids, turn_id=None, topic="a", payload={"x": "y" * 70_000}, priority=1
            )
        )
    assert await desk.rows() == []


@pytest.mark.req("F5", "F7")
@pytest.mark.field("FC-F14")
async def test_an_alarm_change_is_told_to_the_site_with_its_own_times(desk: Desk) -> None:
    raised = datetime(2026, 3, 2, 8, 0, 0, 250_000, tzinfo=UTC)
    alarm = Alarm(
        activation_id="plc:oil_hot:7", alarm_id="oil_hot", source="plc", asset="press_1", priority="high",
        state=AlarmState.ACKNOWLEDGED, value=94.2, unit="degC", session_id=None, raised_utc=raised, cleared_utc=None,
        acknowledged_utc=raised + timedelta(seconds=9), acknowledged_by="kim", revision=2,
    )  # fmt: skip
    queue = alarm_messages(desk.bench.clock, desk.bench.ids, "hand")
    desk.bench.clock.advance(3600)
    for change in ("raised", "acknowledged", "reset"):
        await desk.bench.database.transaction(lambda tx, change=change: queue(tx, alarm, change))
    async with running(desk.publisher()):
        await desk.until_all("delivered")
    told = [payload for topic, payload, _ in desk.inbox.taken if topic == "floorhand/hand/alarms"]
    assert [(payload["change"], payload["at"]) for payload in told] == [
        ("raised", "2026-03-02T08:00:00.250+00:00"), ("acknowledged", "2026-03-02T08:00:09.250+00:00"), ("reset", None),
    ]  # fmt: skip
    assert {(p["activation"], p["revision"], p["state"], p["acknowledged_by"]) for p in told} == {
        ("plc:oil_hot:7", 2, "acknowledged", "kim")
    }
