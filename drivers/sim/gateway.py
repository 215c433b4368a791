"""The alarm gateway beside the PLC: each alarm change becomes one JSON message (QoS 1), journalled first, published until the
broker has it, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable
from appliance.contracts.plant import Plant
from appliance.foundation.canonical import canonical_json
from drivers.mqtt.session import MqttSession
from drivers.sim.journal import Journal

Report = Callable[..., None]


class Gateway:
    """Takes alarm changes from the line and brings them to the broker.

    ``activation`` is unique over restarts: the gateway's start (seconds) and a counter; a clear carries its raise's.
    ``sequence`` numbers the messages of each source from the gateway's start on.
    """

    def __init__(self, plant: Plant, journal: Journal, session: MqttSession | None, clock: Clock, report: Report) -> None:
        self._plant = plant
        self._journal = journal
        self._session = session
        self._clock = clock
        self._report = report
        self._started = int(clock.utc().timestamp())
        self._activations = 0
        self._sent: Counter[str] = Counter()
        self._current: dict[str, str] = {}
        self._news = asyncio.Event()
        self.counts: Counter[str] = Counter()

    def changed(self, alarm: AlarmDefinition, change: AlarmChange, value: float | None) -> None:
        """Write an alarm change down for publishing. An alarm without ``source_id`` is not this gateway's."""
        if alarm.source_id is None:
            return
        if change is AlarmChange.RAISED:
            self._activations += 1
            self._current[alarm.id] = f"{self._started}-{self._activations}"
        tag = self._plant.tag_by_key.get(alarm.tag or "")
        area = self._plant.asset_by_id[alarm.asset].area
        source = f"{area}_plc"
        self._sent[source] += 1
        self._journal.append(
            f"plant/{area}/alarms",
            {
                "source": source,
                "sequence": self._sent[source],
                "alarm": alarm.source_id,
                "activation": self._current[alarm.id],
                "state": str(change),
                "value": value,
                "unit": tag.unit if tag else "",
                "at": self._clock.utc().isoformat(timespec="milliseconds"),
                "mono_ns": self._clock.monotonic_ns(),
            },
        )
        self.counts[str(change)] += 1
        self._news.set()

    def totals(self) -> dict[str, int]:
        """Return how many changes were raised, cleared, written down for publishing, and acknowledged by the broker."""
        return {
            "raised": self.counts[AlarmChange.RAISED],
            "cleared": self.counts[AlarmChange.CLEARED],
            "published": self._journal.written,
            "acked": self._journal.acknowledged,
        }

    async def run(self) -> None:
        """Publish what is written down, for ever. Without a session nothing is published."""
        session = self._session
        if session is None:
            return
        while True:
            entry = self._journal.oldest()
            if entry is None:
                self._news.clear()
                await self._news.wait()
                continue
            await session.wait_connected()
            try:
                await session.publish(entry.topic, canonical_json(entry.payload).encode())
            except Unavailable as error:
                await asyncio.sleep(min(1.0, error.retry_after_s))
                continue
            self._journal.strike(entry)
            said = {name: entry.payload[name] for name in ("alarm", "activation", "state", "value")}
            self._report(event="published", mono_ns=self._clock.monotonic_ns(), **said)
