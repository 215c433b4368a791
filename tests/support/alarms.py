"""The alarm door and what stands behind it, on the shipped rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appliance.admission.gate import QUEUE_LIMIT, Gate
from appliance.alarm_rooms import AlarmRooms
from appliance.alarms.settings import AlarmSettings
from appliance.contracts.alarm import AlarmAction, AlarmChange, AlarmEvent
from appliance.contracts.alarm_definition import AlarmDefinition, Priority
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Asset, Plant
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import Degraded
from appliance.store import alarms
from drivers.alarms.states import advance_alarm
from tests.support.ledger import Bench


def definition(name: str, **changes: Any) -> AlarmDefinition:
    """An alarm of motor_3; fields may be changed."""
    told: dict[str, Any] = {
        "id": name, "asset": "motor_3", "source_id": name.upper(), "priority": Priority.HIGH, "fault": "fault",
        "playbook": "over-temperature", "text": {"en": name.replace("_", " "), "zh": name},
    }  # fmt: skip
    return AlarmDefinition(**told | changes)


def small_plant(*definitions: AlarmDefinition) -> Plant:
    """A plant with one motor and these alarms; ``hot``, ``trip`` and the latching ``jam`` when none are given."""
    wanted = definitions or (definition("hot"), definition("trip"), definition("jam", latching=True))
    asset = Asset(id="motor_3", area="line_3", spoken={"en": ["motor 3"], "zh": ["3号电机"]})
    return Plant(site="works", links=[], assets=[asset], tags=[], alarms=list(wanted))


class AlarmBench(AlarmRooms):
    """A door with its gate and what stands behind it. ``woken`` counts how often the queue was told to look."""

    def __init__(
        self, ledger: Ledger, clock: Clock, ids: IdSource, plant: Plant, epoch: int, settings: AlarmSettings | None = None,
        *, notify: Callable[[], None] = lambda: None, degraded: Degraded | None = None, limit: int = QUEUE_LIMIT,
    ) -> None:  # fmt: skip
        self.plant = plant
        self.degraded = degraded or Degraded()
        self.woken = 0

        def wake() -> None:
            self.woken += 1
            notify()

        gate = Gate(ledger, clock, ids, limit, notify=wake)
        rules = settings or AlarmSettings()
        super().__init__(ledger, clock, ids, plant, rules, gate, self.degraded, advance_alarm, epoch=epoch)


def rooms_of(bench: Bench, plant: Plant | None = None, **how: Any) -> AlarmBench:
    """Build the rooms on a bench, with :func:`small_plant` unless a plant is given."""
    return AlarmBench(bench.database, bench.clock, bench.ids, plant or small_plant(), bench.epoch, **how)


def event(bench: Bench, alarm: str = "hot", activation: str = "1", *, cleared: bool = False, **changes: Any) -> AlarmEvent:
    """An event of the gateway."""
    change = AlarmChange.CLEARED if cleared else AlarmChange.RAISED
    told: dict[str, Any] = {"source": "gateway", "value": 94.2, "unit": "degC", "source_utc": bench.clock.utc()}
    return AlarmEvent(alarm_id=alarm, activation=activation, change=change, **told | changes)


async def acknowledge_all(bench: Bench, plant: Plant, by: str = "anna") -> None:
    """Acknowledge whatever is live and can be."""

    def work(tx: Any) -> None:
        for alarm in alarms.live(tx):
            if alarm.acknowledged_utc is None:
                latching = plant.alarm_by_id[alarm.alarm_id].latching
                state = advance_alarm(alarm.state, AlarmAction.ACKNOWLEDGE, latching=latching)
                alarms.acknowledge(tx, bench.clock, alarm.activation_id, by, state)

    await bench.database.transaction(work)
