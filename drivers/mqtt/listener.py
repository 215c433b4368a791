"""Listens to the broker: alarms go to the alarm door, values are kept, requests of the topic map are sent.

In: what the session receives. Out: durable alarm events and the newest published values. Who calls: ``app`` runs it; delivery
publishes through its :attr:`Listener.session`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from appliance.contracts.clock import Clock
from appliance.contracts.errors import AlarmUnreadable, Malformed, Refused, Unavailable
from appliance.contracts.plant import Plant
from appliance.contracts.ports import AlarmSink
from appliance.foundation.lookout import Lookout
from appliance.foundation.supervisor import Degraded
from drivers.mqtt.published import PublishedValues
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.taken import Outgoing, Taken
from drivers.mqtt.topic_map import TopicMap
from drivers.mqtt.topics import IncomingMessage

log = logging.getLogger(__name__)


class Listener:
    """One session with the topic map behind it. A message is acknowledged when its alarms are durable in ``sink``."""

    def __init__(
        self,
        settings: MqttSettings,
        clock: Clock,
        degraded: Degraded,
        plant: Plant,
        sink: AlarmSink,
        published: PublishedValues,
    ) -> None:
        self._clock = clock
        self._sink = sink
        self._published = published
        self._topics = TopicMap(plant, clock, alarm_topics=settings.alarm_topics)
        self._lookout = Lookout()
        self.session = MqttSession(settings, clock, degraded, self._handle, topics=self._topics.filters)
        self.session.listeners.append(self._connection_changed)

    async def run(self) -> None:
        """Listen for ever. Ends only by cancellation."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.session.run(), name="mqtt session")
            tasks.create_task(self._published.run(), name="published values")
            tasks.create_task(self._watch_overdue(), name="missing messages")

    async def _handle(self, message: IncomingMessage) -> None:
        """Take one message in; return when its alarms are durable, and it is on record which of them cannot be taken.

        Raises:
            Malformed, Refused: of the first part that is no good, after all others were taken in.
            Unavailable: it cannot be stored now; the broker keeps it.
        """
        taken = self._topics.take(message)
        faults: list[Malformed | Refused] = list(taken.faults)
        for event in taken.events:
            try:
                await self._sink.admit(event)
            except (Malformed, Refused) as error:
                faults.append(error)
        if unreadable := [fault for fault in taken.faults if isinstance(fault, AlarmUnreadable)]:
            await self._sink.note_unreadable(message.topic, unreadable)  # it is acknowledged, and will not come again
        self._hand_on(taken)
        self._lookout.notify()
        if faults and (taken.events or taken.readings):
            log.warning("mqtt.partly_understood", extra={"topic": message.topic, "faults": len(faults)})
        if faults:
            raise faults[0]

    def _hand_on(self, taken: Taken) -> None:
        if taken.readings or taken.lost:
            self._published.take(taken.readings, taken.lost)
        for outgoing in taken.send:
            self._send(outgoing)

    def _send(self, outgoing: Outgoing) -> None:
        with suppress(Unavailable):  # not connected: everything is asked for again once connected
            self.session.send(outgoing.topic, outgoing.payload)

    def _connection_changed(self, why: str) -> None:
        if why:
            self._published.broker_lost(why)
        else:
            self._hand_on(self._topics.connected())

    async def _watch_overdue(self) -> None:
        """Look at what is missing once it has been waited for long enough."""

        async def look() -> float | None:
            self._hand_on(self._topics.overdue())
            due_ns = self._topics.due_mono_ns
            return None if due_ns is None else (due_ns - self._clock.monotonic_ns()) / 1e9

        await self._lookout.run(look)
