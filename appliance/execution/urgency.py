"""How urgent a turn's words are: an answer to who has just spoken, then floods and alarms, then everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.admission import PRIORITY_ALARM, PRIORITY_FLOOD, PRIORITY_UTTERANCE
from appliance.contracts.delivery import PRIORITY_ANSWER


def urgency_of(context: Mapping[str, Any]) -> int:
    """Return the delivery priority of a turn's sentences.

    Who spoke, or answered a question, hears what came of it after the sentence being said; an alarm waits that one sentence.
    """
    if context.get("by") == "voice" or context.get("answers"):
        return PRIORITY_ANSWER
    if "flood" in context:
        return PRIORITY_FLOOD
    return PRIORITY_ALARM if "alarm" in context else PRIORITY_UTTERANCE
