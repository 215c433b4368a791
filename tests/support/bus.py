"""A field bus in memory: registers are a table, and reading can be held up, refused or fail as a PLC's would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable, Uncertain
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Value, WriteReceipt
from appliance.contracts.refusals import no_tag

VALUES: dict[str, Value] = {
    "motor_3.temperature": 94.2, "motor_3.load": 80.0, "motor_3.vibration": 2.5, "motor_3.fan_speed": 60,
    "motor_3.acknowledge": False, "motor_3.reset": False, "pump_3.pressure": 4.1, "pump_3.flow": 12.0, "pump_3.running": True,
    "conveyor_3.speed": 1.2, "conveyor_3.current": 8.4, "conveyor_3.running": True,
}  # fmt: skip


class TableBus:
    """Implements FieldBus. ``reading`` counts reads under way; they wait until ``open_gate`` is set, answers to
    writes until ``write_gate`` is."""

    def __init__(self, plant: Plant, clock: Clock) -> None:
        self._plant = plant
        self._clock = clock
        self.values = dict(VALUES)
        self.writes: list[tuple[str, Value]] = []
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self.write_gate = asyncio.Event()
        self.write_gate.set()
        self.reading = 0
        self.most_reading = 0
        self.is_away = False
        self.answers_writes = True

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        for key in keys:
            self._declared(key)
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        try:
            await self.open_gate.wait()
        finally:
            self.reading -= 1
        return {key: self._reading(key) for key in keys}

    async def write(self, key: str, value: Value) -> WriteReceipt:
        self._declared(key)
        if self.is_away:
            raise Unavailable("the PLC is away").worded("controller_away", asset=key.partition(".")[0])
        self.writes.append((key, value))
        self.values[key] = value
        await self.write_gate.wait()
        if not self.answers_writes:
            raise Uncertain("written, but no answer came")
        return WriteReceipt(key, value, self._reading(key), verified=True)

    async def probe(self, key: str) -> Mapping[str, Any]:
        self._declared(key)
        return {"key": key, "wire": self._plant.tag_by_key[key].where, "raw": ["0x0001"], "readings": []}

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        if self.is_away:
            raise Unavailable("the PLC is away").worded("controller_log_away", link="line 3")
        return [{"sequence": 1, "code": 103, "text": {"en": "motor fan failing", "zh": "电机风扇故障"}, "value": 0.0, "at_s": 9}]

    def _declared(self, key: str) -> None:
        if key not in self._plant.tag_by_key:
            raise no_tag(key)

    def _reading(self, key: str) -> Reading:
        unit, now = self._plant.tag_by_key[key].unit, self._clock.utc()
        if self.is_away:
            return Reading(key, None, unit, Quality.BAD, None, (), "the PLC is away")
        return Reading(key, self.values[key], unit, Quality.GOOD, now, (1,))
