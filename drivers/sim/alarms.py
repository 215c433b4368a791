"""Which alarms of the plant stand: judged by their condition on the simulated value, or told by an order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.alarm_definition import HIGH_LIMITS, AlarmDefinition, Condition, ConditionKind
from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Value
from drivers.sim.registers import Memory

Changed = Callable[[AlarmDefinition, AlarmChange, float | None], None]

_CANNOT_BE_JUDGED = (ConditionKind.UNREACHABLE,)  # only who asks can say that nobody answers


class Alarms:
    """``changed`` is told of each alarm that comes or goes, once."""

    def __init__(self, plant: Plant, memory: Memory, changed: Changed) -> None:
        self._plant = plant
        self._memory = memory
        self._changed = changed
        self._active: set[str] = set()
        self._told: set[str] = set()
        self._since_s: dict[str, float] = {}
        self._past: dict[str, deque[tuple[float, float]]] = {}
        self._judged = [
            (alarm, alarm.condition)
            for alarm in plant.alarms
            if alarm.condition is not None and alarm.condition.kind not in _CANNOT_BE_JUDGED and self._is_here(alarm.condition)
        ]

    def is_active(self, alarm_id: str) -> bool:
        """Whether an alarm stands."""
        return alarm_id in self._active

    def step(self, now_s: float) -> None:
        """Judge every condition."""
        for alarm, condition in self._judged:
            if alarm.id not in self._told:
                self._judge(alarm, condition, now_s)

    def judge(self, alarm: AlarmDefinition, is_active: bool, value: float | None) -> None:
        """Take somebody's judgement of an alarm, unless an order has told what it is to be."""
        if alarm.id not in self._told:
            self._become(alarm, is_active, value)

    def tell(self, alarm_id: str, is_active: bool, value: float | None) -> None:
        """Make an alarm come or go. Where its condition is a bit, the bit moves; else it is not judged until released.

        Raises:
            Refused: the plant has no such alarm.
        """
        alarm = self._alarm(alarm_id)
        condition = alarm.condition
        if condition is not None and condition.kind is ConditionKind.BIT and self._is_here(condition):
            self._memory.put(self._plant.tag_by_key[condition.tag or ""], condition.active_when is is_active)
        else:
            self._told.add(alarm_id)
        self._become(alarm, is_active, value if value is not None else self._measured(alarm))

    def release(self, asset: str | None) -> None:
        """Forget what was told of alarms, of all or of one asset: raised ones without a condition to judge are cleared."""
        for alarm_id in sorted(self._told):
            alarm = self._plant.alarm_by_id[alarm_id]
            if asset in (None, alarm.asset):
                self._told.discard(alarm_id)
                if alarm.condition is None:
                    self._become(alarm, False, self._measured(alarm))

    def _judge(self, alarm: AlarmDefinition, condition: Condition, now_s: float) -> None:
        value = self._memory.get(self._plant.tag_by_key[condition.tag or ""])
        was_active = alarm.id in self._active
        is_active = self._holds(alarm.id, condition, value, was_active, now_s)
        if is_active is None or is_active == was_active:
            self._since_s.pop(alarm.id, None)
            return
        since_s = self._since_s.setdefault(alarm.id, now_s)
        if now_s - since_s >= (condition.on_delay_s if is_active else condition.off_delay_s):
            del self._since_s[alarm.id]
            self._become(alarm, is_active, _number(value))

    def _holds(self, alarm_id: str, condition: Condition, value: Value | None, was_active: bool, now_s: float) -> bool | None:
        """Whether the condition holds; None where the value says nothing about it."""
        if condition.kind is ConditionKind.BAD_VALUE:
            return value is None
        number = _number(value)
        if number is None:
            return None
        if condition.kind is ConditionKind.BIT:
            return bool(number) == condition.active_when
        assert condition.limit is not None
        if condition.kind is ConditionKind.RATE:
            past = self._past.setdefault(alarm_id, deque())
            past.append((now_s, number))
            while past[0][0] < now_s - condition.within_s:
                past.popleft()
            return abs(number - past[0][1]) >= condition.limit
        slack = condition.hysteresis if was_active else 0.0
        if condition.kind in HIGH_LIMITS:
            return number >= condition.limit - slack
        return number <= condition.limit + slack

    def _become(self, alarm: AlarmDefinition, is_active: bool, value: float | None) -> None:
        if (alarm.id in self._active) == is_active:
            return
        self._active ^= {alarm.id}
        self._changed(alarm, AlarmChange.RAISED if is_active else AlarmChange.CLEARED, value)

    def _measured(self, alarm: AlarmDefinition) -> float | None:
        tag = self._plant.tag_by_key.get(alarm.tag or "")
        return None if tag is None else _number(self._memory.get(tag))

    def _is_here(self, condition: Condition) -> bool:
        tag = self._plant.tag_by_key.get(condition.tag or "")
        return tag is not None and self._memory.holds(tag)

    def _alarm(self, alarm_id: str) -> AlarmDefinition:
        alarm = self._plant.alarm_by_id.get(alarm_id)
        if alarm is None:
            raise Refused(f"{alarm_id} is not an alarm of this plant", alarm=alarm_id)
        return alarm


def _number(value: Value | None) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)
