"""The listener against a real mosquitto: alarms become durable, values are kept, a Sparkplug node elsewhere is followed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import AlarmEvent
from appliance.contracts.errors import AlarmUnreadable, Refused, Unavailable
from appliance.contracts.reading import Quality, Reading
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.mqtt.listener import Listener
from drivers.mqtt.published import PublishedValues
from drivers.sim.broker import Broker
from tests.support.broker import USERS, publisher, running_broker, settings_for
from tests.support.gateways import ALARM_TOPIC, JSON_TOPIC, PLAIN_TOPIC, SPARKPLUG_TOPIC, gateway_plant
from tests.support.waiting import until

# The shipped ACL lets a gateway publish below plant/ only.
PLANT = gateway_plant(
    JSON_TOPIC | {"topic": "plant/+/telemetry"}, ALARM_TOPIC | {"topic": "plant/+/alerts"},
    PLAIN_TOPIC | {"topic": "plant/press_1/pressure", "stale_after_s": 0}, SPARKPLUG_TOPIC,
)  # fmt: skip
ALERT = {"kind": "OIL", "id": 7, "active": True, "ts": 1772438400250, "seq": 3}
OWN = {"source": "gw", "alarm": "GUARD", "activation": 1, "state": "raised", "sequence": 1}


class Sink:
    """Stands for the alarm door; ``fault`` may say what to raise for an event."""

    def __init__(self) -> None:
        self.events: list[AlarmEvent] = []
        self.offered: list[str] = []
        self.faults: list[tuple[str, Exception]] = []
        self.unreadable: list[tuple[str, str]] = []
        self.is_away = False

    async def admit(self, event: AlarmEvent) -> Any:
        self.offered.append(event.alarm_id)
        if self.faults and self.faults[0][0] == event.alarm_id:
            raise self.faults.pop(0)[1]
        self.events.append(event)

    async def suppress(self, alarm_id: str, is_suppressed: bool, why: str) -> None:
        raise AssertionError("a broker suppresses nothing")

    async def note_unreadable(self, topic: str, faults: Sequence[AlarmUnreadable]) -> None:
        if self.is_away:
            self.is_away = False
            raise Unavailable("the disk is full")
        self.unreadable += [(topic, fault.message) for fault in faults]


class Ear:
    """A running listener with its sink and values."""

    def __init__(self, broker: Broker, **changes: Any) -> None:
        clock = SystemClock()
        self.sink, self.degraded, self.values = Sink(), Degraded(), PublishedValues(PLANT, clock)
        self.listener = Listener(settings_for(broker, **changes), clock, self.degraded, PLANT, self.sink, self.values)

    def __call__(self, name: str) -> Reading:
        return self.values.read([f"press_1.{name}"])[f"press_1.{name}"]


@asynccontextmanager
async def listening(broker: Broker, **changes: Any) -> AsyncIterator[Ear]:
    ear = Ear(broker, **changes)
    task = asyncio.create_task(ear.listener.run())
    try:
        async with asyncio.timeout(10):
            await ear.listener.session.wait_connected()
        yield ear
        assert not task.done(), "the listener ended"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path) as running:
        yield running


def text(content: Any) -> bytes:
    return json.dumps(content).encode()


@pytest.mark.req("F5", "P2")
async def test_own_and_foreign_alarms_and_values_are_taken(broker: Broker) -> None:
    async with listening(broker) as ear, publisher(broker) as gateway:
        await gateway.publish("plant/hall/alarms", text(OWN))
        await gateway.publish("plant/gw_9/alerts", text({"alerts": [ALERT]}))
        await gateway.publish("plant/press_1/telemetry", text({"ts": 1772438400250, "values": {"oil temp": 943}}))
        await gateway.publish("plant/press_1/pressure", b"4.5", retain=True)
        await until(lambda: ear.listener.session.counts.acknowledged == 4, "all four")
        assert [event.activation_id for event in ear.sink.events] == ["gw:guard_open:1", "gw_9:oil_hot:7"]
        assert (ear("oil").value, ear("pressure").value) == (94.3, 4.5)


@pytest.mark.req("F5")
async def test_a_list_with_bad_members_is_counted_and_the_good_are_admitted(broker: Broker) -> None:
    async with listening(broker) as ear, publisher(broker) as gateway:
        ear.sink.faults = [("oil_hot", Refused("other content"))]
        await gateway.publish("plant/gw/alerts", text({"alerts": [ALERT, ALERT | {"kind": "NOBODY"}, ALERT | {"kind": "GUARD"}]}))
        await gateway.publish("plant/press_1/telemetry", b"{}")
        await until(lambda: ear.listener.session.counts.acknowledged == 2, "acknowledged: it would be the same again")
        assert [event.alarm_id for event in ear.sink.events] == ["guard_open"]
        facts = ear.listener.session.counts.as_facts()
        assert facts["malformed"] + facts["refused"] == 2
        (unreadable,) = ear.sink.unreadable
        assert unreadable[0] == "plant/gw/alerts" and "NOBODY" in unreadable[1]


@pytest.mark.req("F5", "F7")
@pytest.mark.field("FC-F18")
async def test_what_cannot_be_read_on_an_alarm_topic_is_on_record_before_it_is_acknowledged(broker: Broker) -> None:
    async with listening(broker) as ear, publisher(broker) as gateway:
        ear.sink.is_away = True
        await gateway.publish("plant/hall/alarms", b"{")
        await until(lambda: ear.listener.session.counts.acknowledged == 1, "acknowledged when it was on record")
        assert ear.listener.session.counts.received == 2, "the broker kept it"
        await gateway.publish("plant/hall/alarms", b"x" * 70_000)
        await gateway.publish("plant/hall/alarms", b"")  # ends what is retained
        await gateway.publish("plant/hall/alarms", text(OWN | {"value": "n/a", "unit": "x" * 17, "at": "soon"}))
        await until(lambda: ear.listener.session.counts.acknowledged == 4, "all")
        assert [topic for topic, _ in ear.sink.unreadable] == ["plant/hall/alarms"] * 2
        assert [(event.value, event.unit, event.source_utc) for event in ear.sink.events] == [(None, "", None)]


@pytest.mark.req("F5")
async def test_what_cannot_be_stored_comes_again_whole(broker: Broker) -> None:
    async with listening(broker) as ear, publisher(broker) as gateway:
        ear.sink.faults = [("guard_open", Unavailable("the queue is full"))]
        await gateway.publish("plant/gw/alerts", text({"alerts": [ALERT, ALERT | {"kind": "GUARD"}]}))
        await until(lambda: ear.listener.session.counts.acknowledged == 1, "acknowledged")
        assert ear.sink.offered == ["oil_hot", "guard_open", "oil_hot", "guard_open"]


@pytest.mark.req("F5")
@pytest.mark.field("FC-F05")
async def test_values_are_stale_while_the_broker_is_away_and_retained_ones_come_again(broker: Broker) -> None:
    async with listening(broker) as ear, publisher(broker) as gateway:
        await gateway.publish("plant/press_1/pressure", b"4.5", retain=True)
        await gateway.publish("plant/press_1/telemetry", text({"values": {"mode": 2}}))
        await until(lambda: ear("mode").quality is Quality.GOOD, "taken")
        await ear.listener.session.publish("floorhand/hand/alarms", b"1")  # answered: the broker has our acknowledgements
        at = ear("mode").source_utc
        await broker.stop()
        await until(lambda: ear("pressure").quality is Quality.STALE, "stale")
        assert (ear("mode").value, ear("mode").source_utc) == ("automatic", at)
        assert "cannot be reached" in ear("mode").why
        await broker.start()
        await until(lambda: ear("pressure").quality is Quality.GOOD, "what the broker retains is true again")
        assert ear("mode").quality is Quality.STALE, "nobody has said so again"


@pytest.mark.req("F5")
@pytest.mark.field("FC-F05")
async def test_alarms_wait_while_we_are_away_and_old_values_do_not_come_as_new_ones(broker: Broker) -> None:
    async with publisher(broker) as gateway:
        async with listening(broker):
            pass
        await gateway.publish("plant/press_1/telemetry", text({"values": {"mode": 2}}))
        await gateway.publish("plant/gw/alerts", text({"alerts": [ALERT]}))
        await gateway.publish("plant/hall/alarms", text(OWN))
        async with listening(broker) as ear:
            await until(lambda: len(ear.sink.events) == 2, "both alarms")
            assert not any(event.is_state for event in ear.sink.events), "they are news"
            assert ear("mode").quality is Quality.BAD
            await gateway.publish("plant/press_1/telemetry", text({"values": {"mode": 0}}))
            await until(lambda: ear("mode").value == "stopped", "what is true now")


class Process:
    """The edge node's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.births = 0

    async def order(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        await self.process.stdin.drain()
        await self.hear(f"done {line.split()[0]}")

    async def hear(self, wanted: str) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(15):
            while True:
                line = await self.process.stdout.readline()
                assert line, "the node ended"
                self.births += line.startswith(b"born")
                if line.decode().strip() == wanted:
                    return


@asynccontextmanager
async def edge_node(broker: Broker, bd_seq: int) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.sparkplug_node", str(broker.port), USERS["edge"], str(bd_seq),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    node = Process(process)
    try:
        await node.hear("born 1")
        yield node
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.req("F5")
async def test_a_sparkplug_node_is_followed_through_its_life(broker: Broker) -> None:
    async with listening(broker) as ear:
        async with edge_node(broker, bd_seq=1) as node:
            await until(lambda: ear("speed").value == 1450.0 and ear("temperature").value == 94.5, "born")
            await node.order("speed 1500")
            await until(lambda: ear("speed").value == 1500.0, "data by alias")
            at = ear("speed").source_utc
            await node.order("gone")
            await until(lambda: ear("speed").quality is Quality.STALE, "the device is gone")
            assert (ear("speed").value, ear("speed").source_utc) == (1500.0, at)
            assert ear("temperature").quality is Quality.GOOD
            node.process.kill()
            await until(lambda: ear("temperature").quality is Quality.STALE, "the will of the node")
        async with edge_node(broker, bd_seq=2):
            await until(lambda: ear("temperature").quality is Quality.GOOD, "born again")


@pytest.mark.req("F5")
@pytest.mark.field("FC-F18")
async def test_a_lost_message_of_a_sparkplug_node_is_asked_for_once(broker: Broker) -> None:
    async with listening(broker) as ear, edge_node(broker, bd_seq=1) as node:
        await until(lambda: ear("speed").value == 1450.0, "born")
        await node.order("skip")
        await node.order("speed 1600")
        await node.order("speed 1700")
        await until(lambda: ear("speed").value == 1700.0, "taken once the missing one is given up", within_s=5)
        await node.hear("born 2")
        await node.order("speed 1800")
        await until(lambda: ear("speed").value == 1800.0, "in order again")
        assert node.births == 2


@pytest.mark.req("F5")
async def test_a_node_that_was_born_before_we_listened_is_asked_to_tell(broker: Broker) -> None:
    async with edge_node(broker, bd_seq=1) as node, listening(broker) as ear:
        await node.hear("born 2")
        await until(lambda: ear("speed").value == 1450.0, "told again")
