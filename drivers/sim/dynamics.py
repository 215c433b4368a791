"""How the machines of a line behave: first-order models, pure. Time is in simulated seconds.

The numbers are those of a plausible small motor, pump and belt; nothing is measured from a real one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, sqrt


def approach(value: float, target: float, time_constant_s: float, dt_s: float) -> float:
    """Return a first-order lag's value after ``dt_s``; exact for any step length."""
    return target + (value - target) * exp(-dt_s / time_constant_s)


@dataclass(frozen=True, slots=True)
class Motor:
    """A fan-cooled motor. ``fan_health`` 1 is a sound fan; a failing one moves that share of the air."""

    temperature_degc: float = 62.0
    load_percent: float = 70.0
    vibration_mm_s: float = 1.8
    fan_percent: float = 60.0
    fan_health: float = 1.0
    load_target_percent: float = 70.0

    def step(self, dt_s: float) -> Motor:
        """Return the motor ``dt_s`` later."""
        load = approach(self.load_percent, self.load_target_percent, 10.0, dt_s)
        return replace(
            self,
            load_percent=load,
            temperature_degc=approach(self.temperature_degc, self.settled_degc, 50.0, dt_s),
            vibration_mm_s=approach(self.vibration_mm_s, 1.1 + load / 100 + 3.0 * (1 - self.fan_health), 20.0, dt_s),
        )

    @property
    def settled_degc(self) -> float:
        """Where the temperature goes: ambient plus losses (load squared) over cooling (convection plus fan)."""
        cooling = 0.35 + 0.65 * self.fan_percent / 100 * self.fan_health
        return 25.0 + 56.0 * (self.load_percent / 100) ** 2 / cooling

    def overheating(self) -> Motor:
        """The fan fails and the load rises: too hot at any fan speed, but no longer rising for ever."""
        return replace(self, fan_health=0.3, load_target_percent=80.0)

    def sound(self) -> Motor:
        """Everything repaired."""
        return replace(self, fan_health=1.0, load_target_percent=70.0)


@dataclass(frozen=True, slots=True)
class Pump:
    """A pump on a constant network. ``tightness`` 1 holds its pressure."""

    pressure_bar: float = 4.0
    tightness: float = 1.0
    is_running: bool = True

    def step(self, dt_s: float) -> Pump:
        """Return the pump ``dt_s`` later."""
        target = 4.0 * self.tightness if self.is_running else 0.0
        return replace(self, pressure_bar=approach(self.pressure_bar, target, 30.0, dt_s))

    @property
    def flow_m3_h(self) -> float:
        """Flow through the network, by the square root of the pressure."""
        return 6.0 * sqrt(max(0.0, self.pressure_bar)) if self.is_running else 0.0

    def leaking(self) -> Pump:
        """A leak: the pressure falls below what the line needs."""
        return replace(self, tightness=0.25)

    def sound(self) -> Pump:
        """Everything repaired."""
        return replace(self, tightness=1.0)


@dataclass(frozen=True, slots=True)
class Conveyor:
    """A belt that follows its setpoint on a ramp. ``friction`` 1 is a free belt."""

    speed_m_s: float = 1.2
    setpoint_m_s: float = 1.2
    current_a: float = 10.0
    friction: float = 1.0

    def step(self, dt_s: float) -> Conveyor:
        """Return the belt ``dt_s`` later."""
        way = self.setpoint_m_s - self.speed_m_s
        most = 0.2 * dt_s  # ramp of the drive, m/s per second
        speed = self.speed_m_s + max(-most, min(most, way))
        target = 4.0 + 5.0 * speed * self.friction if speed > 0 else 0.0
        return replace(self, speed_m_s=speed, current_a=approach(self.current_a, target, 5.0, dt_s))

    @property
    def is_running(self) -> bool:
        """Whether the belt moves."""
        return self.speed_m_s > 0.05

    def jammed(self) -> Conveyor:
        """Something drags: the drive pulls far more current for the same speed."""
        return replace(self, friction=3.0)

    def sound(self) -> Conveyor:
        """Everything repaired."""
        return replace(self, friction=1.0)


Machine = Motor | Pump | Conveyor


@dataclass(frozen=True, slots=True)
class Limit:
    """An alarm limit in the PLC. ``clear`` lies on the safe side of ``raise_``, so that noise does not chatter."""

    raise_: float
    clear: float

    def is_active(self, value: float, was_active: bool) -> bool:
        """Decide with hysteresis whether the alarm stands."""
        is_high_limit = self.raise_ > self.clear
        limit = self.clear if was_active else self.raise_
        return value >= limit if is_high_limit else value <= limit


LIMITS = {
    "over_temperature": Limit(raise_=90.0, clear=80.0),  # degC
    "low_pressure": Limit(raise_=2.0, clear=3.0),  # bar
    "overcurrent": Limit(raise_=18.0, clear=14.0),  # A
}
"""Limits by fault class, in the unit of the alarm's tag."""
