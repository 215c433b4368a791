"""How urgent a turn's words are: an answer to who has just spoken, floods, alarms by their priority, advice, everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.admission import PRIORITY_UTTERANCE
from appliance.contracts.alarm import AlarmChange
from appliance.contracts.delivery import PRIORITY_ADVICE, PRIORITY_ANNOUNCEMENT, PRIORITY_ANSWER, PRIORITY_FLOOD_TOLD


def urgency_of(context: Mapping[str, Any], *, is_first: bool) -> int:
    """Return the delivery priority of a turn's sentence; ``is_first``: the turn has said nothing yet.

    Who spoke, or answered a question, hears what came of it after the sentence being said; an alarm waits that one sentence. The
    first words of an alarm's turn announce it, or its end; what else it has to say waits until every alarm is announced, and for
    nothing that was typed.
    """
    if context.get("by") == "voice" or context.get("answers"):
        return PRIORITY_ANSWER
    if "flood" in context:
        return PRIORITY_FLOOD_TOLD
    if "alarm" not in context:
        return PRIORITY_UTTERANCE
    if not is_first:
        return PRIORITY_ADVICE
    alarm = context["alarm"]
    told = "low" if alarm.get("change") == AlarmChange.CLEARED else str(alarm.get("priority"))
    return PRIORITY_ANNOUNCEMENT.get(told, PRIORITY_ANNOUNCEMENT["low"])
