"""``read_playbook``: which procedures there are, and what one of them says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.ports import Wording
from appliance.contracts.procedures import Procedure, Procedures
from appliance.contracts.store import Transaction
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

_SPOKEN_TITLES = 8  # names in one sentence; the count tells that there are more
_MOST_LISTED = 100


class Arguments(Fields):
    """``name`` is the playbook's; empty: all are listed."""

    name: str = Field(default="", max_length=64)


class Listed(Fields):
    """One playbook in a list. ``parameters`` are what has to be known to run it; ``is_for_alarms``: it cannot be asked for."""

    name: str
    title: str
    description: str
    access: str
    parameters: list[str]
    is_for_alarms: bool
    example: str


class Result(Fields):
    """``sentence`` is what to say. ``guidance`` and ``steps`` (in words) are of the one that was asked for."""

    count: int
    found: list[Listed]
    guidance: str
    steps: list[str]
    sentence: str


class ReadPlaybook:
    """Looks into the playbooks that were loaded. What is above the asker's level is not there."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="read_playbook",
        description="List the procedures, or read one",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "memory"),
        telemetry=TelemetryContract("read_playbook.started", "read_playbook.done", "read_playbook.failed"),
        has_effect=False,
    )

    def __init__(self, procedures: Procedures, wording: Wording) -> None:
        self._procedures = procedures
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return the list, or the one that is named. Writes nothing.

        Raises:
            Refused: there is none of this name.
        """
        level, language = call.principal.level, call.language
        if not arguments.name:
            found = self._procedures.listed(language, level)
            return self._result(found, "", (), self._list(found, language))
        one = self._procedures.find(arguments.name, language, level)
        sentence = self._wording.reply("playbook_read", language, title=one.title, text=one.text)
        return self._result((one,), one.guidance, one.steps, sentence)

    def _list(self, found: tuple[Procedure, ...], language: str) -> str:
        name = {0: "playbooks_none", 1: "playbooks_one"}.get(len(found), "playbooks_many")
        titles = [one.title for one in found[:_SPOKEN_TITLES]]
        return self._wording.reply(name, language, count=len(found), titles=titles)

    def _result(self, found: tuple[Procedure, ...], guidance: str, steps: tuple[str, ...], sentence: str) -> Mapping[str, object]:
        listed = [
            Listed(
                name=one.name, title=one.title, description=one.description, access=one.level.word,
                parameters=list(one.parameters), is_for_alarms=one.is_for_alarms, example=one.example,
            )
            for one in found[:_MOST_LISTED]
        ]  # fmt: skip
        return {"count": len(found), "found": listed, "guidance": guidance, "steps": list(steps), "sentence": sentence}
