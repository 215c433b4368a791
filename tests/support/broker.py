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
from tests.support.waiting import until

USERS = {"floorhand": "floorhand-pw", "plc": "plc-pw", "edge": "edge-pw", "site": "site-pw"}
"""Users of the shipped ACL."""

_OWN = {"plc": "plant", "edge": "spBv1.0/states", "site": "floorhand/site/command"}  # where each may say that it is there


@asynccontextmanager
async def running_broker(folder: Path, **details: Any) -> AsyncIterator[Broker]:
    """Start a broker in ``folder`` and end it afterwards. ``details`` are those of :class:`Broker`."""
    broker = Broker(folder / "broker", users=USERS, **details)
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


def settings_of(broker: Broker, user: str, client_id: str, **changes: Any) -> MqttSettings:
    """Settings of a client beside the session under test."""
    told: dict[str, Any] = {"username": user, "password": USERS[user], "client_id": client_id, "alarm_topics": ()}
    return settings_for(broker, **(told | changes))


@asynccontextmanager
async def publisher(broker: Broker, client_id: str = "gateway", user: str = "plc") -> AsyncIterator[MqttSession]:
    """A second session that only publishes: a gateway, or as ``site`` somebody who gives commands."""

    async def ignore(_: IncomingMessage) -> None:
        return

    async with running_session(settings_of(broker, user, client_id, state_prefix=_OWN[user]), ignore) as session:
        yield session


async def why_not(settings: MqttSettings) -> str:
    """Try to connect, and return why it is not possible."""

    async def ignore(_: IncomingMessage) -> None:
        return

    degraded = Degraded()
    trying = asyncio.create_task(MqttSession(settings, SystemClock(), degraded, ignore).run())
    try:
        await until(lambda: degraded.reasons, "said")
        return degraded.reasons["mqtt"]
    finally:
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)


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
