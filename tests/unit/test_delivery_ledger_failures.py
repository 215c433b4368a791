"""The ledger of deliveries itself fails: counted, named once while it lasts, and over when it is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.delivery.ledger_failures import PART, LedgerFailures
from appliance.delivery.publisher import Publisher
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries
from tests.support.ledger import Bench, open_bench
from tests.unit.test_delivery_dispatcher import FillingCard, running
from tests.unit.test_delivery_publisher import TOPIC, Inbox


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as bench:
        yield bench


@pytest.mark.req("R5")
@pytest.mark.field("FC-D01")
async def test_a_receipt_that_cannot_be_written_is_counted_and_named_until_it_is(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    degraded, changes = Degraded(), list[tuple[str, bool]]()
    degraded.listeners.append(lambda part, why: changes.append((part, bool(why))))
    failures, card = LedgerFailures(degraded), FillingCard(bench)
    ledger: Any = card

    def queue(tx: Any) -> None:
        for n in range(2):
            deliveries.queue_message(tx, bench.clock, bench.ids, turn_id=None, topic=TOPIC, payload={"n": n}, priority=9)

    await bench.database.transaction(queue)

    class Filling(Inbox):
        async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
            await super().publish(topic, payload, retain=retain)
            card.full_for = 3
            assert failures.as_facts()["waiting"] == []

    inbox = Filling()
    publisher = Publisher(ledger, bench.clock, inbox, waits=lambda: iter([0.0] * 99), failures=failures)
    with caplog.at_level(logging.INFO, logger="appliance.delivery.ledger_failures"):
        async with running(publisher), asyncio.timeout(20):  # type: ignore[type-var]
            while await bench.rows("SELECT 1 FROM delivery WHERE status <> 'delivered'"):  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.005)
    assert inbox.numbers == [0, 1], "what was sent is not sent again for want of a receipt"
    assert failures.as_facts() == {"failures": {"mqtt": 6}, "waiting": []}
    assert changes == [(PART, True), (PART, False)] * 2
    assert [record.message for record in caplog.records if record.name.endswith("failures")] == [
        "delivery.waits_for_ledger",
        "delivery.ledger_back",
    ] * 2


@pytest.mark.req("R5")
def test_one_channel_that_writes_again_does_not_hide_another_that_cannot() -> None:
    degraded = Degraded()
    failures = LedgerFailures(degraded)
    failures.failed("speech", "the card is full")
    failures.failed("webhook site", "the card is full")
    failures.written("speech")
    assert degraded.reasons == {PART: "what is said and sent cannot be recorded (webhook site): the card is full"}
    assert failures.as_facts() == {"failures": {"speech": 1, "webhook site": 1}, "waiting": ["webhook site"]}
    failures.written("webhook site")
    assert degraded.reasons == {}
