"""The newest value of each published tag, and how far it can be relied on.

In: readings from the topic map, and word of what is lost. Out: readings on demand, and news of them for whoever listens. A value
that is not renewed in time, whose gateway is gone, or whose broker cannot be reached is STALE, with its own source time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from appliance.contracts.clock import Clock
from appliance.contracts.deadband import has_moved
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.refusals import no_tag
from appliance.contracts.tag import MQTT_LINK
from appliance.foundation.lookout import Lookout

Listener = Callable[[Collection[Reading]], None]

_NEVER = "not published yet"


class PublishedValues:
    """Values of the tags that gateways publish. Used from one event loop; :meth:`run` notices those that grow stale.

    ``sample_listeners`` are told of everything that is taken, ``change_listeners`` of what differs in value (by more than the
    tag's deadband) or quality. They must be quick and not raise.
    """

    def __init__(self, plant: Plant, clock: Clock) -> None:
        self.sample_listeners: list[Listener] = []
        self.change_listeners: list[Listener] = []
        self._clock = clock
        self._tags = {tag.key: tag for tag in plant.tags if tag.link == MQTT_LINK}
        self._stale_after_ns = {
            key: int(mapping.stale_after_s * 1e9)
            for mapping in plant.topics
            if mapping.stale_after_s
            for key in mapping.values.values()
        }
        self._newest = {key: Reading(key, None, tag.unit, Quality.BAD, None, (), _NEVER) for key, tag in self._tags.items()}
        self._reported = dict(self._newest)
        self._taken_mono_ns: dict[str, int] = {}  # of values that are not stale yet and may become so
        self._lookout = Lookout()

    def read(self, keys: Iterable[str]) -> dict[str, Reading]:
        """Return the newest readings.

        Raises:
            Refused: a key is not a published tag.
        """
        self._note_stale()
        unknown = [key for key in keys if key not in self._newest]
        if unknown:
            raise no_tag(unknown[0], f"{unknown[0]} is not published by any gateway")
        return {key: self._newest[key] for key in keys}

    def take(self, readings: Sequence[Reading], lost: Mapping[str, str] | None = None) -> None:
        """Keep new readings; ``lost`` (key -> why) are values that were not true any more before these came."""
        now_ns = self._clock.monotonic_ns()
        told = {key: self._stale(key, why) for key, why in (lost or {}).items()}
        for key in told:
            self._taken_mono_ns.pop(key, None)
        for reading in readings:
            told[reading.tag] = self._timed(reading, now_ns)
            if reading.tag in self._stale_after_ns:
                self._taken_mono_ns[reading.tag] = now_ns
        self._keep(told.values())
        self._lookout.notify()

    def broker_lost(self, why: str) -> None:
        """Say that the broker cannot be reached: nothing that was published is known to be true now."""
        self._taken_mono_ns.clear()
        self._keep([self._stale(key, why) for key, known in self._newest.items() if known.quality is Quality.GOOD])

    async def run(self) -> None:
        """Notice for ever when values grow stale, so that listeners hear of it without anybody reading."""

        async def look() -> float | None:
            self._note_stale()
            due_ns = min((at + self._stale_after_ns[key] for key, at in self._taken_mono_ns.items()), default=None)
            return None if due_ns is None else (due_ns - self._clock.monotonic_ns()) / 1e9

        await self._lookout.run(look)

    def _note_stale(self) -> None:
        now_ns = self._clock.monotonic_ns()
        old = [key for key, at in self._taken_mono_ns.items() if now_ns - at >= self._stale_after_ns[key]]
        for key in old:
            del self._taken_mono_ns[key]
        if old:
            self._keep([self._stale(key, f"not published again within {self._stale_after_ns[key] / 1e9:g} s") for key in old])

    def _stale(self, key: str, why: str) -> Reading:
        known = self._newest[key]
        return known if known.value is None else replace(known, quality=Quality.STALE, why=why)

    def _timed(self, reading: Reading, now_ns: int) -> Reading:
        """Say when the value was true on our monotonic clock, while wall time is still that of its arrival."""
        age_s = reading.age_s(self._clock)
        return reading if age_s is None else replace(reading, source_mono_ns=now_ns - int(age_s * 1e9))

    def _keep(self, readings: Iterable[Reading]) -> None:
        kept = list(readings)
        self._newest |= {reading.tag: reading for reading in kept}
        changed = [reading for reading in kept if self._differs(reading)]
        self._reported |= {reading.tag: reading for reading in changed}
        for listeners, news in ((self.sample_listeners, kept), (self.change_listeners, changed)):
            for listener in listeners if news else ():
                listener(news)

    def _differs(self, reading: Reading) -> bool:
        """Whether it is worth reporting beside what was reported last."""
        before = self._reported[reading.tag]
        return reading.quality is not before.quality or has_moved(self._tags[reading.tag], before.value, reading.value)
