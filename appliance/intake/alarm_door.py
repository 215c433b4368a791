"""Alarm events enter here: from MQTT now, from any other source with an :class:`AlarmEvent` later.

In: an event. Out: a durable admission and, in the same transaction, the alarm's state row. Who calls: the MQTT session's
handler, which acknowledges to the broker only after ``admit`` returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appliance.contracts.admission import PRIORITY_ALARM, Admission, Admitted, Door, Request, RequestKind
from appliance.contracts.alarm import Alarm, AlarmAction, AlarmChange, AlarmEvent, AlarmState
from appliance.contracts.clock import Clock
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Admitter
from appliance.contracts.store import Transaction
from appliance.store import alarms

AdvanceAlarm = Callable[[AlarmState, AlarmAction], AlarmState]

_ACTION = {AlarmChange.RAISED: AlarmAction.RAISE, AlarmChange.CLEARED: AlarmAction.CLEAR}


class AlarmDoor:
    """Admits alarm events; implements ``AlarmSink``."""

    def __init__(self, gate: Admitter, plant: Plant, clock: Clock, advance: AdvanceAlarm) -> None:
        self._gate = gate
        self._plant = plant
        self._clock = clock
        self._advance = advance

    async def admit(self, event: AlarmEvent) -> Admitted:
        """Return once the event and the alarm's new state are on disk. A resend of the same event changes nothing.

        Raises:
            Unavailable: the queue is full; the source keeps the event and offers it again.
            Refused: the same activation came with other content.
        """
        definition = self._plant.alarm_by_id[event.alarm_id]

        def apply_state(tx: Transaction, _: Admission) -> None:
            known = alarms.by_activation(tx, event.activation_id)
            alarms.apply(tx, self._clock, definition, event, self._state_after(event, known))

        request = Request(
            door=Door.MQTT,
            kind=RequestKind.ALARM,
            lane=f"asset:{definition.asset}",
            dedupe_key=event.dedupe_key,
            payload=to_payload(event),
            priority=PRIORITY_ALARM,
        )
        return await self._gate.admit(request, apply_state)

    def _state_after(self, event: AlarmEvent, known: Alarm | None) -> AlarmState:
        """Return the alarm's state once the event is taken in. A raise and its clear may come in either order."""
        if known is None:
            raised = self._advance(AlarmState.NORMAL, AlarmAction.RAISE)
            # A clear whose raise has not come: the alarm came and went unseen, which is still an activation to account for.
            return self._advance(raised, AlarmAction.CLEAR) if event.change is AlarmChange.CLEARED else raised
        if known.cleared_utc is not None:
            return known.state  # the raise comes after its clear: this activation is over
        return self._advance(known.state, _ACTION[event.change])


def to_payload(event: AlarmEvent) -> dict[str, Any]:
    """Return the admission payload of an alarm event: its fields, times as ISO-8601 text."""
    return {
        "source": event.source,
        "alarm_id": event.alarm_id,
        "activation": event.activation,
        "activation_id": event.activation_id,
        "change": str(event.change),
        "value": event.value,
        "unit": event.unit,
        "source_utc": event.source_utc.isoformat() if event.source_utc else None,
        "source_mono_ns": event.source_mono_ns,
    }
