"""``read_plc_log``: what the controller itself noted last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from appliance.contracts.ports import FieldBus, Wording
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

_SPOKEN_EVENTS = 3  # more than three events in one sentence are not remembered by a listener


class Arguments(Fields):
    """``newest`` is how many entries to read."""

    newest: int = Field(default=8, ge=1, le=100)


class Result(Fields):
    """``entries`` newest last: ``{sequence, code, text: {language: …}, value, at_s}``. ``summary`` is one spoken sentence."""

    entries: list[dict[str, Any]]
    count: int
    summary: str


class ReadPlcLog:
    """Reads the newest entries of the PLC's event ring."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="read_plc_log",
        description="Read the newest entries of the controller's event log",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=6_000, retries=1),
        security=SecurityContract(AccessLevel.PUBLIC, "field"),
        telemetry=TelemetryContract("read_plc_log.started", "read_plc_log.done", "read_plc_log.failed"),
        has_effect=False,
        resource="field",
    )

    def __init__(self, bus: FieldBus, wording: Wording, link: str = "") -> None:
        """``link`` is the one over which the log is read, if there is one."""
        self._bus = bus
        self._wording = wording
        self._link = link

    def resources_of(self, arguments: Arguments) -> Sequence[str]:
        """Return the log's link: what is read over others does not wait for it."""
        return [f"field:{self._link}"] if self._link else []

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return the entries and a sentence about them in the turn's language.

        Raises:
            Unavailable: the PLC does not answer.
        """
        entries = await self._bus.read_event_log(arguments.newest)
        return {"entries": [dict(e) for e in entries], "count": len(entries), "summary": self._summary(entries, call.language)}

    def _summary(self, entries: list[Mapping[str, Any]], language: str) -> str:
        texts = [_text(entry, language) for entry in entries]
        newest_first = list(dict.fromkeys(reversed(texts)))[:_SPOKEN_EVENTS]
        if not newest_first:
            return self._wording.reply("plc_log_empty", language)
        name = "plc_log_one" if len(entries) == 1 else "plc_log_events"
        return self._wording.reply(name, language, count=len(entries), events=newest_first[::-1])


def _text(entry: Mapping[str, Any], language: str) -> str:
    return str(entry["text"].get(language) or entry["code"])
