"""What we publish ourselves: in the ledger first, at the broker once there is one, all of it and in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Transaction
from appliance.delivery.json_body import MAY_BE_REPEAT
from appliance.delivery.publisher import Publisher
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.store import deliveries
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from drivers.sim.broker import Broker
from tests.contract.test_mqtt_session import Store
from tests.support.broker import running_broker, running_session, settings_for, settings_of
from tests.support.ledger import Bench, open_bench
from tests.support.waiting import until

TOPIC = "floorhand/hand/alarms"


async def change(bench: Bench, n: int) -> None:
    """Note an alarm change; in the same transaction it is queued for others to hear."""
    bench.clock.advance(1)

    def work(tx: Transaction) -> None:
        told = {"n": n, "at": bench.clock.utc().isoformat()}
        deliveries.queue_message(tx, bench.clock, bench.ids, turn_id=None, topic=TOPIC, payload=told, priority=9)

    await bench.database.transaction(work)


async def ignore(_: object) -> None:
    return


@asynccontextmanager
async def appliance(bench: Bench, settings: MqttSettings) -> AsyncIterator[tuple[MqttSession, Publisher]]:
    """Run a session, perhaps without a broker, and a publisher on it."""
    session = MqttSession(settings, SystemClock(), Degraded(), ignore)
    publisher = Publisher(bench.database, bench.clock, session, waits=lambda: iter([0.02] * 999))
    tasks = [asyncio.create_task(session.run()), asyncio.create_task(publisher.run())]
    try:
        yield session, publisher
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def control_room(broker: Broker, **changes: Any) -> AsyncIterator[Store]:
    """A subscriber of the site."""
    seen = Store()
    told = {"alarm_topics": [TOPIC], "state_prefix": "floorhand/site/command"}
    async with running_session(settings_of(broker, "site", "control-room", **(told | changes)), seen):
        yield seen


def numbers(seen: Store) -> list[int]:
    return [json.loads(payload)["n"] for payload in seen.payloads]


async def until_delivered(bench: Bench) -> None:
    async with asyncio.timeout(10):
        while await bench.rows("SELECT 1 FROM delivery WHERE status <> 'delivered'"):  # noqa: ASYNC110 - rows set no event
            await asyncio.sleep(0.01)


@pytest.mark.req("F5", "R5")
@pytest.mark.field("FC-F14")
async def test_nothing_of_an_outage_is_missing_from_its_first_second_on(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, running_broker(tmp_path) as broker, control_room(broker) as seen:
        async with appliance(bench, settings_for(broker, alarm_topics=())) as (session, publisher):
            await session.wait_connected()
            await change(bench, 0)
            publisher.notify()
            await until(lambda: numbers(seen) == [0], "before the outage")
            await broker.kill()
            for n in range(1, 11):  # the first of them before anybody has noticed
                await change(bench, n)
                publisher.notify()
            with pytest.raises(Unavailable):
                await session.publish(TOPIC, b"{}")
        for n in range(11, 16):  # and some while the appliance itself starts again
            await change(bench, n)
        async with appliance(bench, settings_for(broker, alarm_topics=())):
            for n in range(16, 21):
                await change(bench, n)
            await broker.start()
            await until(lambda: len(set(numbers(seen))) == 21, "all of it", within_s=20)
            await until_delivered(bench)
        assert list(dict.fromkeys(numbers(seen))) == list(range(21)), "in order"
        times = [json.loads(payload)["at"] for payload in seen.payloads]
        assert sorted(set(times)) == list(dict.fromkeys(times)) and len(set(times)) == 21, "each with the time it happened"


@pytest.mark.req("F5", "R5")
@pytest.mark.field("FC-F14", "FC-F17")
async def test_a_broker_that_dies_while_it_is_told_hears_all_and_repeats_say_so(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, running_broker(tmp_path) as broker, control_room(broker) as seen:
        settings = settings_for(broker, alarm_topics=(), publish_timeout_s=0.3)
        async with appliance(bench, settings) as (session, publisher):
            await session.wait_connected()
            broker.pause()  # a message goes out and no answer comes
            await change(bench, 0)
            publisher.notify()
            rows: list[dict[str, Any]] = []
            while not rows or not rows[0]["may_be_repeat"]:
                rows = await bench.rows("SELECT status, attempts, may_be_repeat FROM delivery")
                await asyncio.sleep(0.01)
            broker.resume()
            for n in range(1, 30):
                await change(bench, n)
                publisher.notify()
                if n % 10 == 5:
                    await broker.kill()
                    await broker.start()
            await until(lambda: len(set(numbers(seen))) == 30, "all of it", within_s=20)
            await until(lambda: session.is_connected, "connected")
        told = [(json.loads(message.payload), message.duplicate) for message in seen.messages]
        known: set[int] = set()
        for payload, is_sent_again_by_broker in told:  # what we sent a second time says that it may be one
            assert payload["n"] not in known or payload.get(MAY_BE_REPEAT) or is_sent_again_by_broker
            known.add(payload["n"])
        assert {0: True} in [{payload["n"]: payload.get(MAY_BE_REPEAT)} for payload, _ in told]


@pytest.mark.req("R5")
async def test_a_message_the_acl_forbids_fails_with_its_reason_and_the_next_is_sent(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, running_broker(tmp_path) as broker, control_room(broker) as seen:
        await bench.database.transaction(
            lambda tx: deliveries.queue_message(
                tx, bench.clock, bench.ids, turn_id=None, topic="plant/line_3/alarms", payload={}, priority=9
            )
        )
        await change(bench, 1)
        async with appliance(bench, settings_for(broker, alarm_topics=())):
            await until(lambda: numbers(seen) == [1], "the allowed one")
        failed, _ = await bench.rows("SELECT status, failure FROM delivery ORDER BY seq")
        assert failed["status"] == "failed"
        assert failed["failure"] == "the broker refuses a message on plant/line_3/alarms: Not authorized"


@pytest.mark.req("R5")
async def test_what_is_to_be_retained_is_there_for_whoever_comes_later(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, running_broker(tmp_path) as broker:
        async with appliance(bench, settings_for(broker, alarm_topics=())):
            for n in range(2):
                await bench.database.transaction(
                    lambda tx, n=n: deliveries.queue_message(
                        tx, bench.clock, bench.ids, turn_id=None, topic=TOPIC, payload={"n": n}, priority=9, retain=True
                    )
                )
            await until_delivered(bench)
        async with control_room(broker) as seen:
            await until(lambda: numbers(seen) == [1], "the newest")
            assert seen.messages[0].retained
