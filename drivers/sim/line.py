"""The line itself: machines in motion, their values in the PLC's registers, alarms with hysteresis, events in the ring.

Which machine an asset is follows from the first part of its id (``motor_3`` is a motor); which value a tag shows, from its name.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.tag import Tag
from drivers.sim.alarms import Alarms
from drivers.sim.dynamics import LIMITS, Conveyor, Machine, Motor, Pump
from drivers.sim.registers import Memory

_MACHINES: dict[str, type[Motor] | type[Pump] | type[Conveyor]] = {"motor": Motor, "pump": Pump, "conveyor": Conveyor}
_STARTED, _SETPOINT, _ACKNOWLEDGED, _RESET = 1, 401, 402, 403
_ALARM_EVENTS = {"over_temperature": (101, 102), "low_pressure": (201, 202), "overcurrent": (301, 302)}
_FAN_FAILING, _LEAKAGE, _JAMMED = 103, 203, 303
_RESET_HELD_S = 120.0  # simulated; a push button that stays lit long enough to be read back
_NOISE = 0.002  # of the value, one standard deviation

M = TypeVar("M", Motor, Pump, Conveyor)

EVENT_CODES = (_STARTED, _SETPOINT, _ACKNOWLEDGED, _RESET, _FAN_FAILING, _LEAKAGE, _JAMMED, *sum(_ALARM_EVENTS.values(), ()))
"""Every code this line writes into the event ring."""


class Line:
    """Steps all machines of the plant that it knows how to play. Tags in ``driven`` are somebody else's to set, even later."""

    def __init__(
        self,
        plant: Plant,
        registers: Memory,
        alarms: Alarms,
        *,
        seed: int = 0,
        driven: Collection[str] = frozenset(),
        has_machines: bool = True,
    ) -> None:
        self._plant = plant
        self._registers = registers
        self._alarms = alarms
        self._driven = driven
        self._random = random.Random(seed)
        self._now_s = 0.0
        self._machines: dict[str, Machine] = {
            asset.id: kind()
            for asset in plant.assets
            if has_machines and (kind := _MACHINES.get(asset.id.partition("_")[0])) is not None
        }
        self._tags = [tag for tag in registers.tags if tag.asset in self._machines]
        self._reset_until_s: dict[str, float] = {}
        registers.log_event(_STARTED, 0.0, 0.0)
        for tag in self._tags:
            if tag.key not in driven:
                self._put(tag, first=True)

    def step(self, dt_s: float) -> None:
        """Let ``dt_s`` simulated seconds pass."""
        self._now_s += dt_s
        for tag in self._tags:
            self._take_setpoint(tag)
        for asset, machine in self._machines.items():
            self._machines[asset] = machine.step(dt_s)
        for tag in self._tags:
            if tag.key not in self._driven:
                self._put(tag)
        for alarm in self._plant.alarms:
            self._judge(alarm)

    def overheat(self, asset: str) -> None:
        """Let a motor's fan fail."""
        self._machines[asset] = self._machine(asset, Motor).overheating()
        self.log(_FAN_FAILING, 0.0)

    def drop_pressure(self, asset: str) -> None:
        """Let a pump leak."""
        self._machines[asset] = self._machine(asset, Pump).leaking()
        self.log(_LEAKAGE, 0.0)

    def jam(self, asset: str) -> None:
        """Let a belt drag."""
        self._machines[asset] = self._machine(asset, Conveyor).jammed()
        self.log(_JAMMED, 0.0)

    def recover(self, asset: str | None) -> None:
        """Repair one machine, or all of them."""
        for each in [asset] if asset is not None else list(self._machines):
            if each not in self._machines:
                raise Refused(f"{each} is not a machine of this line")
            self._machines[each] = self._machines[each].sound()

    def plays(self, asset: str) -> bool:
        """Whether an asset is one of its machines."""
        return asset in self._machines

    def log(self, code: int, value: float) -> None:
        """Write an entry of the event ring."""
        self._registers.log_event(code, value, self._now_s)

    def alarm_changed(self, alarm: AlarmDefinition, change: AlarmChange, value: float | None) -> None:
        """Write an alarm's coming and going into the event ring, where it has codes for it."""
        if alarm.fault in _ALARM_EVENTS:
            raised, cleared = _ALARM_EVENTS[alarm.fault]
            self.log(raised if change is AlarmChange.RAISED else cleared, value or 0.0)

    def written(self, tag: Tag) -> None:
        """Take notice of a write from outside."""
        value = self._registers.get(tag)
        if tag.name == "reset" and value and tag.asset in self._machines:
            self._reset_until_s[tag.key] = self._now_s + _RESET_HELD_S
            self.recover(tag.asset)
            self.log(_RESET, 0.0)
        elif tag.name == "acknowledge":
            self.log(_ACKNOWLEDGED, 0.0)
        else:
            self.log(_SETPOINT, 0.0 if isinstance(value, str) else float(value or 0))

    def _machine(self, asset: str, kind: type[M]) -> M:
        machine = self._machines.get(asset)
        if not isinstance(machine, kind):
            raise Refused(f"{asset} is not a {kind.__name__.lower()} of this line")
        return machine

    def _take_setpoint(self, tag: Tag) -> None:
        machine, value = self._machines[tag.asset], self._registers.get(tag)
        if isinstance(machine, Motor) and tag.name == "fan_speed" and value is not None:
            self._machines[tag.asset] = replace(machine, fan_percent=float(value))
        elif isinstance(machine, Conveyor) and tag.name == "speed" and value is not None:
            self._machines[tag.asset] = replace(machine, setpoint_m_s=float(value))
        elif tag.name == "reset" and value and self._now_s >= self._reset_until_s.get(tag.key, 0.0):
            self._registers.put(tag, False)

    def _put(self, tag: Tag, *, first: bool = False) -> None:
        machine = self._machines[tag.asset]
        match machine, tag.name:
            case Motor(), "temperature":
                self._registers.put(tag, self._noisy(machine.temperature_degc))
            case Motor(), "load":
                self._registers.put(tag, self._noisy(machine.load_percent))
            case Motor(), "vibration":
                self._registers.put(tag, self._noisy(machine.vibration_mm_s))
            case Motor(), "fan_speed" if first:
                self._registers.put(tag, machine.fan_percent)
            case Pump(), "pressure":
                self._registers.put(tag, self._noisy(machine.pressure_bar))
            case Pump(), "flow":
                self._registers.put(tag, self._noisy(machine.flow_m3_h))
            case Pump(), "running":
                self._registers.put(tag, machine.is_running)
            case Conveyor(), "speed" if first:
                self._registers.put(tag, machine.setpoint_m_s)
            case Conveyor(), "current":
                self._registers.put(tag, self._noisy(machine.current_a))
            case Conveyor(), "running":
                self._registers.put(tag, machine.is_running)

    def _noisy(self, value: float) -> float:
        return value * (1 + self._random.gauss(0.0, _NOISE))

    def _judge(self, alarm: AlarmDefinition) -> None:
        limit, tag = LIMITS.get(alarm.fault), self._plant.tag_by_key.get(alarm.tag or "")
        if limit is None or tag is None or alarm.asset not in self._machines or alarm.condition is not None:
            return
        value = self._registers.get(tag)  # what the PLC itself sees, noise and rounding included
        if value is not None:
            self._alarms.judge(alarm, limit.is_active(float(value), self._alarms.is_active(alarm.id)), float(value))
