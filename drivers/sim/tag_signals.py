"""The tags that a scenario plays, and those somebody took in hand: what each of them does now."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Value
from appliance.contracts.tag import DataType, Tag
from drivers.sim.registers import Memory
from drivers.sim.signals import Constant, Ramp, Signal

Report = Callable[..., None]


@dataclass(slots=True)
class _Played:
    """A tag in play. ``signal`` None: it has no measurement."""

    tag: Tag
    signal: Signal | None
    noise: float
    chance: random.Random
    began_s: float
    before: Value | None = None
    is_done: bool = False


class TagSignals:
    """Plays signals into the registers. ``driven`` are the keys of tags that nobody else may set meanwhile.

    The same seed and the same steps give the same values: every tag has a random source of its own.
    """

    def __init__(
        self, plant: Plant, memory: Memory, signals: Mapping[str, tuple[Signal, float]], report: Report, *, seed: int
    ) -> None:
        self._plant = plant
        self._memory = memory
        self._report = report
        self._seed = seed
        self._own = dict(signals)
        self._now_s = 0.0
        self._played: dict[str, _Played] = {}
        self._before_failure: dict[str, Value] = {}
        self._unfit: set[str] = set()
        self.driven: set[str] = set()
        for key, (signal, noise) in signals.items():
            self._play(key, signal, noise)
        self.step(0.0, 0.0)

    def step(self, now_s: float, dt_s: float) -> None:
        """Set every tag in play to its value at ``now_s``."""
        self._now_s = now_s
        for played in self._played.values():
            if not played.is_done:
                self._advance(played, dt_s)

    def set(self, key: str, to: Value) -> None:
        """Hold a tag at a value.

        Raises:
            Refused: no such tag here, or it cannot hold the value.
        """
        tag = self._tag(key)
        self._memory.put(tag, fitting(tag, to))
        self._play(key, Constant(signal="constant", value=to), 0.0)

    def ramp(self, key: str, to: float, over_s: float) -> None:
        """Take a tag from where it is to another value.

        Raises:
            Refused: no such tag here, or it is no number.
        """
        now = self._memory.get(self._tag(key))
        if isinstance(now, str):
            raise Refused(f"{key} is a text and has no way between two values")
        self.drive(key, Ramp(signal="ramp", from_=float(now or 0), to=to, over_s=over_s))

    def drive(self, key: str, by: Signal) -> None:
        """Give a tag another signal.

        Raises:
            Refused: no such tag here.
        """
        for other in by.looks_at:
            self._tag(other)
        self._advance(self._play(key, by, self._own[key][1] if key in self._own else 0.0), 0.0)

    def fail(self, key: str) -> None:
        """Break a tag's sensor.

        Raises:
            Refused: no such tag here, or it cannot say that it has no measurement.
        """
        value = self._memory.get(self._tag(key))
        self._memory.put_no_measurement(self._tag(key))
        if value is not None:
            self._before_failure[key] = value
        self._play(key, None, 0.0)

    def recover(self, key: str | None, asset: str | None = None) -> None:
        """Give one tag, those of an asset, or all tags their own signals back. Those without one keep their value; a broken
        sensor shows again what it last measured.

        Raises:
            Refused: no such tag here.
        """
        if key is not None:
            self._tag(key)
        for each in [key] if key is not None else list(self._played):
            if each not in self._played or (asset is not None and self._played[each].tag.asset != asset):
                continue
            if each in self._own:
                if self._played[each].signal is not self._own[each][0]:
                    self._play(each, *self._own[each])
            else:
                if each in self._before_failure:
                    self._memory.put(self._tag(each), self._before_failure[each])
                del self._played[each]
                self.driven.discard(each)
            self._before_failure.pop(each, None)

    def _play(self, key: str, signal: Signal | None, noise: float) -> _Played:
        chance = random.Random(f"{self._seed}:{key}")  # a text seeds the same in every process, unlike its hash
        played = _Played(self._tag(key), signal, noise, chance, self._now_s)
        self._played[key] = played
        self.driven.add(key)
        return played

    def _advance(self, played: _Played, dt_s: float) -> None:
        if played.signal is None:
            played.is_done = True
            return
        value = played.signal.after(played.before, self._now_s - played.began_s, dt_s, played.chance, self._look)
        played.before = value
        shown = value
        if played.noise and not isinstance(value, bool | str):
            shown = value + played.chance.gauss(0.0, played.noise)
        else:
            played.is_done = played.signal.is_still
        try:
            self._memory.put(played.tag, fitting(played.tag, shown))
        except Refused as error:
            if played.tag.key not in self._unfit:
                self._unfit.add(played.tag.key)
                self._report(event="does_not_fit", tag=played.tag.key, why=error.message)

    def _look(self, key: str) -> float:
        value = self._memory.get(self._tag(key))
        return 0.0 if value is None or isinstance(value, str) else float(value)

    def _tag(self, key: str) -> Tag:
        tag = self._plant.tag_by_key.get(key)
        if tag is None or not self._memory.holds(tag):
            raise Refused(f"{key} is not a tag of the simulated links", tag=key)
        return tag


def fitting(tag: Tag, value: Value) -> Value:
    """Return ``value`` in the form the tag's type takes it."""
    if tag.type is DataType.BOOL and not isinstance(value, str):
        return bool(value)
    if tag.type is DataType.STRING:
        return str(value)
    if (tag.names or tag.flags) and not isinstance(value, str):
        return round(value)
    return value
