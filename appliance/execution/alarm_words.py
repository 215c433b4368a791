"""How an alarm is called in a sentence: its text with its value in it, without a full stop."""

from __future__ import annotations

from appliance.contracts.alarm import Alarm
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording

MOST_NAMED = 20
"""Alarms a tool's result names one by one: hundreds would not fit into it, and nobody would read them. Its count is of all."""


def words_for(alarm: Alarm, plant: Plant, wording: Wording, language: str) -> str:
    """Return the words; the alarm's id when the plant model, or its text in this language, is not there any more."""
    definition = plant.alarm_by_id.get(alarm.alarm_id)
    if definition is None or language not in definition.text:  # raised under an older plant model
        return alarm.alarm_id.replace("_", " ")
    tag = plant.tag_by_key.get(definition.tag) if definition.tag else None
    # A gateway's own unit is not spoken: it may have no words, or words that nobody here chose.
    unit = tag.unit if tag is not None and alarm.unit == tag.unit else ""
    quantity = {"value": alarm.value, "unit": unit, "decimals": tag.decimals if tag else None}
    said = definition.text[language].replace("{value}", wording.spoken(quantity, language))
    return said.strip().rstrip(".。!！")
