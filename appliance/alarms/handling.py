"""Acknowledging, resetting and closing: a person's word on one activation, bound to what they were shown of it.

In: an activation, the revision that was shown, who says so. Out: the alarm as stored then. Who calls: tools (inside their own
transaction), the local API, the acknowledge button.
"""

from __future__ import annotations

from appliance.contracts.alarm import AdvanceAlarm, Alarm, AlarmAction, AlarmState
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plant import Plant
from appliance.contracts.store import Ledger, Transaction
from appliance.store import alarms, audit

_OPEN = (AlarmState.UNACKNOWLEDGED, AlarmState.RETURNED_UNACKNOWLEDGED)


class AlarmHandling:
    """Implements ``AlarmHands``. ``advance`` is the alarm state machine."""

    def __init__(self, ledger: Ledger, clock: Clock, plant: Plant, advance: AdvanceAlarm) -> None:
        self._ledger = ledger
        self._clock = clock
        self._plant = plant
        self._advance = advance

    def acknowledge_in(self, tx: Transaction, activation_id: str, revision: int | None, *, by: str) -> Alarm:
        """Acknowledge an activation, in the caller's transaction. ``revision`` None: whatever it is by now.

        Raises:
            Refused: no such activation, it needs no acknowledgement, or it changed since it was shown.
        """
        alarm = self._as_shown(tx, activation_id, revision)
        definition = self._plant.alarm_by_id.get(alarm.alarm_id)  # None: raised under an older plant model
        latching = definition is not None and definition.latching
        state = self._advance(alarm.state, AlarmAction.ACKNOWLEDGE, latching=latching)
        return alarms.acknowledge(tx, self._clock, activation_id, by, state)

    def reset_in(self, tx: Transaction, activation_id: str, revision: int | None, *, by: str) -> Alarm:
        """Let go of a latched activation, in the caller's transaction. ``revision`` None: whatever it is by now.

        Raises:
            Refused: no such activation, it is not latched, or it changed since it was shown.
        """
        alarm = self._as_shown(tx, activation_id, revision)
        return alarms.reset(tx, self._clock, activation_id, by, self._advance(alarm.state, AlarmAction.RESET))

    async def acknowledge(self, activation_id: str, revision: int | None, *, by: str) -> Alarm:
        """As :meth:`acknowledge_in`, in a transaction of its own."""
        return await self._ledger.transaction(lambda tx: self.acknowledge_in(tx, activation_id, revision, by=by))

    async def acknowledge_known_at(self, mono_ns: int, *, by: str) -> list[Alarm]:
        """Acknowledge whatever was live at a moment of this boot, such as the press of a button, and did not change since."""

        def work(tx: Transaction) -> list[Alarm]:
            known = [alarm for alarm in alarms.unchanged_since(tx, self._clock, mono_ns) if alarm.state in _OPEN]
            return [self.acknowledge_in(tx, alarm.activation_id, alarm.revision, by=by) for alarm in known]

        return await self._ledger.transaction(work)

    async def reset(self, activation_id: str, revision: int | None, *, by: str) -> Alarm:
        """As :meth:`reset_in`, in a transaction of its own."""
        return await self._ledger.transaction(lambda tx: self.reset_in(tx, activation_id, revision, by=by))

    async def close(self, activation_id: str, revision: int | None, *, by: str, reason: str) -> Alarm:
        """Close an activation whose end was lost, whatever its state: with no source left to tell, a person's word stands.

        Raises:
            Refused: no such activation, it is normal, or it changed since it was shown.
            Malformed: no reason or no person.
        """
        if not by.strip() or not reason.strip():
            raise Malformed("closing an alarm needs a reason and a person", activation=activation_id)

        def work(tx: Transaction) -> Alarm:
            alarm = self._as_shown(tx, activation_id, revision)
            if alarm.state is AlarmState.NORMAL:
                raise Refused("there is nothing to close: the alarm is normal", activation=activation_id)
            audit.note(tx, self._clock, "alarm_closed", activation_id, {"by": by, "reason": reason, "was": str(alarm.state)})
            return alarms.close(tx, self._clock, activation_id, by, reason)

        return await self._ledger.transaction(work)

    @staticmethod
    def _as_shown(tx: Transaction, activation_id: str, revision: int | None) -> Alarm:
        alarm = alarms.required(tx, activation_id)
        if revision not in (None, alarm.revision):
            state = alarm.state.replace("_", " ")
            raise Refused(
                f"the alarm changed meanwhile: it is {state} now",
                activation=activation_id,
                state=str(alarm.state),
                revision=alarm.revision,
                cure="Look at it again, then decide.",
            ).worded("alarm_changed")
        return alarm
