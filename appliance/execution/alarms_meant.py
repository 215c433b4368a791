"""Which alarms a person means who names none, and what is told of those something was done to: for tools that act on alarms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from appliance.contracts.alarm import Alarm, AlarmState
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolCall
from appliance.execution.alarm_words import MOST_NAMED, words_for
from appliance.store import alarms, turns

Shown = tuple[str, int | None]
"""An activation, and the revision of it that the person was shown; None: whatever it is by now."""


ACKNOWLEDGEABLE = (AlarmState.UNACKNOWLEDGED, AlarmState.RETURNED_UNACKNOWLEDGED)
RESETTABLE = (AlarmState.LATCHED,)


def known_to(tx: Transaction, turn_id: str, states: Collection[AlarmState], *, only_last: bool) -> Sequence[Shown]:
    """Return the activations in ``states`` that whoever asked for a turn knew of when they spoke (``alarms.told_before``), oldest
    first, or of these the one they were told of last."""
    spoken = turns.by_id(tx, turn_id).admission_id
    known = [(alarm.activation_id, None) for alarm in alarms.told_before(tx, spoken) if alarm.state in states]
    return known[-1:] if only_last else known


def account_of(done: Sequence[Alarm], verb: str, plant: Plant, wording: Wording, call: ToolCall, by: str) -> Mapping[str, object]:
    """Return the result of a tool: ``count``, ``sentence`` (the reply ``<verb>_none``, ``_one`` or ``_many``), the first
    ``activations``, ``by``."""
    name = {0: f"{verb}_none", 1: f"{verb}_one"}.get(len(done), f"{verb}_many")
    said = {"alarm": words_for(done[0], plant, wording, call.language)} if len(done) == 1 else {}
    return {
        "count": len(done),
        "sentence": wording.reply(name, call.language, count=len(done), **said),
        "activations": [alarm.activation_id for alarm in done[:MOST_NAMED]],
        "by": by,
    }
