"""``write_report``: files what happened as a commit in procedural memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from appliance.contracts.errors import Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.ports import ProcedureStore
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
from appliance.foundation.untrusted import clean

_LONGEST_WHY = 200  # characters of what git says


class Arguments(Fields):
    """``lines`` become the report's list, in order."""

    title: str = Field(min_length=1, max_length=200)
    asset: str = Field(min_length=1)
    lines: list[str] = Field(min_length=1, max_length=200)


class Result(Fields):
    """Where the report is: its path and the commit that brought it."""

    path: str
    commit: str


class WriteReport:
    """Commits ``reports/<date>-<turn>.md``. Its bytes follow from arguments and turn alone, so it can be found again."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="write_report",
        description="File a report of what happened",
        schema=SchemaContract(Arguments, Result, required_fields=("title", "asset", "lines")),
        sla=SlaContract(max_execution_time_ms=15_000),
        security=SecurityContract(AccessLevel.INTERNAL, "memory"),
        telemetry=TelemetryContract(
            "write_report.started", "write_report.done", "write_report.failed", redact=("title", "lines")
        ),
        has_effect=True,
    )

    def __init__(self, procedures: ProcedureStore) -> None:
        self._procedures = procedures

    def not_ready(self) -> str:
        """Say why nothing can be filed now."""
        return self._procedures.fault

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Commit the report.

        Raises:
            Refused: the path leaves the repository.
            Unavailable: git is missing or fails.
        """
        path, content = report_of(call, arguments)
        try:
            commit = await self._procedures.commit_file(path, content, f"Report: {arguments.title}")
        except Unavailable as error:
            error.worded("report_not_filed", why=clean(error.message, _LONGEST_WHY))
            raise
        return {"path": path, "commit": commit}

    async def verify(self, call: ToolCall, arguments: Arguments) -> tuple[EffectDisposition, Mapping[str, object]]:
        """Look for the commit with exactly this content.

        Raises:
            Unavailable: git cannot be asked now.
        """
        path, content = report_of(call, arguments)
        commit = await self._procedures.find_commit(path, content)
        if commit is None:
            return EffectDisposition.NONE, {}
        return EffectDisposition.APPLIED, {"path": path, "commit": commit}

    def record_of(self, call: ToolCall, value: Mapping[str, Any]) -> Record:
        """Return the record that tells the coordinator of the commit."""
        payload = {
            "path": value["path"],
            "commit": value["commit"],
            "turn_id": call.turn_id,
            "title": call.arguments["title"],
            "asset": call.arguments["asset"],
        }
        return Record(OperationLane.P2, "report.committed", str(value["path"]), payload)


def report_of(call: ToolCall, arguments: Arguments) -> tuple[str, str]:
    """Return path and Markdown of the report; the same call gives the same bytes in every process."""
    opened_utc = str(call.context["turn"]["opened_utc"])
    head = [f"# {_line(arguments.title)}", "", f"- asset: {_line(arguments.asset)}", f"- opened: {opened_utc}"]
    head += [f"- turn: {call.turn_id}", f"- session: {call.session_id}", ""]
    body = [f"- {_line(line)}" for line in arguments.lines]
    return f"reports/{opened_utc[:10]}-{call.turn_id}.md", "\n".join([*head, *body]) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())
