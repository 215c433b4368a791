"""A tool whose effect is nothing but a count: what a step costs then is what makes it durable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import ClassVar

from appliance.contracts.tool import (
    AccessLevel,
    EffectDisposition,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution.fields import Fields


class Arguments(Fields):
    """``number`` counts the steps of a turn; ``payload`` stands for what a call carries."""

    number: int
    payload: str


class Result(Fields):
    """``number`` comes back."""

    number: int


class Noop:
    """Declared as a field write. ``called`` is told of every call: its turn, its step, and the monotonic clock in s."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="noop",
        description="Do nothing, durably",
        schema=SchemaContract(Arguments, Result, required_fields=("number", "payload")),
        sla=SlaContract(max_execution_time_ms=10_000),
        security=SecurityContract(AccessLevel.OPERATOR, "field"),
        telemetry=TelemetryContract("noop.started", "noop.done", "noop.failed"),
        has_effect=True,
    )

    def __init__(self, called: Callable[[str, int, float], None]) -> None:
        self._called = called

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, int]:
        """Tell ``called``."""
        self._called(call.turn_id, arguments.number, time.perf_counter())
        return {"number": arguments.number}

    async def verify(self, call: ToolCall, arguments: Arguments) -> tuple[EffectDisposition, Mapping[str, int]]:
        """Nothing tells afterwards whether nothing was done."""
        return EffectDisposition.UNKNOWN, {}
