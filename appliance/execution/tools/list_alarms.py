"""``list_alarms``: which alarms are live, said in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from appliance.contracts.alarm import Alarm, AlarmState, Inhibition
from appliance.contracts.alarm_definition import Priority
from appliance.contracts.clock import Clock
from appliance.contracts.plant import Plant
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
from appliance.execution.alarm_words import MOST_NAMED, words_for
from appliance.execution.fields import Fields
from appliance.store import alarms, inhibitions

_SPOKEN_ALARMS = 3  # of a flood only the most urgent are said; the count tells that there are more
_URGENCY: Mapping[str, int] = {p: i for i, p in enumerate((Priority.CRITICAL, Priority.HIGH, Priority.MEDIUM, Priority.LOW))}


class Arguments(Fields):
    """None."""


class LiveAlarm(Fields):
    """One activation; ``text`` is spoken, with its value. ``revision`` is what an acknowledgement names. ``held``: why it is not
    announced."""

    activation: str
    revision: int
    alarm: str
    asset: str
    priority: str
    state: AlarmState
    held: Inhibition | None
    text: str


class Result(Fields):
    """``count`` is of all; ``alarms`` are the first of them: most urgent first, oldest first among equals, what is held last.
    ``sentence`` says how many there are and names the first three. What means nothing by design, or is out of service, is none
    of them."""

    count: int
    sentence: str
    alarms: list[LiveAlarm]


class ListAlarms:
    """Reads the live alarms where admission keeps them: in the ledger."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="list_alarms",
        description="List the live alarms",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("list_alarms.started", "list_alarms.done", "list_alarms.failed"),
        has_effect=False,
    )

    def __init__(self, plant: Plant, wording: Wording, clock: Clock) -> None:
        self._plant = plant
        self._wording = wording
        self._clock = clock

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return the alarms and the sentence in the turn's language."""
        held = inhibitions.strongest_of_all(tx, self._clock)
        live = [alarm for alarm in alarms.live(tx) if held.get(alarm.alarm_id) in (None, Inhibition.SHELVED)]
        live.sort(key=lambda alarm: (alarm.alarm_id in held, _URGENCY.get(alarm.priority, len(_URGENCY))))
        told = [self._told(alarm, held.get(alarm.alarm_id), call.language) for alarm in live[:MOST_NAMED]]
        return {"count": len(live), "sentence": self._sentence(told, len(live), call.language), "alarms": told}

    def _told(self, alarm: Alarm, held: Inhibition | None, language: str) -> LiveAlarm:
        return LiveAlarm(
            activation=alarm.activation_id,
            revision=alarm.revision,
            alarm=alarm.alarm_id,
            asset=alarm.asset,
            priority=alarm.priority,
            state=alarm.state,
            held=held,
            text=words_for(alarm, self._plant, self._wording, language),
        )

    def _sentence(self, told: Sequence[LiveAlarm], count: int, language: str) -> str:
        if not told:
            return self._wording.reply("alarms_none", language)
        parts = [self._wording.reply(f"alarm_{a.held or a.state}", language, alarm=a.text) for a in told[:_SPOKEN_ALARMS]]
        name = "alarms_one" if count == 1 else "alarms_many"
        return self._wording.reply(name, language, count=count, alarms=parts)
