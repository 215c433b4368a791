"""Builds what looks at the field: the buses, the values gateways publish, the alarm scan, the broker. Read with ``app``.

Samples go to the scan; what the scan finds and the gateways report goes through the alarm doors into the ledger; what the ledger
stored comes back to the scan and goes out to the broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from appliance.alarm_rooms import AlarmRooms
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Plant
from appliance.contracts.store import Ledger
from appliance.delivery.ledger_failures import LedgerFailures
from appliance.delivery.publisher import Publisher
from appliance.foundation.supervisor import Degraded
from appliance.store import alarms
from appliance.store.history import HISTORY_FILE, History
from appliance.store.history_settings import HistorySettings
from drivers.alarms.scan import AlarmScan
from drivers.field_bus import FieldRouter
from drivers.modbus.bus import ModbusBus
from drivers.mqtt.listener import Listener
from drivers.mqtt.published import PublishedValues
from drivers.mqtt.settings import MqttSettings


class FieldSources:
    """The tags' two homes, :attr:`bus`, the one way to both, and :attr:`history`, which keeps what they did in ``folder``."""

    def __init__(self, plant: Plant, clock: Clock, degraded: Degraded, history: HistorySettings, folder: Path) -> None:
        self.modbus = ModbusBus(plant, clock, degraded)
        self.published = PublishedValues(plant, clock)
        self.bus = FieldRouter(plant, self.modbus, self.published)
        self.history = History(folder / HISTORY_FILE, plant, clock, degraded, history)
        self.modbus.change_listeners.append(self.history.note)
        self.published.change_listeners.append(self.history.note)


class FieldRooms:
    """Connects the sources to the alarm doors, and the ledger to the broker."""

    def __init__(
        self,
        sources: FieldSources,
        alarm_rooms: AlarmRooms,
        settings: MqttSettings,
        plant: Plant,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        degraded: Degraded,
        failures: LedgerFailures,
    ) -> None:
        self._sources = sources
        self._ledger = ledger
        self.scan = AlarmScan(plant, clock, ids, alarm_rooms.field_door)
        self.listener = Listener(settings, clock, degraded, plant, alarm_rooms.door, sources.published)
        self.publisher = Publisher(ledger, clock, self.listener.session, failures=failures)
        sources.modbus.sample_listeners.append(self.scan.take)
        sources.modbus.visibility_listeners.append(self.scan.note)
        sources.published.sample_listeners.append(self.scan.take)
        alarm_rooms.changes.listeners.append(self.scan.known)
        alarm_rooms.changes.stirred.append(self.publisher.notify)
        alarm_rooms.drivers |= {"mqtt": self.listener.session.counts.as_facts, "scan": self.scan.as_facts}

    @property
    def services(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Name -> what runs for ever. Alarms that the broker brings come by ``mqtt``, which is a door."""
        return {
            "field": self._sources.modbus.run,
            "alarm scan": self.scan.run,
            "publisher": self.publisher.run,
            "history": self._sources.history.run,
        }

    async def start(self) -> None:
        """Tell the scan what the ledger knows, before anything is read: a restart is no news."""
        self.scan.know(await self._ledger.transaction(alarms.live))

    async def close(self) -> None:
        """Close all sockets of the field, and the history of its tags."""
        await self._sources.modbus.close()
        await self._sources.history.close()
