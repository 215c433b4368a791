"""``read_tags``: what the machine says now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus
from appliance.contracts.tool import (
    AccessLevel,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution.fields import Fields
from appliance.execution.quantity import Quantity, quantity_of


class Arguments(Fields):
    """``keys`` are tag keys ``asset.name``."""

    keys: list[str] = Field(min_length=1, max_length=100)


class Result(Fields):
    """``value`` is the quantity when exactly one key was asked for."""

    values: dict[str, Quantity]
    value: Quantity | None


class ReadTags:
    """Reads tags over the field bus. A silent machine is an answer (quality stale or bad), not a failure."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="read_tags",
        description="Read tags of the plant now",
        schema=SchemaContract(Arguments, Result, required_fields=("keys",)),
        sla=SlaContract(max_execution_time_ms=6_000, retries=1),
        security=SecurityContract(AccessLevel.PUBLIC, "field"),
        telemetry=TelemetryContract("read_tags.started", "read_tags.done", "read_tags.failed"),
        has_effect=False,
        resource="field",
    )

    def __init__(self, bus: FieldBus, plant: Plant, clock: Clock) -> None:
        self._bus = bus
        self._plant = plant
        self._clock = clock

    def resources_of(self, arguments: Arguments) -> Sequence[str]:
        """Return the links of the tags: a silent one delays only what is read over it."""
        known = self._plant.tag_by_key
        return sorted({f"field:{known[key].link}" for key in arguments.keys if key in known})

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return ``values`` by key, and ``value`` for a single key.

        Raises:
            Refused: a key is not declared.
        """
        readings = await self._bus.read(arguments.keys)
        values = {key: quantity_of(reading, self._plant.tag_by_key[key], self._clock) for key, reading in readings.items()}
        return {"values": values, "value": values[arguments.keys[0]] if len(values) == 1 else None}
