"""``read_vitals``: how the machine is that the appliance runs on, said in a sentence or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from appliance.contracts.ports import Wording
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

ReadNow = Callable[[], Mapping[str, Any]]
"""Looks once: the fields of ``health.vitals.Vitals`` as JSON. A few small files, no waiting."""

_WEAK, _WAS_WEAK = "under_voltage", "under_voltage_since_boot"
_SLOWED = frozenset({"throttled", "soft_temperature_limit", "frequency_capped"})  # the firmware's words for now


class Arguments(Fields):
    """None."""


class Result(Fields):
    """What the machine tells; None where it does not. ``throttling`` are the firmware's words."""

    temperature_degc: float | None
    disk_free_percent: float | None
    memory_free_percent: float | None
    throttling: list[str] | None
    sentence: str


class ReadVitals:
    """Reads the machine's own vital signs. What it does not tell is left out, never guessed."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="read_vitals",
        description="Read temperature, disk, memory and power trouble of the machine the appliance runs on",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=2_000),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("read_vitals.started", "read_vitals.done", "read_vitals.failed"),
        has_effect=False,
    )

    def __init__(self, read_now: ReadNow, wording: Wording) -> None:
        self._read_now = read_now
        self._wording = wording

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Look once and say it."""
        vitals = self._read_now()
        temperature = vitals["cpu_temperature_degc"]
        disk = _percent(vitals["data_free_bytes"], vitals["data_total_bytes"])
        memory = _percent(vitals["memory_available_bytes"], vitals["memory_total_bytes"])
        throttling = vitals["throttling"]
        return {
            "temperature_degc": temperature,
            "disk_free_percent": disk,
            "memory_free_percent": memory,
            "throttling": None if throttling is None else list(throttling),
            "sentence": self._sentence(temperature, disk, memory, frozenset(throttling or ()), call.language),
        }

    def _sentence(
        self, temperature: float | None, disk: float | None, memory: float | None, trouble: frozenset[str], language: str
    ) -> str:
        told = (
            ("vitals_temperature", temperature, "degC"),
            ("vitals_disk", disk, "%"),
            ("vitals_memory", memory, "%"),
        )
        parts = [
            self._wording.reply(name, language, value={"value": value, "unit": unit, "decimals": 0})
            for name, value, unit in told
            if value is not None
        ]
        said = [
            self._wording.reply("vitals", language, parts=parts) if parts else self._wording.reply("vitals_unknown", language)
        ]
        if _WEAK in trouble:
            said.append(self._wording.reply("vitals_power_low", language))
        elif _WAS_WEAK in trouble:
            said.append(self._wording.reply("vitals_power_was_low", language))
        if trouble & _SLOWED:
            said.append(self._wording.reply("vitals_slowed", language))
        return " ".join(said)


def _percent(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else round(100.0 * part / whole, 1)
