"""Alarm changes for the rest of the site: one JSON message each on ``floorhand/<client id>/alarms``, queued with the change.

``change`` is ``raised``, ``cleared``, ``acknowledged`` or ``reset``, ``at`` when that was (null for a reset); the other members
are the activation as it is stored now. ``activation`` and ``revision`` tell a repeat from news. Times are ISO 8601, UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from appliance.contracts.alarm import Alarm
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.store import Transaction
from appliance.store import deliveries

PRIORITY = 9
"""One for all changes, as messages of one priority keep their order."""


Tell = Callable[[Transaction, Alarm, str], None]
"""Queues what a channel tells of an alarm and what changed, in the caller's transaction."""


def each_of(*tellers: Tell) -> Tell:
    """Return what lets each of the tellers tell: all of it is queued, or nothing."""

    def tell(tx: Transaction, alarm: Alarm, change: str) -> None:
        for each in tellers:
            each(tx, alarm, change)

    return tell


def alarm_messages(clock: Clock, ids: IdSource, client_id: str) -> Tell:
    """Return what queues the message about an alarm and what changed, in the caller's transaction."""
    topic = f"floorhand/{client_id}/alarms"

    def queue(tx: Transaction, alarm: Alarm, change: str) -> None:
        payload = to_payload(alarm, change)
        deliveries.queue_message(tx, clock, ids, turn_id=None, topic=topic, payload=payload, priority=PRIORITY)

    return queue


def to_payload(alarm: Alarm, change: str) -> Mapping[str, Any]:
    """Return the message's payload."""
    moments = {"raised": alarm.raised_utc, "cleared": alarm.cleared_utc, "acknowledged": alarm.acknowledged_utc}
    return {
        "alarm": alarm.alarm_id,
        "activation": alarm.activation_id,
        "source": alarm.source,
        "asset": alarm.asset,
        "priority": alarm.priority,
        "change": change,
        "at": _text(moments.get(change)),
        "state": str(alarm.state),
        "value": alarm.value,
        "unit": alarm.unit,
        "revision": alarm.revision,
        "raised_at": _text(alarm.raised_utc),
        "cleared_at": _text(alarm.cleared_utc),
        "acknowledged_at": _text(alarm.acknowledged_utc),
        "acknowledged_by": alarm.acknowledged_by,
        "source_at": _text(alarm.source_utc),
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")
