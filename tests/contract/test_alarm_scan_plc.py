"""The alarm engine on a real PLC process: polled over Modbus, journalled in a real ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.contracts.alarm import Alarm, AlarmChange, AlarmEvent, Disposition, Journalled
from appliance.contracts.errors import AlarmUnreadable
from appliance.contracts.plant import Plant
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.store import alarms
from drivers.alarms.scan import AlarmScan
from drivers.modbus.bus import ModbusBus
from tests.support.alarms import AlarmBench, rooms_of
from tests.support.ledger import Bench, open_bench
from tests.support.plant import SimulatedPlant, running_plant, shipped_plant
from tests.support.waiting import until

HEAT = "motor_3.temperature"
GATEWAYS = "motor_3_over_temperature"
LATE_S = 0.5


def watched_plant(port: int = 5020) -> Plant:
    """The shipped plant, polled every 50 ms. Beside its gateway's alarms the appliance watches some of its own."""
    told = shipped_plant(port, timeout_s=0.2, retries=0).model_dump(mode="json")
    next(group for group in told["poll_groups"] if group["name"] == "alarms")["every_s"] = 0.05
    for alarm in told["alarms"]:
        alarm["missed_after_s"] = LATE_S
        if alarm["id"] == "line_3_unreachable":
            alarm["condition"]["on_delay_s"] = 0.3
    next(tag for tag in told["tags"] if tag["name"] == "running" and tag["asset"] == "conveyor_3")["poll"] = "alarms"
    own = {"priority": "high", "fault": "f", "playbook": "p", "text": {"en": "x"}, "asset": "motor_3"}
    told["alarms"] += [
        own | {"id": "hot", "condition": {"kind": "h", "tag": HEAT, "limit": 90, "hysteresis": 10}},
        own | {"id": "broken", "condition": {"kind": "bad_value", "tag": HEAT}},
        own | {"id": "rising", "condition": {"kind": "rate", "tag": HEAT, "limit": 15, "within_s": 1}},
        own | {"id": "stopped", "condition": {"kind": "bit", "tag": "conveyor_3.running", "active_when": False}},
    ]
    return Plant.model_validate(told)


@dataclass
class Field:
    """A PLC, the bus that polls it, the engine, and the ledger it tells."""

    sim: SimulatedPlant
    bench: Bench
    plant: Plant
    clock: SystemClock
    rooms: AlarmBench
    stack: list[asyncio.Task[None]] = field(default_factory=list)
    events: list[AlarmEvent] = field(default_factory=list)

    async def admit(self, event: AlarmEvent) -> Journalled:
        """Implements ``AlarmSink``, with a list of what came."""
        journalled = await self.rooms.field_door.admit(event)
        self.events.append(event)
        return journalled

    async def suppress(self, alarm_id: str, is_suppressed: bool, why: str) -> None:
        """Implements ``AlarmSink``."""
        await self.rooms.field_door.suppress(alarm_id, is_suppressed, why)

    async def note_unreadable(self, topic: str, faults: Sequence[AlarmUnreadable]) -> None:
        """Implements ``AlarmSink``."""
        raise AssertionError("what is read from the PLC can be read")

    async def start(self) -> None:
        """Start bus and engine, as a core does on what its ledger knows."""
        self.bus = ModbusBus(self.plant, self.clock, Degraded())
        self.scan = AlarmScan(self.plant, self.clock, self.bench.ids, self)
        self.scan.know(await self.bench.database.transaction(alarms.live))
        self.bus.sample_listeners.append(self.scan.take)
        self.bus.visibility_listeners.append(self.scan.note)
        self.rooms.changes.listeners[:] = [self.scan.known]
        services = self.bus.run(), self.scan.run(), self.rooms.changes.run()
        self.stack = [asyncio.create_task(service) for service in services]
        await until(lambda: self.facts["unknown"] == 0, "every alarm was seen once")

    async def stop(self) -> None:
        """Stop where it stands."""
        for task in self.stack:
            task.cancel()
        await asyncio.gather(*self.stack, return_exceptions=True)
        await self.bus.close()

    @property
    def facts(self) -> dict[str, int]:
        return dict(self.scan.as_facts())

    def told(self, alarm_id: str) -> list[str]:
        return [str(event.change) for event in self.events if event.alarm_id == alarm_id]

    async def until_told(self, alarm_id: str, *changes: str) -> AlarmEvent:
        """Wait until exactly this was told of an alarm; return the last event."""
        await until(lambda: len(self.told(alarm_id)) >= len(changes), f"{alarm_id} {changes}; told: {self.events}")
        assert self.told(alarm_id) == list(changes)
        return [event for event in self.events if event.alarm_id == alarm_id][-1]

    async def rows(self, alarm_id: str) -> list[Alarm]:
        rows = await self.bench.database.fetch("SELECT * FROM alarm WHERE alarm_id = ? ORDER BY seq", (alarm_id,))
        return [alarms.to_alarm(row) for row in rows]


@asynccontextmanager
async def field_of(folder: Path) -> AsyncIterator[Field]:
    async with running_plant(folder) as sim, open_bench(folder) as bench:
        plant = watched_plant(sim.port)
        it = Field(sim, bench, plant, SystemClock(), rooms_of(bench, plant))
        bench.database.on_commit(it.rooms.changes.notify)
        await it.start()
        try:
            yield it
        finally:
            await it.stop()
        facts = it.facts
        assert facts["seen"] == facts["admitted"] + facts["withdrawn"] + facts["pending"]
        assert facts["refused"] == 0


