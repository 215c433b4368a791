"""A tool whose effect on the world is one line appended to a real file, and a tool that only reads."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from appliance.contracts.errors import Unavailable
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

At = Callable[[str], None]


class MarkArguments(Fields):
    line: str
    what: str = "the mark"


class MarkResult(Fields):
    line: str


async def nothing(call: ToolCall) -> None:
    """What happens around a call when a test wants nothing to happen."""


class MarkFile:
    """Appends ``line`` with O_APPEND, as a field write that cannot be taken back. ``at`` is told before and after.

    ``before`` and ``after`` are awaited round the write; what they raise is what the caller of the tool sees.
    """

    contract: ClassVar[ToolContract] = ToolContract(
        name="mark",
        description="Append a line to a file",
        schema=SchemaContract(MarkArguments, MarkResult, required_fields=("line",)),
        sla=SlaContract(max_execution_time_ms=2_000),
        security=SecurityContract(AccessLevel.OPERATOR, "field"),
        telemetry=TelemetryContract("mark.started", "mark.done", "mark.failed"),
        has_effect=True,
    )

    def __init__(self, path: Path, at: At = lambda point: None) -> None:
        self._path = path
        self._at = at
        self.before: Callable[[ToolCall], Awaitable[None]] = nothing
        self.after: Callable[[ToolCall], Awaitable[None]] = nothing
        self.unreadable_times = 0

    async def run(self, call: ToolCall, arguments: MarkArguments) -> Mapping[str, Any]:
        await self.before(call)
        self._at("before effect")
        descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, (arguments.line + "\n").encode())
        os.close(descriptor)
        self._at("after effect")
        await self.after(call)
        return {"line": arguments.line}

    async def verify(self, call: ToolCall, arguments: MarkArguments) -> tuple[EffectDisposition, Mapping[str, Any]]:
        self._at("before verify")
        if self.unreadable_times > 0:
            self.unreadable_times -= 1
            raise Unavailable("the file cannot be read now")
        happened = arguments.line in lines(self._path)
        self._at("after verify")
        return (EffectDisposition.APPLIED, {"line": arguments.line}) if happened else (EffectDisposition.NONE, {})


class LookArguments(Fields):
    at: str = ""


class LookResult(Fields):
    seen: str


class Look:
    """Reads nothing in particular. ``answers`` are given in turn, the last one for ever; an exception is raised."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="look",
        description="Look",
        schema=SchemaContract(LookArguments, LookResult),
        sla=SlaContract(max_execution_time_ms=200, retries=2),
        security=SecurityContract(AccessLevel.PUBLIC, "field"),
        telemetry=TelemetryContract("look.started", "look.done", "look.failed", redact=("at",)),
        has_effect=False,
    )

    def __init__(self, *answers: Mapping[str, Any] | BaseException | Awaitable[Any]) -> None:
        self._answers = list(answers) or [{"seen": "all well"}]
        self.calls: list[ToolCall] = []

    async def run(self, call: ToolCall, arguments: LookArguments) -> Mapping[str, Any]:
        self.calls.append(call)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Mapping):
            return answer
        value: Mapping[str, Any] = await answer
        return value


def lines(path: Path) -> list[str]:
    """Return the lines written so far."""
    return path.read_text("utf-8").splitlines() if path.exists() else []
