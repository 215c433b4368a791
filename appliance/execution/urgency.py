"""How urgent a turn's words are: those of an alarm before everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.admission import PRIORITY_ALARM, PRIORITY_UTTERANCE


def urgency_of(context: Mapping[str, Any]) -> int:
    """Return the delivery priority of a turn's sentences: an alarm's admission priority, else an utterance's."""
    return PRIORITY_ALARM if "alarm" in context else PRIORITY_UTTERANCE
