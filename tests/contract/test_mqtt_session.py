"""The MQTT session against a real mosquitto: nothing is acknowledged before it is durable, nothing is lost, nothing blocks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage
from drivers.sim.broker import Broker
from tests.support.broker import USERS, publisher, running_broker, running_session, settings_for, settings_of
from tests.support.waiting import until

ALARMS = "plant/line_3/alarms"


class Store:
    """A handler that keeps what it was given. ``fault`` may say what to raise for a message; ``gate`` holds it back;
    ``most`` is the largest ``watch()`` seen."""

    def __init__(self, fault: Callable[[IncomingMessage], Exception | None] = lambda _: None) -> None:
        self.fault = fault
        self.messages: list[IncomingMessage] = []
        self.offered: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.watch: Callable[[], int] = lambda: 0
        self.most = 0

    async def __call__(self, message: IncomingMessage) -> None:
        self.offered.append(message.payload)
        self.most = max(self.most, self.watch())
        await self.gate.wait()
        error = self.fault(message)
        if error is not None:
            raise error
        self.messages.append(message)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path) as running:
        yield running


async def acknowledged(session: MqttSession, count: int) -> None:
    await until(lambda: session.counts.acknowledged >= count, f"{count} acknowledged")


def numbered(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


@pytest.mark.req("F5", "P2")
async def test_messages_arrive_in_order_and_are_acknowledged(broker: Broker) -> None:
    store = Store()
    async with publisher(broker) as gateway, running_session(settings_for(broker), store) as session:
        for payload in numbered(50):
            await gateway.publish(ALARMS, payload)
        await until(lambda: session.counts.acknowledged == 50, "all acknowledged")
        assert store.payloads == numbered(50)
        assert {m.topic for m in store.messages} == {ALARMS}
        assert not any(m.retained or m.duplicate for m in store.messages)


@pytest.mark.req("F5")
async def test_a_slow_handler_slows_the_broker_not_the_process(broker: Broker) -> None:
    store = Store()
    store.gate.clear()
    async with publisher(broker) as gateway, running_session(settings_for(broker, receive_maximum=5), store) as session:
        for payload in numbered(60):
            await gateway.publish(ALARMS, payload)
        await until(lambda: session.counts.received == 5, "the window is full")
        assert session.counts.acknowledged == 0
        assert store.offered == [b"0"], "one at a time"
        store.gate.set()
        await until(lambda: session.counts.acknowledged == 60, "all acknowledged")
        assert store.payloads == numbered(60)
        assert session.counts.received == 60


@pytest.mark.req("F5")
async def test_a_client_killed_before_it_acknowledged_gets_the_message_again(broker: Broker) -> None:
    swallower = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.mqtt_swallower", str(broker.port), USERS["floorhand"], stdout=asyncio.subprocess.PIPE
    )
    assert swallower.stdout is not None
    async with asyncio.timeout(15), publisher(broker) as gateway:
        assert await swallower.stdout.readline() == b"connected\n"
        await gateway.publish(ALARMS, b"one")
        await gateway.publish(ALARMS, b"two")
        assert await swallower.stdout.readline() == b"took one\n"
    swallower.kill()
    await swallower.wait()
    store = Store()
    async with running_session(settings_for(broker), store) as session:
        await until(lambda: session.counts.acknowledged == 2, "both again")
        assert store.payloads == [b"one", b"two"]
        assert store.messages[0].duplicate


@pytest.mark.req("F5")
async def test_an_acknowledged_message_does_not_come_again(broker: Broker) -> None:
    async with publisher(broker) as gateway:
        async with running_session(settings_for(broker), Store()) as session:
            await gateway.publish(ALARMS, b"one")
            await until(lambda: session.counts.acknowledged == 1, "acknowledged")
        second = Store()
        async with running_session(settings_for(broker), second):
            await gateway.publish(ALARMS, b"two")
            await until(lambda: second.messages, "the next message")
            assert second.payloads == [b"two"]


@pytest.mark.req("F5")
@pytest.mark.parametrize("error", [Unavailable("disk full"), ValueError("a bug")])
async def test_a_message_that_cannot_be_stored_comes_again_in_order(broker: Broker, error: Exception) -> None:
    failures = 2

    def fails_twice(message: IncomingMessage) -> Exception | None:
        nonlocal failures
        if message.payload == b"3" and failures:
            failures -= 1
            return error
        return None

    store, degraded = Store(fails_twice), Degraded()
    changes: list[tuple[str, str]] = []
    degraded.listeners.append(lambda *change: changes.append(change))
    async with publisher(broker) as gateway, running_session(settings_for(broker), store, degraded) as session:
        for payload in numbered(8):
            await gateway.publish(ALARMS, payload)
        await until(lambda: len(store.messages) == 8, "all stored")
        assert store.payloads == numbered(8)
        assert session.counts.failed == 2
        assert degraded.reasons == {}
        assert changes == [("mqtt-inbox", f"messages cannot be handled: {type(error).__name__}"), ("mqtt-inbox", "")]


@pytest.mark.req("F5")
@pytest.mark.parametrize(("error", "count"), [(Malformed("not an alarm"), "malformed"), (Refused("other content"), "refused")])
async def test_poison_is_counted_and_blocks_nothing(broker: Broker, error: Exception, count: str) -> None:
    store = Store(lambda m: error if m.payload == b"poison" else None)
    async with publisher(broker) as gateway, running_session(settings_for(broker), store) as session:
        for payload in (b"before", b"poison", b"after"):
            await gateway.publish(ALARMS, payload)
        await until(lambda: session.counts.acknowledged == 3, "all three acknowledged")
        assert store.payloads == [b"before", b"after"]
        assert getattr(session.counts, count) == 1
        assert session.counts.received == 3, "no reconnect was needed"


@pytest.mark.field("FC-F15")
async def test_a_retained_command_is_ignored_and_noted(broker: Broker) -> None:
    store = Store()
    settings = settings_for(broker, command_prefix="floorhand/hand/command", alarm_topics=())
    async with publisher(broker, "boss", "site") as boss:
        await boss.publish("floorhand/hand/command/hold", b"old", retain=True)
        async with running_session(settings, store) as session:
            await boss.publish("floorhand/hand/command/hold", b"new")
            await acknowledged(session, 2)
            assert session.counts.ignored == 1
            await boss.publish("floorhand/hand/command/hold", b"kept", retain=True)
            await acknowledged(session, 3)
            assert session.counts.as_facts()["ignored"] == 2, "what is to be retained is no command while it is live either"
        async with running_session(settings, store) as session:
            await boss.publish("floorhand/hand/command/hold", b"newer")
            await acknowledged(session, 1)
    assert store.offered == [b"new", b"newer"]


async def test_a_retained_alarm_comes_once_with_the_subscription(broker: Broker) -> None:
    store = Store()
    async with publisher(broker) as gateway:
        await gateway.publish(ALARMS, b"standing", retain=True)
        async with running_session(settings_for(broker), store) as session:
            await gateway.publish(ALARMS, b"first")
            await acknowledged(session, 2)
        async with running_session(settings_for(broker), store) as session:
            await gateway.publish(ALARMS, b"second")
            await acknowledged(session, 1)
    assert store.payloads == [b"standing", b"first", b"second"]
    assert [m.retained for m in store.messages] == [True, False, False]


@pytest.mark.req("F5")
async def test_online_and_offline_are_retained_for_others(broker: Broker) -> None:
    seen = Store()
    observer = settings_of(
        broker, "site", "observer", state_prefix="floorhand/site/command", alarm_topics=["floorhand/hand/state"]
    )
    async with running_session(observer, seen):
        async with running_session(settings_for(broker), Store()):
            await until(lambda: seen.payloads == [b"online"], "birth")
        await until(lambda: seen.payloads == [b"online", b"offline"], "a goodbye")
        swallower = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.mqtt_swallower", str(broker.port), USERS["floorhand"],
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await until(lambda: len(seen.payloads) == 3, "birth of the process", within_s=15)
        swallower.kill()
        await swallower.wait()
        await until(lambda: seen.payloads[2:] == [b"online", b"offline"], "the will")


async def test_publishing_returns_when_the_broker_has_it(broker: Broker) -> None:
    store = Store()
    async with publisher(broker) as gateway, running_session(settings_for(broker), store):
        await gateway.publish(ALARMS, b"own")
        await until(lambda: store.payloads == [b"own"], "message")
        await gateway.publish(ALARMS, b"zero", qos=0)
        await until(lambda: store.payloads == [b"own", b"zero"], "message without guarantee")


async def test_many_publish_at_once(broker: Broker) -> None:
    store = Store()
    async with publisher(broker) as gateway, running_session(settings_for(broker), store):
        await asyncio.gather(*(gateway.publish(ALARMS, payload) for payload in numbered(100)))
        await until(lambda: len(store.messages) == 100, "all")
        assert store.payloads == numbered(100)


async def test_a_wrong_password_is_said_and_tried_again(broker: Broker) -> None:
    degraded = Degraded()
    session = MqttSession(settings_for(broker, password="wrong"), SystemClock(), degraded, Store())
    running = asyncio.create_task(session.run())
    await until(lambda: degraded.reasons, "said")
    assert f"the broker at 127.0.0.1:{broker.port} refuses: Not authorized" in degraded.reasons["mqtt"]
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def scripted_broker(script: bytes) -> AsyncIterator[int]:
    """Answer each CONNECT with ``script``, for what a real broker cannot be made to say."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(script)
        with suppress(ConnectionError):
            await writer.drain()
            await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


