"""A real mosquitto for one test, and a plain client beside the session under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Unavailable
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.mqtt.session import MqttSession, OnMessage
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage
from drivers.sim.broker import Broker

USERS = {"floorhand": "floorhand-pw", "plc": "plc-pw"}


@asynccontextmanager
async def running_broker(folder: Path) -> AsyncIterator[Broker]:
    """Start a broker in ``folder`` and end it afterwards."""
    broker = Broker(folder / "broker", users=USERS)
    await broker.start()
    try:
        yield broker
    finally:
        broker.resume()
        await broker.kill()


def settings_for(broker: Broker, **changes: Any) -> MqttSettings:
    """Settings of the session under test, reconnecting fast."""
    quick: dict[str, Any] = {
        "port": broker.port,
        "username": "floorhand",
        "password": USERS["floorhand"],
        "client_id": "hand",
        "first_retry_s": 0.05,
        "longest_retry_s": 0.4,
    }
    return MqttSettings.model_validate(quick | changes)


@asynccontextmanager
async def running_session(
    settings: MqttSettings, on_message: OnMessage, degraded: Degraded | None = None
) -> AsyncIterator[MqttSession]:
    """Run a session, connected once, and stop it afterwards."""
    session = MqttSession(settings, SystemClock(), degraded or Degraded(), on_message)
    task = asyncio.create_task(session.run())
    try:
        async with asyncio.timeout(10):
            await session.wait_connected()
        yield session
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def publisher(broker: Broker, client_id: str = "gateway") -> AsyncIterator[MqttSession]:
    """A second session that only publishes."""

    async def ignore(_: IncomingMessage) -> None:
        return

    settings = settings_for(broker, username="plc", password=USERS["plc"], client_id=client_id, alarm_topics=())
    async with running_session(settings, ignore) as session:
        yield session


async def publish_surely(session: MqttSession, topic: str, payload: bytes, within_s: float = 15.0) -> None:
    """Publish as a gateway does: again until acknowledged."""
    async with asyncio.timeout(within_s):
        while True:
            await session.wait_connected()
            try:
                await session.publish(topic, payload)
            except Unavailable:
                await asyncio.sleep(0.02)
            else:
                return
