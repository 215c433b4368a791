"""One watched alarm: what its readings say, what was found, and what the ledger knows. Pure; no I/O, time is handed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime

from appliance.contracts.alarm import Alarm, AlarmChange, AlarmEvent
from appliance.contracts.alarm_definition import AlarmDefinition, Condition, Suppression
from appliance.contracts.named_value import states_of
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.tag import MQTT_LINK, Tag
from drivers.alarms.conditions import judge_of
from drivers.alarms.delay import Delay

_OWN = "plc:"
_MOST_REMEMBERED = 8  # activations of one alarm that are over; word of a change is never behind by so many


def source_of(link: str) -> str:
    """Return the source of alarms the appliance itself finds by a link: ``plc:<link>``, of published tags ``mqtt``."""
    return MQTT_LINK if link == MQTT_LINK else _OWN + link


def is_own(source: str) -> bool:
    """Whether alarms of this source are found by the appliance itself."""
    return source == MQTT_LINK or source.startswith(_OWN)


@dataclass(frozen=True, slots=True)
class Finding:
    """An alarm was found to come or to go: when, by which clock, and at what value."""

    change: AlarmChange
    value: float | None
    unit: str
    source_utc: datetime | None
    source_mono_ns: int
    is_state: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """Who reported an activation, and by which name."""

    source: str
    activation: str


class AlarmWatch:
    """Follows one alarm's condition. ``source`` names the appliance's own view, ``tag`` is the one the condition is about.

    Of an alarm that a gateway reports (``source_id``) the condition is followed beside what the ledger knows, and only a
    difference that lasts for ``missed_after_s`` counts: something was lost on the way. Hysteresis has a memory, so it is taken
    over from the ledger too: between the limits whoever was first is right.
    """

    __slots__ = (
        "_began_active", "_has_looked", "_holds", "_judge", "_over", "_restless", "condition", "definition", "delay", "is_second",
        "live", "own", "queued", "sampled_mono_ns", "sampled_utc", "source", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        definition: AlarmDefinition,
        condition: Condition,
        source: str,
        tag: Tag | None,
        restless: dict[AlarmWatch, str] | None = None,
    ) -> None:
        """``restless`` are the alarms to which a reading means something even if it is as the one before, each with its tag; this
        one enters and leaves by itself."""
        self.definition = definition
        self.condition = condition
        self.source = source
        self.is_second = definition.source_id is not None
        late_s = definition.missed_after_s if self.is_second else 0.0
        self.delay = Delay(condition.on_delay_s + late_s, condition.off_delay_s + late_s)
        self._judge = judge_of(condition, tag) if tag is not None else None
        self._holds = False
        self._has_looked = False
        self._began_active = False  # it was so when we first looked, and ever since
        self._restless = {} if restless is None else restless
        self._be_restless()
        self.sampled_mono_ns = 0
        self.sampled_utc: datetime | None = None
        self.live: dict[str, Identity] = {}
        """Activations that are active in the ledger."""
        # What is over never becomes active again; word of how it was before may come late.
        self._over: deque[str] = deque(maxlen=_MOST_REMEMBERED)
        self.own: Identity | None = None
        """The activation that was handed in here last, until it is over."""
        self.queued: AlarmChange | None = None
        """A change on its way to the ledger."""
        self.waiting: Finding | None = None
        """A change found while another was on its way."""

    @property
    def is_unknown(self) -> bool:
        """Whether nothing was seen of it yet."""
        return not self._has_looked

    def hear(self, reading: Reading, at_mono_ns: int) -> bool:
        """Take in a reading of the condition's tag; return whether the alarm came or went."""
        judge = self._judge
        holds = None if judge is None else judge.judge(reading, at_mono_ns, self._holds)
        if judge is None or holds is None:
            self._be_restless()
            self.delay.lose_sight()
            return False
        has_changed = self.see(holds, at_mono_ns, reading.source_utc)
        if judge.is_memoryless and holds is self.delay.is_active:
            self._restless.pop(self, None)
        else:
            self._be_restless()
        return has_changed

    def _be_restless(self) -> None:
        if self.condition.tag is not None:
            self._restless[self] = self.condition.tag

    def see(self, holds: bool, at_mono_ns: int, at_utc: datetime | None) -> bool:
        """Take in whether the condition holds; return whether the alarm came or went."""
        if not self._has_looked:
            self._has_looked = True
            self._began_active = holds
        elif not holds:
            self._began_active = False
        self._holds = holds
        self.sampled_mono_ns = at_mono_ns
        self.sampled_utc = at_utc
        return self.delay.hear(holds, at_mono_ns)

    def lose_sight(self) -> None:
        """Say that the condition cannot be seen: the alarm stays as it is."""
        self.delay.lose_sight()
        if self._judge is not None:
            self._judge.lose_sight()

    def finding(self, value: float | None, unit: str) -> Finding:
        """Return what was found when the alarm came or went just now."""
        return Finding(
            AlarmChange.RAISED if self.delay.is_active else AlarmChange.CLEARED,
            value,
            unit,
            self.sampled_utc,
            self.sampled_mono_ns,
            self.delay.is_active and self._began_active,
        )

    def learn(self, alarm: Alarm) -> None:
        """Take in what the ledger knows of one activation."""
        if not alarm.is_active:
            self._is_over(alarm.activation_id)
        elif alarm.activation_id not in self._over:
            activation = alarm.activation_id.removeprefix(f"{alarm.source}:{alarm.alarm_id}:")
            self.live[alarm.activation_id] = Identity(alarm.source, activation)

    @property
    def identity(self) -> Identity | None:
        """The activation a clear is about: the oldest the ledger knows to be active, else the one handed in last."""
        return next(iter(self.live.values()), self.own)

    def note_told(self, event: AlarmEvent, alarm: Alarm | None) -> None:
        """Take in that an event arrived, and the activation it was counted to, if the ledger told of one."""
        self.queued = None
        if alarm is not None:
            self.learn(alarm)
        elif event.change is AlarmChange.RAISED:
            self.live[event.activation_id] = Identity(event.source, event.activation)
        if event.change is AlarmChange.CLEARED:
            self._is_over(event.activation_id)
            self.own = None

    def _is_over(self, activation_id: str) -> None:
        self.live.pop(activation_id, None)
        self._over.append(activation_id)

    def settle(self) -> None:
        """Be what the ledger says, active or not, if we are not."""
        if self.delay.is_active is not bool(self.live):
            self.waiting = None
            self._began_active = False
            self._be_restless()
            self._holds = bool(self.live)
            self.delay.settle(self._holds)


class SuppressionWatch:
    """Follows whether an alarm is suppressed by design. What cannot be seen stays as it was. Of a bitfield the rule is about one
    bit, whatever else is set."""

    __slots__ = ("_tag", "alarm_id", "is_queued", "is_suppressed", "rule", "told", "why")

    def __init__(self, alarm_id: str, rule: Suppression, tag: Tag) -> None:
        self.alarm_id = alarm_id
        self.rule = rule
        self._tag = tag
        self.is_suppressed: bool | None = None  # not known yet
        self.told: bool | None = None
        self.why = ""
        self.is_queued = False

    def hear(self, reading: Reading) -> bool:
        """Take in a reading of the rule's tag; return whether it is other than what was told."""
        if reading.quality is Quality.GOOD and reading.value is not None:
            states = states_of(self._tag, reading.value)
            self.is_suppressed = reading.value == self.rule.equals if states is None else self.rule.equals in states
            shown = str(reading.value).lower() if isinstance(reading.value, bool) else str(reading.value)
            self.why = f"{self.rule.tag} is {shown}"
        return self.is_suppressed != self.told