@pytest.mark.req("F6", "F7")
@pytest.mark.field("FC-F18")
async def test_alarms_come_and_go_with_the_machine_and_what_no_gateway_told_is_noticed(tmp_path: Path) -> None:
    async with field_of(tmp_path) as it:
        assert it.events == []
        await it.sim.do("overheat", asset="motor_3")
        raised = await it.until_told("hot", "raised")
        assert raised.value is not None
        assert 90 <= raised.value < 100
        assert (raised.source, raised.unit, raised.is_state, raised.was_missed) == ("plc:line_3", "degC", False, False)
        await until(lambda: it.told("rising"), "it was seen to rise")
        missed = await it.until_told(GATEWAYS, "raised")
        assert missed.was_missed
        assert missed.source_mono_ns is not None
        assert raised.source_mono_ns is not None
        assert (missed.source_mono_ns - raised.source_mono_ns) / 1e9 >= LATE_S - 0.1
        await it.sim.do("recover", asset="motor_3")
        cleared = await it.until_told("hot", "raised", "cleared")
        assert cleared.activation_id == raised.activation_id
        await it.until_told(GATEWAYS, "raised", "cleared")
        for alarm_id in ("hot", GATEWAYS):
            (row,) = await it.rows(alarm_id)
            assert not row.is_active, "one activation, one row"
        assert {event.alarm_id for event in it.events} == {"hot", "rising", GATEWAYS}


@pytest.mark.req("F7")
@pytest.mark.field("FC-F05", "FC-F06")
async def test_a_silent_plc_is_one_alarm_and_its_values_stay_as_they_were(tmp_path: Path) -> None:
    async with field_of(tmp_path) as it:
        await it.sim.do("set", tag=HEAT, to=95.0)
        await it.until_told("hot", "raised")
        await it.sim.do("silent", seconds=1.5)
        lost = await it.until_told("line_3_unreachable", "raised")
        assert (lost.value, lost.unit, lost.source) == (None, "", "plc:line_3")
        await it.until_told("line_3_unreachable", "raised", "cleared")
        assert it.told("hot") == ["raised"]
        await it.sim.do("set", tag=HEAT, to=20.0)
        await it.until_told("hot", "raised", "cleared")


@pytest.mark.req("F6", "F7")
async def test_a_restart_neither_announces_again_nor_forgets(tmp_path: Path) -> None:
    async with field_of(tmp_path) as it:
        await it.sim.do("set", tag=HEAT, to=95.0)
        await it.until_told("hot", "raised")
        await it.until_told(GATEWAYS, "raised")
        await it.until_told("rising", "raised", "cleared")
        known = len(it.events)
        await it.stop()
        await it.start()
        await it.sim.do("fail", tag=HEAT)  # told after the first samples: by then an old alarm would have been told again
        await it.until_told("broken", "raised")
        assert [event.alarm_id for event in it.events[known:]] == ["broken"]
        await it.stop()
        await it.sim.do("set", tag=HEAT, to=20.0)  # while nobody looks
        await it.sim.do("jam", asset="conveyor_3")
        await it.start()
        await it.until_told("hot", "raised", "cleared")
        await it.until_told("broken", "raised", "cleared")
        await it.until_told(GATEWAYS, "raised", "cleared")
        for alarm_id in ("hot", "broken", GATEWAYS):
            (row,) = await it.rows(alarm_id)
            assert not row.is_active


@pytest.mark.req("F6")
async def test_true_before_anybody_looked_is_told_as_state(tmp_path: Path) -> None:
    async with field_of(tmp_path) as it:
        await it.stop()
        await it.sim.do("set", tag="conveyor_3.speed", to=0.0)
        await it.sim.do("set", tag=HEAT, to=95.0)
        await it.start()
        assert (await it.until_told("hot", "raised")).is_state


@pytest.mark.req("F6")
@pytest.mark.field("FC-F12")
async def test_a_broken_sensor_is_an_alarm_of_its_own_and_clears_no_other(tmp_path: Path) -> None:
    async with field_of(tmp_path) as it:
        await it.sim.do("set", tag=HEAT, to=95.0)
        await it.until_told("hot", "raised")
        await it.sim.do("fail", tag=HEAT)
        broken = await it.until_told("broken", "raised")
        assert (broken.value, broken.unit) == (None, "degC")
        await it.sim.do("set", tag=HEAT, to=94.0)
        await it.until_told("broken", "raised", "cleared")
        assert it.told("hot") == ["raised"]


@pytest.mark.req("F7")
@pytest.mark.field("FC-F17")
@pytest.mark.parametrize("is_first", [True, False])
async def test_what_a_gateway_tells_late_is_of_the_same_activation(tmp_path: Path, is_first: bool) -> None:
    """Gateway and engine each miss a half or come late: it stays one row, and nothing is refused."""
    async with field_of(tmp_path) as it:

        async def gateway(change: AlarmChange, value: float) -> Journalled:
            event = AlarmEvent("line_3_plc", GATEWAYS, "7-1", change, value, "degC", it.clock.utc())
            return await it.rooms.door.admit(event)

        if is_first:
            await gateway(AlarmChange.RAISED, 90.2)
            await it.sim.do("set", tag=HEAT, to=95.0)
            await it.until_told("hot", "raised")
        else:
            await it.sim.do("set", tag=HEAT, to=95.0)
            await it.until_told(GATEWAYS, "raised")
            await gateway(AlarmChange.RAISED, 90.2)
        await it.sim.do("set", tag=HEAT, to=20.0)
        await until(lambda: it.told(GATEWAYS)[-1:] == ["cleared"], "the missing clear was noticed")
        assert it.told(GATEWAYS) == (["cleared"] if is_first else ["raised", "cleared"])
        late = await gateway(AlarmChange.CLEARED, 79.8)
        assert late.disposition in (Disposition.REPEAT, Disposition.MERGED) or late.is_duplicate
        (row,) = await it.rows(GATEWAYS)
        assert not row.is_active