CONNACK = b"\x20\x03\x00\x00\x00"


async def test_an_answer_behind_more_messages_than_agreed_is_waited_for() -> None:
    store = Store()
    store.gate.clear()
    messages = b"".join(b"\x32\x07\x00\x01a\x00" + bytes([n]) + b"\x00x" for n in (1, 2, 3))
    async with scripted_broker(CONNACK + messages + b"\x90\x04\x00\x01\x00\x01") as port:
        settings = MqttSettings(port=port, client_id="hand", connect_timeout_s=0.2, receive_maximum=1)
        session = MqttSession(settings, SystemClock(), Degraded(), store)
        running = asyncio.create_task(session.run())
        await until(lambda: store.offered, "the first message is being handled")
        asyncio.get_running_loop().call_later(3 * settings.connect_timeout_s, store.gate.set)
        await acknowledged(session, 3)
        await until(lambda: session.is_connected, "the subscription was answered")
        assert session.counts.received == 3, "the connection was kept"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (CONNACK + b"\xe0\x02\x8e\x00", "another client uses the session hand at the broker"),
        (CONNACK + b"\xe0\x02\x8b\x00", "cannot be reached"),
        (CONNACK + b"\xf0\x00", "cannot be reached"),
        (CONNACK + b"\x32\x04\x00\xff\x00\x00", "cannot be"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "cannot be"),
        (b"\x20\x7f", "cannot be reached"),
    ],
    ids=["another client", "shutting down", "unknown packet", "torn publish", "no broker at all", "half an answer"],
)
async def test_whatever_a_broker_says_is_survived_and_named(script: bytes, why: str) -> None:
    degraded = Degraded()
    async with scripted_broker(script) as port:
        settings = MqttSettings(port=port, client_id="hand", connect_timeout_s=0.3, first_retry_s=0.05, longest_retry_s=0.1)
        session = MqttSession(settings, SystemClock(), degraded, Store())
        running = asyncio.create_task(session.run())
        await until(lambda: why in degraded.reasons.get("mqtt", ""), "said")
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_stopping_waits_for_nothing_and_leaves_no_task(broker: Broker) -> None:
    store = Store()
    store.gate.clear()
    before = asyncio.all_tasks()
    async with publisher(broker) as gateway, running_session(settings_for(broker), store):
        await gateway.publish(ALARMS, b"one")
        await until(lambda: store.offered, "in the handler")
    await until(lambda: asyncio.all_tasks() == before, "all tasks ended")


