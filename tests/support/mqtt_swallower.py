"""A client process that takes messages and never finishes with one: to be killed before it acknowledges.

``python -m tests.support.mqtt_swallower PORT PASSWORD``; prints ``took <payload>`` for each message handed to its handler.
"""

from __future__ import annotations

import asyncio
import sys

from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage


async def swallow(message: IncomingMessage) -> None:
    sys.stdout.write(f"took {message.payload.decode()}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().create_future()


async def main() -> None:
    settings = MqttSettings.model_validate(
        {"port": int(sys.argv[1]), "username": "floorhand", "password": sys.argv[2], "client_id": "hand"}
    )
    session = MqttSession(settings, SystemClock(), Degraded(), swallow)
    serving = asyncio.create_task(session.run())
    await session.wait_connected()
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    await serving


if __name__ == "__main__":
    asyncio.run(main())
