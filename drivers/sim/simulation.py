"""A whole simulated plant: its PLCs, machines, signals, alarms and timeline. Told by orders, moved by :meth:`Simulation.step`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import assert_never

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Refused
from appliance.contracts.plant import Plant
from drivers.sim.alarms import Alarms
from drivers.sim.gateway import Gateway
from drivers.sim.line import Line
from drivers.sim.listening import Endpoint
from drivers.sim.orders import (
    AlarmOrder,
    Behave,
    Burst,
    Counts,
    Drive,
    Fail,
    HoldReadReply,
    HoldWriteReply,
    Jam,
    Log,
    Misbehave,
    Order,
    Overheat,
    PressureDrop,
    RampTo,
    Recover,
    Refuse,
    Set,
    Silent,
    Stop,
    as_misbehaviour,
)
from drivers.sim.plc import Plc
from drivers.sim.registers import Memory
from drivers.sim.scenario import Scenario
from drivers.sim.tag_signals import TagSignals
from drivers.sim.timeline import Timeline

Report = Callable[..., None]


class Simulation:
    """Plays ``links`` of ``plant`` as ``scenario`` says. It listens from :meth:`start` on; time passes only by :meth:`step`."""

    def __init__(
        self,
        plant: Plant,
        links: Sequence[str],
        scenario: Scenario,
        *,
        gateway: Gateway,
        clock: Clock,
        report: Report,
        stop: Callable[[], None],
        seed: int,
        traces: bool = False,
    ) -> None:
        self.memory = Memory(plant, links)
        self.plcs: Mapping[str, Plc] = {
            link: Plc(self.memory.of(link), clock, report, seed=seed, traces=traces) for link in links
        }
        self._plant = plant
        self._gateway = gateway
        self._report = report
        self._stop = stop
        self._now_s = 0.0
        self._signals = TagSignals(plant, self.memory, scenario.signals(plant), report, seed=seed)
        self._alarms = Alarms(plant, self.memory, self._alarm_changed)
        self._line = Line(
            plant, self.memory, self._alarms, seed=seed, driven=self._signals.driven, has_machines=scenario.machines
        )
        self._timeline = Timeline()
        self._timeline.add(scenario.events, repeat_every_s=scenario.repeat_every_s)
        for plc in self.plcs.values():
            plc.on_write(self._line.written)

    async def start(self, endpoints: Mapping[str, Endpoint]) -> dict[str, Endpoint]:
        """Listen for every link; return where.

        Raises:
            Refused: an endpoint cannot be had; those opened before it are closed.
        """
        try:
            return {link: await plc.start(endpoints[link]) for link, plc in self.plcs.items()}
        except Refused:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close every listener and connection."""
        for plc in self.plcs.values():
            await plc.stop()

    def step(self, dt_s: float) -> None:
        """Let ``dt_s`` simulated seconds pass."""
        self._now_s += dt_s
        for order in self._timeline.due(self._now_s):
            if not isinstance(order, AlarmOrder):  # an alarm is told of itself, and a burst has hundreds
                self._report(event="happened", at_s=round(self._now_s, 3), **_told(order))
            try:
                self._carry_out(order)
            except FloorhandError as error:
                self._report(event="refused", why=error.message)
        self._line.step(dt_s)
        self._signals.step(self._now_s, dt_s)
        self._alarms.step(self._now_s)

    def obey(self, order: Order) -> None:
        """Carry out an order now, or put it on the timeline if it has a time.

        Raises:
            Refused: it cannot be done here.
        """
        if order.at_s is None and order.every_s is None:
            self._carry_out(order)
        else:
            self._timeline.put(self._now_s + (order.at_s or 0.0), order, order.every_s, order.rounds)

    def _carry_out(self, order: Order) -> None:
        match order:
            case Overheat():
                self._line.overheat(order.asset)
            case PressureDrop():
                self._line.drop_pressure(order.asset)
            case Jam():
                self._line.jam(order.asset)
            case Recover():
                self._recover(order)
            case Set():
                self._signals.set(order.tag, order.to)
            case RampTo():
                self._signals.ramp(order.tag, order.to, order.over_s)
            case Drive():
                self._signals.drive(order.tag, order.by)
            case Fail():
                self._signals.fail(order.tag)
            case AlarmOrder():
                self._alarms.tell(order.alarm, order.state == "raised", order.value)
            case Burst():
                self._burst(order)
            case Log():
                self._line.log(order.code, order.value)
            case Misbehave():
                self._misbehave(order)
            case Behave():
                for plc in self._of(order.link):
                    plc.behave(order.device_id)
            case HoldWriteReply() | HoldReadReply() | Silent() | Refuse():
                self._misbehave(as_misbehaviour(order))
            case Counts():
                self._count()
            case Stop():
                self._stop()
            case _:
                assert_never(order)

    def _recover(self, order: Recover) -> None:
        if order.tag is not None:
            self._signals.recover(order.tag)
            return
        if order.asset is not None and order.asset not in self._plant.asset_by_id:
            raise Refused(f"{order.asset} is not an asset of this plant")
        if order.asset is None or self._line.plays(order.asset):
            self._line.recover(order.asset)
        self._signals.recover(None, order.asset)
        self._alarms.release(order.asset)

    def _burst(self, order: Burst) -> None:
        known = order.alarms or [alarm.id for alarm in self._plant.alarms if alarm.source_id is not None]
        if not known:
            raise Refused("the plant has no alarm that a gateway publishes")
        apart_s = order.over_s / order.count
        stands = {alarm_id: self._alarms.is_active(alarm_id) for alarm_id in known}
        for number, alarm_id in zip(range(order.count), cycle(known)):
            at_s = self._now_s + number * apart_s
            if stands.get(alarm_id):
                self._timeline.put(at_s, AlarmOrder(do="alarm", alarm=alarm_id, state="cleared"))
            self._timeline.put(at_s, AlarmOrder(do="alarm", alarm=alarm_id))
            stands[alarm_id] = True

    def _misbehave(self, told: Misbehave) -> None:
        for plc in self._of(told.link):
            plc.misbehave(told)

    def _of(self, link: str | None) -> list[Plc]:
        if link is None:
            return list(self.plcs.values())
        if link not in self.plcs:
            raise Refused(f"{link} is not simulated; there is {', '.join(self.plcs)}")
        return [self.plcs[link]]

    def _count(self) -> None:
        writes: Counter[str] = Counter()
        for plc in self.plcs.values():
            writes += plc.write_counts
        requests = {link: plc.requests for link, plc in self.plcs.items()}
        self._report(event="counts", **self._gateway.totals(), writes=dict(writes), requests=requests)

    def _alarm_changed(self, alarm: AlarmDefinition, change: AlarmChange, value: float | None) -> None:
        self._line.alarm_changed(alarm, change, value)
        self._report(event="alarm", id=alarm.id, state=str(change), value=value)
        self._gateway.changed(alarm, change, value)


def _told(order: Order) -> dict[str, object]:
    told: dict[str, object] = order.model_dump(mode="json", exclude_unset=True, by_alias=True)
    for timing in ("at_s", "every_s", "rounds"):
        told.pop(timing, None)
    return told
