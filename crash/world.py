"""What is outside the process and outlives it: the machine, the loudspeaker, the broker, the report archive, and who sends.

Each is a file of JSON lines in the folder of one history: a line is something that really happened. The kill switch is passed
before and after each line.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.delivery import Delivery
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Value, WriteReceipt
from appliance.contracts.speech import SpeechReceipt

At = Callable[[str], None]

MACHINE, SPOKEN, PUBLISHED, REPORTS, CALLED = "machine", "spoken", "published", "reports", "called"
EFFECTS = (MACHINE, SPOKEN, PUBLISHED, REPORTS, CALLED)
"""What the appliance does; the rest is what others do to it."""
OFFERED, ACKNOWLEDGED = "offered", "acknowledged"

_SHOWN: Mapping[str, Value] = {
    "motor_3.temperature": 94.2, "motor_3.load": 80.0, "motor_3.vibration": 2.5, "motor_3.fan_speed": 60,
    "motor_3.acknowledge": False, "motor_3.reset": False, "pump_3.pressure": 4.1, "pump_3.flow": 12.0, "pump_3.running": True,
    "conveyor_3.speed": 1.2, "conveyor_3.current": 8.4, "conveyor_3.running": True,
}  # fmt: skip


class World:
    """The files. ``at`` is told of everything just before it happens and just after."""

    def __init__(self, folder: Path, at: At = lambda point: None) -> None:
        self._folder = folder
        self._at = at

    def happen(self, where: str, **what: Any) -> None:
        """Let something happen: one line, on disk when this returns."""
        self._at(f"before {where}")
        descriptor = os.open(self._file(where), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, (json.dumps(what) + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._at(f"after {where}")

    def seen(self, where: str) -> list[dict[str, Any]]:
        """Everything that happened there, oldest first."""
        file = self._file(where)
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    def _file(self, where: str) -> Path:
        return self._folder / f"{where}.jsonl"


async def at_once(keys: Sequence[str]) -> None:
    """Let the machine answer without delay."""


class Machine:
    """Implements FieldBus: a machine that keeps what was written. ``writing`` is awaited between a write and its answer,
    ``reading`` before each answer to a read."""

    def __init__(self, world: World, plant: Plant, clock: Clock) -> None:
        self._world = world
        self._plant = plant
        self._clock = clock
        self.values = dict(_SHOWN) | {each["key"]: each["value"] for each in world.seen(MACHINE)}
        self.writing: Callable[[Sequence[str]], Awaitable[None]] = at_once
        self.reading: Callable[[Sequence[str]], Awaitable[None]] = at_once

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        """Read the registers."""
        await self.reading(keys)
        return {key: self._reading(key) for key in keys}

    async def write(self, key: str, value: Value) -> WriteReceipt:
        """Take the value, then answer."""
        self._reading(key)  # Refused if it is not declared
        self._world.happen(MACHINE, key=key, value=value)
        self.values[key] = value
        await self.writing([key])
        shown = self._reading(key)
        return WriteReceipt(key, value, shown, verified=shown.value == value)

    async def probe(self, key: str) -> Mapping[str, Any]:
        """Show a tag's registers."""
        return {"key": key, "raw": [], "readings": []}

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        """One entry."""
        return [{"sequence": 1, "code": 103, "text": {"en": "motor fan failing", "zh": "电机风扇故障"}, "value": 0.0, "at_s": 9}]

    def _reading(self, key: str) -> Reading:
        tag = self._plant.tag_by_key.get(key)
        if tag is None:
            raise Refused(f"{key} is not a tag of this plant", tag=key)
        return Reading(key, self.values[key], tag.unit, Quality.GOOD, self._clock.utc(), (1,))


class Loudspeaker:
    """Implements Mouth. While it ``is_away`` nothing can be said. With ``breaks_off`` the next sentence is cut short, and
    ``back`` is called: it can speak again."""

    def __init__(self, world: World, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self.is_away = False
        self.breaks_off = False
        self.back: Callable[[], None] = lambda: None

    async def say(self, delivery: Delivery) -> SpeechReceipt:
        """Say it whole."""
        if self.is_away:
            raise Unavailable("no voice")
        began_ns = self._clock.monotonic_ns()
        self._world.happen(SPOKEN, delivery=delivery.id, words=f"{delivery.lead} {delivery.text}".strip())
        if self.breaks_off:
            self.breaks_off = False
            self.back()
            raise Unavailable("the voice went away", may_have_played=True)
        return SpeechReceipt(delivery.id, began_ns, self._clock.monotonic_ns())


class BrokerFile:
    """Implements Broker. ``connected`` may be cleared; with ``loses_answer`` the next message arrives and nobody hears of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.connected = asyncio.Event()
        self.connected.set()
        self.loses_answer = False

    async def wait_connected(self) -> None:
        """Wait for the connection."""
        await self.connected.wait()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Take it over."""
        if not self.connected.is_set():
            raise Unavailable("no broker")
        self._world.happen(PUBLISHED, topic=topic, payload=json.loads(payload))
        if self.loses_answer:
            self.loses_answer = False
            raise Unavailable("no answer", may_have_arrived=True)


class Archive:
    """Implements ProcedureStore. It files what it is given, as often as it is given it."""

    fault = ""

    def __init__(self, world: World) -> None:
        self._world = world

    async def commit_file(self, path: str, content: str, message: str) -> str:
        """File it."""
        self._world.happen(REPORTS, path=path, content=content)
        return f"commit of {path}"

    async def find_commit(self, path: str, content: str) -> str | None:
        """Look for it."""
        found = any(each["path"] == path and each["content"] == content for each in self._world.seen(REPORTS))
        return f"commit of {path}" if found else None
