"""Who keeps the soaked core busy: a gateway that publishes alarms of 200 cells, and people at the console.

Both are as exact as a client can be: what was not acknowledged is offered again, under the same key, until it is; and now and
then what was acknowledged is sent once more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from appliance.contracts.errors import Unavailable
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from crash.soak_site import CELLS, SOURCE, TOPIC
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage

_AGAIN = 0.1  # of what was acknowledged is sent again
_LATER = (429, 503)
_RETRY_S = 0.2
_WAIT_S = 10.0


class Gateway:
    """Raises and clears alarms. ``acknowledged`` are ``(alarm, activation, change)`` that the broker took."""

    def __init__(self, port: int, password: str, dice: Random, alarms_a_second: float) -> None:
        settings = MqttSettings.model_validate(
            {
                "port": port, "username": "plc", "password": password, "client_id": "soak-gateway", "alarm_topics": (),
                "state_prefix": "plant", "first_retry_s": 0.1, "longest_retry_s": 0.5,
            }
        )  # fmt: skip
        self._session = MqttSession(settings, SystemClock(), Degraded(), _ignore)
        self._dice, self._pause_s = dice, 1 / alarms_a_second
        self._active: dict[int, int] = {}
        self._raised = 0
        self.acknowledged: set[tuple[str, str, str]] = set()
        self.repeated = 0

    async def run(self, until: asyncio.Event) -> None:
        """Publish until told to stop; what is under way is published to its end."""
        connection = asyncio.create_task(self._session.run())
        try:
            while not await _is_set_within(until, self._dice.expovariate(1) * self._pause_s):
                await self._one()
        finally:
            connection.cancel()
            await asyncio.gather(connection, return_exceptions=True)

    async def _one(self) -> None:
        cell = self._dice.randrange(1, CELLS + 1)
        activation = self._active.pop(cell, None)
        change = "raised" if activation is None else "cleared"
        if activation is None:
            self._raised += 1
            activation = self._active[cell] = self._raised
        told = {"source": SOURCE, "alarm": f"CELL.{cell}", "activation": str(activation), "state": change, "value": 1.0}
        await self._publish(json.dumps(told).encode())
        self.acknowledged.add((f"cell_{cell}_fault", str(activation), change))
        if self._dice.random() < _AGAIN:
            await self._publish(json.dumps(told).encode())
            self.repeated += 1

    async def _publish(self, payload: bytes) -> None:
        while True:
            await self._session.wait_connected()
            try:
                await self._session.publish(TOPIC, payload)
            except Unavailable:
                await asyncio.sleep(_RETRY_S)  # the broker is away: offered again until it takes it
            else:
                return


async def _ignore(_: IncomingMessage) -> None:
    return


Post = Callable[[str, dict[str, Any]], Awaitable[Any]]


@dataclass
class Console:
    """People who type. ``post`` is to the core of the moment, ``is_ending`` whether that is being ended. ``answered``: key ->
    admission that the core named."""

    post: Post
    dice: Random
    is_ending: Callable[[], bool]
    answered: dict[str, str] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    put_off: int = 0
    broken_off: int = 0
    _asked: int = 0
    _set: int = 0

    async def set_things(self, until: asyncio.Event, pause_s: float) -> None:
        """Set one speed after another, each to a value of its own, so that the plant's log tells them apart."""
        while not await _is_set_within(until, pause_s):
            self._set += 1
            cell = self.dice.randrange(1, CELLS + 1)
            answer = await self._ask(f"set the speed of cell {cell} to {self._set}")
            if answer is not None and answer["state"] == "confirming":
                await self._ask("yes confirm")

    async def ask_things(self, until: asyncio.Event, pause_s: float) -> None:
        """Read, and now and then stop whatever is being done."""
        while not await _is_set_within(until, pause_s):
            if self.dice.random() < 0.1:
                await self._ask("stop that")
            else:
                await self._ask(f"what is the speed of cell {self.dice.randrange(1, CELLS + 1)}")

    async def _ask(self, text: str) -> dict[str, Any] | None:
        """Ask until there is an answer; None if the core refuses."""
        self._asked += 1
        key = f"soak-{self._asked}"
        answer = await self._send(key, text)
        if answer is not None and self.dice.random() < _AGAIN:
            await self._send(key, text)
        return answer

    async def _send(self, key: str, text: str) -> dict[str, Any] | None:
        while True:
            try:
                answer: dict[str, Any] = await self.post("/v1/ask", {"text": text, "wait_s": _WAIT_S, "key": key})
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if self.is_ending():  # it was asked to end while this waited for its answer
                    self.broken_off += 1
                elif status not in _LATER:
                    self.refused[status] = self.refused.get(status, 0) + 1
                    return None
                else:
                    self.put_off += 1
            except httpx.HTTPError:
                pass  # the core is gone: whether it took this nobody knows, so it is sent again with its key
            else:
                if self.answered.setdefault(key, answer["admission"]) != answer["admission"]:
                    self.doubled.append(f"{key} is {self.answered[key]} and {answer['admission']}")
                return answer
            await asyncio.sleep(_RETRY_S)


async def _is_set_within(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False
