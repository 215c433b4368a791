"""Serves a recording: the recorded raw registers at their recorded times, and silence of a device where none of it was read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from appliance.contracts.clock import Clock
from appliance.contracts.tag import Tag
from drivers.sim.orders import Misbehave, Mode
from drivers.sim.recording import Recording, Sampled
from drivers.sim.simulation import Simulation

Report = Callable[..., None]
_Device = tuple[str, int]
"""Link and device id."""


class Replay:
    """Plays a recording into a simulation. The first sample is in place before anybody can ask.

    ``waits``: time begins with the first request, so that a client sees the recording from its start.
    """

    def __init__(self, recording: Recording, clock: Clock, report: Report, *, speed: float, again: bool, waits: bool) -> None:
        self._recording = recording
        self._clock = clock
        self._report = report
        self._speed = speed
        self._again = again
        self._asked = asyncio.Event()
        if not waits:
            self._asked.set()
        self._tags_of: dict[_Device, list[Tag]] = defaultdict(list)
        for tag in recording.plant.tags:
            self._tags_of[tag.link, tag.device_id].append(tag)
        self._last: dict[str, Sampled] = {}
        self._silent: set[_Device] = set()

    def start(self, simulation: Simulation) -> asyncio.Task[None]:
        """Begin; return the task that plays on."""
        for plc in simulation.plcs.values():
            plc.on_request(self._asked.set)
        if self._recording.samples:
            self._show(0, simulation)
        return asyncio.create_task(self._play(simulation), name="replay")

    async def _play(self, simulation: Simulation) -> None:
        await self._asked.wait()
        samples = self._recording.samples
        while True:
            began_ns = self._clock.monotonic_ns()
            for place, sample in enumerate(samples):
                due_s = (sample.t_s - samples[0].t_s) / self._speed
                await asyncio.sleep(max(0.0, due_s - (self._clock.monotonic_ns() - began_ns) / 1e9))
                self._show(place, simulation)
            self._report(event="replay_ended", lasts_s=self._recording.lasts_s)
            if not self._again or not self._recording.lasts_s:
                return
            await asyncio.sleep(self._recording.every_s / self._speed)

    def _show(self, place: int, simulation: Simulation) -> None:
        touched: set[_Device] = set()
        for key, sampled in self._recording.samples[place].tags.items():
            tag = self._recording.plant.tag_by_key[key]
            self._last[key] = sampled
            touched.add((tag.link, tag.device_id))
            if not sampled.is_unread and simulation.memory.holds(tag):
                simulation.memory.of(tag.link).put_raw(tag.device_id, tag.kind, tag.address, sampled.raw)
        for device in touched:
            self._silence(device, simulation)

    def _silence(self, device: _Device, simulation: Simulation) -> None:
        """A device none of whose tags was read was silent; one that only refused single tags answers with what they last held."""
        link, device_id = device
        if link not in simulation.plcs:
            return
        known = [self._last[tag.key] for tag in self._tags_of[device] if tag.key in self._last]
        is_silent = all(each.is_unread for each in known)
        if is_silent and device not in self._silent:
            self._silent.add(device)
            simulation.plcs[link].misbehave(Misbehave(do="misbehave", mode=Mode.SILENT, device_id=device_id))
        elif not is_silent and device in self._silent:
            self._silent.discard(device)
            simulation.plcs[link].behave(device_id)