class LeapingClock(SystemClock):
    """The real clock, which a test may set forward."""

    leap_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.leap_ns


@pytest.mark.req("F5")
@pytest.mark.field("FC-F15")
async def test_a_command_that_expired_before_its_turn_is_ignored(broker: Broker) -> None:
    """Published by another client, mosquitto_pub, with a lifetime (MQTT 5, message expiry interval)."""
    store, clock = Store(), LeapingClock()
    settings = settings_for(broker, command_prefix="floorhand/hand/command", alarm_topics=())
    session = MqttSession(settings, clock, Degraded(), store)
    running = asyncio.create_task(session.run())
    await session.wait_connected()
    store.gate.clear()
    for payload, lifetime_s in (("blocks", 3600), ("late", 60), ("lasting", 3600)):
        publishing = await asyncio.create_subprocess_exec(
            "mosquitto_pub", "-p", str(broker.port), "-u", "site", "-P", USERS["site"], "-V", "5", "-q", "1",
            "-t", "floorhand/hand/command/hold", "-m", payload, "-D", "publish", "message-expiry-interval", str(lifetime_s),
        )  # fmt: skip
        assert await publishing.wait() == 0
    await until(lambda: session.counts.received == 3, "all three are here")
    clock.leap_ns = 60 * 10**9
    store.gate.set()
    await acknowledged(session, 3)
    assert (store.payloads, session.counts.ignored) == ([b"blocks", b"lasting"], 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
