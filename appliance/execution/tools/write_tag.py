"""``write_tag``: sets one value in the machine, and can find out later whether it did.

What has to be so before it may is the matter of ``execution/approval/approvals``: limits, level, interlocks, a person's yes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable, Uncertain
from appliance.contracts.named_value import number_of
from appliance.contracts.operation import OperationLane
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus
from appliance.contracts.reading import Quality, Value
from appliance.contracts.tag import DataType, Tag
from appliance.contracts.tool import (
    AccessLevel,
    EffectDisposition,
    Record,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution.fields import Fields
from appliance.execution.quantity import Quantity, quantity_of

# Spacing of mantissas (IEEE 754 binary16, binary32, binary64), relative to the value.
_FLOAT_STEPS = {DataType.FLOAT16: 2.0**-10, DataType.FLOAT32: 2.0**-23, DataType.FLOAT64: 2.0**-52}
_ROUNDING = 1e-9  # slack of the comparison itself, in steps


class Arguments(Fields):
    """``value`` is in the tag's engineering unit. ``what`` says the write as people do: "fan speed of motor 3 to 80 percent"."""

    key: str
    value: Value
    what: str = Field(min_length=1, max_length=200)


class Result(Fields):
    """``shown`` is what the machine holds afterwards, as read back."""

    key: str
    wanted: Value
    shown: Quantity


class WriteTag:
    """Writes one declared tag within its limits. The bus reads it back; what differs is not called done."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="write_tag",
        description="Write one tag within its limits and read it back",
        schema=SchemaContract(Arguments, Result, required_fields=("key", "value", "what")),
        sla=SlaContract(max_execution_time_ms=8_000),
        security=SecurityContract(AccessLevel.OPERATOR, "field"),
        telemetry=TelemetryContract("write_tag.started", "write_tag.done", "write_tag.failed"),
        has_effect=True,
        resource="field",
        overwrites="key",
    )

    def __init__(
        self,
        bus: FieldBus,
        plant: Plant,
        clock: Clock,
        level_of_tag: Callable[[str], AccessLevel] = lambda key: AccessLevel.OPERATOR,
    ) -> None:
        """``level_of_tag``: the level that writing a tag needs, by its key."""
        self._bus = bus
        self._plant = plant
        self._clock = clock
        self._level_of_tag = level_of_tag

    def level_of(self, arguments: Arguments) -> AccessLevel:
        """Return the level this write needs."""
        return self._level_of_tag(arguments.key)

    def record_of(self, call: ToolCall, value: Mapping[str, object]) -> Record:
        """Return the record of a write that was made: tag, value with its unit, limits, who asked and how that is known."""
        key = str(call.arguments["key"])
        tag = self._plant.tag_by_key.get(key)
        limits = {} if tag is None else {"unit": tag.unit, "low": tag.low, "high": tag.high}
        payload = {
            "tag": key, "value": call.arguments["value"], **limits, "shown": value.get("shown"), "turn": call.turn_id,
            "action": call.action_id, "who": call.principal.to_json(),
        }  # fmt: skip
        return Record(OperationLane.P2, "tag.written", key, payload)

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Write once.

        Raises:
            Refused: not declared, not writable or outside its limits; nothing was sent.
            Unavailable: the link is down and nothing was sent.
            Uncertain: no answer came, or the read-back does not show the value.
        """
        receipt = await self._bus.write(arguments.key, arguments.value)
        if not receipt.verified:
            raise Uncertain(f"{arguments.key} does not show the value that was written", key=arguments.key)
        shown = quantity_of(receipt.read_back, self._plant.tag_by_key[arguments.key], self._clock)
        return {"key": arguments.key, "wanted": arguments.value, "shown": shown}

    async def verify(self, call: ToolCall, arguments: Arguments) -> tuple[EffectDisposition, Mapping[str, object]]:
        """Read the tag: APPLIED if it shows the wanted value, NONE if it shows another.

        Raises:
            Unavailable: it cannot be read fresh now.
        """
        tag = self._plant.tag_by_key.get(arguments.key)
        if tag is None:  # the plant model changed meanwhile: nothing can be read any more
            return EffectDisposition.UNKNOWN, {"key": arguments.key}
        reading = (await self._bus.read([tag.key]))[tag.key]
        if reading.quality is not Quality.GOOD or reading.value is None:
            raise Unavailable(f"{tag.key} cannot be read now", key=tag.key)
        shows_it = same_on_the_wire(tag, arguments.value, reading.value)
        evidence = {"key": tag.key, "wanted": arguments.value, "shown": quantity_of(reading, tag, self._clock)}
        return EffectDisposition.APPLIED if shows_it else EffectDisposition.NONE, evidence


def same_on_the_wire(tag: Tag, wanted: Value, shown: Value) -> bool:
    """Whether ``shown`` is what the device would hold after writing ``wanted``: they differ by less than one raw step.

    A whole step apart is another value: a setpoint of 59 must not pass for the 60 that was asked for. A name and its number
    are the same.
    """
    if tag.names or tag.flags:
        try:
            return number_of(tag, wanted) == number_of(tag, shown)
        except Refused:  # it shows what nobody can have written
            return False
    if isinstance(wanted, bool | str) or isinstance(shown, bool | str):
        return wanted == shown if isinstance(wanted, str) or isinstance(shown, str) else bool(wanted) == bool(shown)
    step = abs(tag.scale)
    if tag.type in _FLOAT_STEPS:
        step *= _FLOAT_STEPS[tag.type] * max(1.0, abs(wanted / tag.scale)) * 2
    return abs(wanted - shown) < step * (1 - _ROUNDING)
