"""``schedule_check``: has something looked at later, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.plan import Intent
from appliance.contracts.ports import Wording
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
from appliance.foundation.untrusted import clean
from appliance.store import scheduled_checks

Understand = Callable[[str, str], Intent | None]
"""Takes a sentence and its language; returns what it means. Quick, and callable from the thread that writes."""

READING = frozenset({"read_tag", "list_alarms", "vitals"})
"""Intents that only read and speak: nothing else is done when nobody may be there."""

MOST_WAITING = 20
"""Checks that may wait at the same time: what they tell is spoken to everybody."""

MOST_MINUTES = 24 * 60.0
_LONGEST_SENTENCE = 300  # characters; the phrasebook understands no longer ones


class Arguments(Fields):
    """``sentence`` is what a person would say to have it looked at now."""

    minutes: float = Field(gt=0, le=MOST_MINUTES)
    sentence: str = Field(min_length=1, max_length=_LONGEST_SENTENCE)


class Result(Fields):
    """``sentence`` says what will be done, and when."""

    id: str
    due_utc: datetime
    what: str
    sentence: str


class ScheduleCheck:
    """Writes the check's row in the action's own transaction. The sentence must mean something that only reads."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="schedule_check",
        description="Look at something once, in some minutes, and say it then",
        schema=SchemaContract(Arguments, Result, required_fields=("minutes", "sentence")),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.INTERNAL, "ledger"),
        telemetry=TelemetryContract(
            "schedule_check.started", "schedule_check.done", "schedule_check.failed", redact=("sentence",)
        ),
        has_effect=False,
    )

    def __init__(self, clock: Clock, ids: IdSource, wording: Wording, understand: Understand) -> None:
        self._clock = clock
        self._ids = ids
        self._wording = wording
        self._understand = understand

    def definition_of(self, arguments: Mapping[str, Any], language: str) -> Any:
        """Return what the sentence means."""
        intent = self._understand(clean(str(arguments.get("sentence") or ""), _LONGEST_SENTENCE), language)
        return None if intent is None else {"intent": intent.name, "slots": dict(intent.slots)}

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Insert the check.

        Raises:
            Refused: the sentence is not understood or does more than read, or too many checks wait already.
        """
        sentence = clean(arguments.sentence, _LONGEST_SENTENCE)
        intent = self._understand(sentence, call.language)
        if intent is None or "refusal" in intent.slots:
            refused = Refused(f"I do not understand what to look at: {sentence}")
            raise refused.worded("check_not_understood")
        if intent.name not in READING:
            raise Refused("only reading values, alarms and my own state can be asked for in advance").worded("check_only_reads")
        if len(scheduled_checks.waiting(tx)) >= MOST_WAITING:
            refused = Refused(f"{MOST_WAITING} checks are waiting already; cancel some first")
            raise refused.worded("checks_too_many", count=MOST_WAITING)
        check = scheduled_checks.schedule(
            tx,
            self._clock,
            self._ids,
            turn_id=call.turn_id,
            lane=call.lane,
            language=call.language,
            principal=call.principal,
            intent=intent.name,
            slots=dict(intent.slots),
            what=sentence,
            after_s=arguments.minutes * 60.0,
        )
        after = {"value": round(check.after_s), "unit": "s"}
        said = self._wording.reply("check_scheduled", call.language, what=sentence, after=after)
        return {"id": check.id, "due_utc": check.due_utc, "what": sentence, "sentence": said}
