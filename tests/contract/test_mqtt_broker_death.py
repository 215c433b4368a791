"""The broker stops, is killed, is unplugged: it is said once, everything else goes on, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from appliance.contracts.errors import Unavailable
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.mqtt.session import MqttSession
from tests.contract.test_mqtt_session import ALARMS, Store, numbered
from tests.support.broker import publish_surely, publisher, running_broker, running_session, settings_for
from tests.support.waiting import until, within


class Spoken:
    """Every change of what is degraded."""

    def __init__(self) -> None:
        self.degraded = Degraded()
        self.changes: list[tuple[str, str]] = []
        self.degraded.listeners.append(lambda *change: self.changes.append(change))


@pytest.mark.req("F5")
async def test_a_broker_that_stops_and_starts_is_said_once_and_found_again(tmp_path: Path) -> None:
    spoken, store = Spoken(), Store()
    async with running_broker(tmp_path) as broker, publisher(broker) as gateway:
        settings = settings_for(broker)
        async with running_session(settings, store, spoken.degraded) as session:
            await broker.stop()
            await until(lambda: "mqtt" in spoken.degraded.reasons, "said")
            with pytest.raises(Unavailable):
                await session.publish("floorhand/a", b"")
            await broker.start()
            await publish_surely(gateway, ALARMS, b"after")
            await until(lambda: store.payloads == [b"after"], "messages again")
            await until(lambda: not spoken.degraded.reasons, "said to be whole again")
    where = f"127.0.0.1:{broker.port}"
    assert spoken.changes == [("mqtt", f"the broker at {where} cannot be reached"), ("mqtt", "")]


@pytest.mark.field("FC-B02")
async def test_no_broker_at_start_is_said_and_it_connects_later(tmp_path: Path) -> None:
    spoken = Spoken()
    async with running_broker(tmp_path) as broker:
        await broker.stop()
        session = MqttSession(settings_for(broker), SystemClock(), spoken.degraded, Store())
        running = asyncio.create_task(session.run())
        await until(lambda: "mqtt" in spoken.degraded.reasons, "said")
        await broker.start()
        await until(lambda: session.is_connected and not spoken.degraded.reasons, "connected")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.req("F5")
@pytest.mark.field("FC-F17")
async def test_a_killed_broker_loses_neither_queued_nor_unacknowledged_messages(tmp_path: Path) -> None:
    store = Store()
    async with running_broker(tmp_path) as broker, publisher(broker) as gateway:
        settings = settings_for(broker, receive_maximum=4)
        async with running_session(settings, store):
            pass  # the session exists now; we are away
        for payload in numbered(10):
            await gateway.publish(ALARMS, payload)
        store.gate.clear()
        async with running_session(settings, store) as session:
            await until(lambda: session.counts.received == 4, "four are under way, six wait in the broker")
            # mosquitto saves at the end of the loop in which it acknowledged; a later answer means that it has saved.
            await gateway.publish("plant/nobody/listens", b"")
            await broker.kill()
            await broker.start()
            store.gate.set()
            await until(lambda: set(store.payloads) == set(numbered(10)), "all ten")
        fresh = list(dict.fromkeys(store.payloads))
        assert fresh == numbered(10), "in order, each at least once"


@pytest.mark.req("F5")
async def test_what_was_published_while_we_were_away_waits(tmp_path: Path) -> None:
    store = Store()
    async with running_broker(tmp_path) as broker, publisher(broker) as gateway:
        async with running_session(settings_for(broker), Store()):
            pass
        for payload in numbered(30):
            await gateway.publish(ALARMS, payload)
        async with running_session(settings_for(broker), store):
            await until(lambda: store.payloads == numbered(30), "all thirty")


@pytest.mark.req("F5")
async def test_a_burst_waits_in_the_broker_and_not_here(tmp_path: Path) -> None:
    burst = 300
    store = Store()
    store.gate.clear()
    async with running_broker(tmp_path) as broker, publisher(broker) as gateway:
        settings = settings_for(broker)
        async with running_session(settings, store) as session:
            for payload in numbered(burst):
                await gateway.publish(ALARMS, payload)
            assert session.counts.acknowledged == 0
            store.watch = lambda: session.counts.received - session.counts.acknowledged
            store.gate.set()
            await until(lambda: session.counts.acknowledged == burst, "all acknowledged", within_s=30)
            assert store.payloads == numbered(burst)
            assert store.most <= settings.receive_maximum + 2, "the broker was made to wait (mosquitto 2.0.11 sends far more)"


@pytest.mark.req("F5")
async def test_a_broker_that_hangs_is_noticed_by_silence(tmp_path: Path) -> None:
    spoken = Spoken()
    async with running_broker(tmp_path) as broker:
        settings = settings_for(broker, keepalive_s=2, publish_timeout_s=0.3, connect_timeout_s=0.5)
        async with running_session(settings, Store(), spoken.degraded) as session:
            broker.pause()
            with pytest.raises(Unavailable, match="did not acknowledge"):
                await session.publish("floorhand/a", b"x")
            with within(6.0):  # twice the keepalive, and what this machine needs
                await until(lambda: "mqtt" in spoken.degraded.reasons, "said")
            broker.resume()
            await until(lambda: session.is_connected, "connected again")
            await session.publish("floorhand/a", b"x")
    assert [bool(why) for _, why in spoken.changes] == [True, False]
