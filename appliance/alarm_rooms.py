"""Builds what stands behind the alarm door, and hands its parts to each other. Read with ``app``, which starts the services.

Two doors lead into one journal: what gateways send, and what the appliance itself sees in the field. They share nothing but the
ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from appliance.alarms.account import AlarmAccount
from appliance.alarms.changes import AlarmChanges, Publish
from appliance.alarms.desk import AlarmDesk
from appliance.alarms.disposition import Dispositions
from appliance.alarms.handling import AlarmHandling
from appliance.alarms.inhibition import Inhibitions
from appliance.alarms.settings import AlarmSettings
from appliance.contracts.admission import Door
from appliance.contracts.alarm import AdvanceAlarm
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Admitter
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import Degraded
from appliance.intake.alarm_door import AlarmDoor


class AlarmRooms:
    """The alarm parts of one core.

    ``drivers`` are counters before the door, by name, for the account; it may be filled later. Services: ``inhibitions.run`` and
    ``changes.run``. ``changes.notify`` is to be called on every commit, ``door.name_missing`` once at start.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        plant: Plant,
        settings: AlarmSettings,
        gate: Admitter,
        degraded: Degraded,
        advance: AdvanceAlarm,
        *,
        epoch: int,
        publish: Publish | None = None,
    ) -> None:
        self.drivers: dict[str, Callable[[], Mapping[str, Any]]] = {}
        self.inhibitions = Inhibitions(ledger, clock, ids, plant, settings, gate.wake)
        self.handling = AlarmHandling(ledger, clock, plant, advance)
        self.changes = AlarmChanges(ledger, publish)
        # A tool writes in its turn's transaction: what it began, ended or admitted is heard of through the changes.
        self.changes.stirred += [self.inhibitions.notify, gate.wake]
        self.account = AlarmAccount(ledger, clock, self.drivers)

        def door(kind: Door) -> AlarmDoor:
            rule, suppress = Dispositions(settings), self.inhibitions.suppress
            return AlarmDoor(ledger, gate, plant, clock, advance, rule, suppress, degraded, epoch=epoch, door=kind)

        self.door, self.field_door = door(Door.MQTT), door(Door.FIELD)
        self.desk = AlarmDesk(self.handling, self.inhibitions, self.account, plant, self.door.name_missing)
