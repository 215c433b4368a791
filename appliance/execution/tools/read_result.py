"""``read_result``: pages through what an earlier call of the session said that was too long to be kept whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

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
from appliance.execution.spill import Spill


class Arguments(Fields):
    """``result`` is what the long result's ``spilled`` says. ``offset`` and ``length`` count characters."""

    result: str = Field(min_length=1, max_length=64)
    offset: int = Field(default=0, ge=0)
    length: int = Field(default=4_000, ge=1, le=20_000)


class Result(Fields):
    """``next_offset`` is where to go on, null at the end; ``of`` is how many characters there are."""

    text: str
    offset: int
    of: int
    next_offset: int | None


class ReadResult:
    """Reads a piece of a long result. Another session's, and one of a tool above the asker's level, is not there."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="read_result",
        description="Read on in a result that was too long",
        schema=SchemaContract(Arguments, Result, required_fields=("result",)),
        sla=SlaContract(max_execution_time_ms=5_000, retries=1),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("read_result.started", "read_result.done", "read_result.failed"),
        has_effect=False,
    )

    def __init__(self, spill: Spill) -> None:
        self._spill = spill

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return the piece.

        Raises:
            Refused: there is no such result for this session and asker.
            Unavailable: it cannot be read now.
        """
        piece = await self._spill.read(
            arguments.result,
            session_id=call.session_id,
            level=call.principal.level,
            offset=arguments.offset,
            length=arguments.length,
        )
        end = piece.offset + len(piece.text)
        return {"text": piece.text, "offset": piece.offset, "of": piece.of, "next_offset": end if end < piece.of else None}
