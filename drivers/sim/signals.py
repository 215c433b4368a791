"""What a simulated value does over time. One model a kind, each a pure function of the value before and the time.

All times are simulated seconds, all values in the tag's engineering unit.
"""

from __future__ import annotations

import csv
import random
from bisect import bisect_right
from collections.abc import Callable
from math import exp, pi, sin, sqrt
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationInfo, model_validator

from appliance.contracts.errors import ConfigError
from appliance.contracts.reading import Value
from appliance.foundation.strict_yaml import read_yaml

Look = Callable[[str], float]
"""The value of another tag, by key; 0 while it has none."""
Point = tuple[float, Value]
"""Seconds, value."""


class _Signal(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """Return the value at ``t_s``; ``before`` is the one ``dt_s`` earlier, None at the start."""
        raise NotImplementedError

    @property
    def looks_at(self) -> tuple[str, ...]:
        """Keys of the other tags it depends on."""
        return ()

    @property
    def is_still(self) -> bool:
        """Whether it never changes after its start, so that a write from outside stays."""
        return False


class Constant(_Signal):
    """The value at the start; a write from outside changes it for good."""

    signal: Literal["constant"]
    value: Value

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        return self.value

    @property
    def is_still(self) -> bool:
        """See the base."""
        return True


class Ramp(_Signal):
    """From one value to another; then it stays, starts again, or goes back."""

    signal: Literal["ramp"]
    from_: float = Field(alias="from")
    to: float
    over_s: float = Field(gt=0)
    then: Literal["stay", "again", "back"] = "stay"

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        rounds, share = divmod(t_s / self.over_s, 1.0)
        if self.then == "stay" and rounds >= 1:
            share = 1.0
        elif self.then == "back" and rounds % 2 == 1:
            share = 1.0 - share
        return self.from_ + (self.to - self.from_) * share


class Sine(_Signal):
    """Up and down around a mean."""

    signal: Literal["sine"]
    mean: float = 0.0
    amplitude: float
    period_s: float = Field(gt=0)
    phase_s: float = 0.0

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        return self.mean + self.amplitude * sin(2 * pi * (t_s + self.phase_s) / self.period_s)


class RandomWalk(_Signal):
    """Wanders between ``low`` and ``high``; ``spread`` is the standard deviation of its change in one second."""

    signal: Literal["random_walk"]
    start: float
    spread: float = Field(gt=0)
    low: float
    high: float

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        if before is None:
            return self.start
        return max(self.low, min(self.high, float(before) + chance.gauss(0.0, self.spread * sqrt(dt_s))))


class Lag(_Signal):
    """First-order lag towards another tag, or a number: ``gain * towards + bias``. The way of heat, flow and speed."""

    signal: Literal["lag"]
    towards: float | str
    time_constant_s: float = Field(gt=0)
    gain: float = 1.0
    bias: float = 0.0
    start: float | None = None

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        target = self.gain * (look(self.towards) if isinstance(self.towards, str) else self.towards) + self.bias
        if before is None:
            return target if self.start is None else self.start
        return target + (float(before) - target) * exp(-dt_s / self.time_constant_s)

    @property
    def looks_at(self) -> tuple[str, ...]:
        """See the base."""
        return (self.towards,) if isinstance(self.towards, str) else ()


class Square(_Signal):
    """One value, then the other: a pump that starts and stops, a contact that flaps. ``duty`` is the share of ``high``."""

    signal: Literal["square"]
    low: Value = False
    high: Value = True
    period_s: float = Field(gt=0)
    duty: float = Field(default=0.5, gt=0, lt=1)
    phase_s: float = 0.0

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        # Rounded, or a step that ends exactly on an edge would fall to either side of it by the last bit of a float.
        return self.high if round((t_s + self.phase_s) % self.period_s / self.period_s, 9) % 1.0 < self.duty else self.low


class Steps(_Signal):
    """One value after the other, ``every_s`` each, for ever: states of a machine, texts of a display."""

    signal: Literal["steps"]
    values: tuple[Value, ...] = Field(min_length=1)
    every_s: float = Field(gt=0)

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        return self.values[int(round(t_s / self.every_s, 9)) % len(self.values)]


def _read_points(told: Any, info: ValidationInfo) -> Any:
    if not isinstance(told, str):
        return told
    path = (info.context or {}).get("folder", Path()) / told
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row and not row[0].lstrip().startswith("#")]
        points = [(float(row[0]), read_yaml(row[1], path.name)) for row in rows[not _is_number(rows[0][0]) :]]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read") from error
    except (ValueError, IndexError, ConfigError) as error:
        raise ValueError(f"{path}: each line is seconds,value") from error
    return points


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class FromFile(_Signal):
    """Values from a CSV file with lines ``seconds,value``, held until the next; ``again`` starts over after the last."""

    signal: Literal["file"]
    file: Annotated[tuple[Point, ...], BeforeValidator(_read_points)] = Field(min_length=1)
    again: bool = True

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        times = [at_s for at_s, _ in self.file]
        if times != sorted(times) or times[0] < 0:
            raise ValueError("the seconds of a file must not go back, nor be below 0")
        return self

    def after(self, before: Value | None, t_s: float, dt_s: float, chance: random.Random, look: Look) -> Value:
        """See the base."""
        last_s = self.file[-1][0]
        at_s = t_s % last_s if self.again and last_s else t_s
        place = bisect_right(self.file, at_s + 1e-9, key=lambda point: point[0])
        return self.file[max(0, place - 1)][1]


Signal = Annotated[
    Constant | Ramp | Sine | RandomWalk | Lag | Square | Steps | FromFile,
    Field(discriminator="signal"),
]
SIGNALS: TypeAdapter[Signal] = TypeAdapter(Signal)
"""Validates a signal from a mapping."""
