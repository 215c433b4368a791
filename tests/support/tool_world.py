"""What tools are called in, for the suite that calls every one of them: real rooms, and the field as a table or as a PLC that is
a process of its own and is asked over Modbus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from appliance.contracts.hold import HoldSource
from appliance.contracts.memory import MemoryDraft, Tier
from appliance.contracts.plan import Step
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.store import Transaction
from appliance.contracts.tool import EffectDisposition, SlaContract, ToolCall, ToolResult
from appliance.coordination.availability import Availability
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.spill import Spill
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.memory.memory import Memory
from appliance.memory.procedural import ProcedureRepository
from appliance.memory.settings import MemorySettings
from appliance.session.settings import SessionSettings
from appliance.store import actions, holds, sessions
from appliance.store.history import HISTORY_FILE, History
from appliance.store.history_settings import HistorySettings
from drivers.modbus.bus import ModbusBus
from tests.support.bus import TableBus
from tests.support.hall import Hall, hot
from tests.support.ledger import open_bench
from tests.support.modbus_servers import FieldServer
from tests.support.plans import open_turn
from tests.support.plant import SimulatedPlant, shipped_plant
from tests.support.runner_ports import runner_ports

NOBODY_LISTENS = 1  # a port


@dataclass(frozen=True, slots=True)
class Called:
    """How one call ended: its stored result, and what was said about it."""

    outcome: RunOutcome
    result: Mapping[str, Any]
    said: list[str]
    effect: Mapping[str, Any] | None


@dataclass
class World:
    """Rooms and a field."""

    hall: Hall
    plc: SimulatedPlant | FieldServer | None
    turns: int = 0
    names: dict[str, Any] = field(default_factory=dict)

    async def call(self, tool: str, arguments: Mapping[str, Any], language: str = "en") -> Called:
        """Make a turn of one step and run it."""
        bench = self.hall.bench
        self.turns += 1
        turn_id = f"tr_called_{self.turns}"
        turn = await open_turn(
            bench.database, bench.clock, bench.ids, [Step("step", tool, arguments)], language=language, turn_id=turn_id
        )
        outcome = await self.runner().run(turn)
        (action,) = (await bench.database.transaction(lambda tx: actions.of_turn(tx, turn_id)))[:1]
        effects = await bench.rows("SELECT * FROM effect WHERE turn_id = ?", turn_id)
        return Called(outcome, action.result or {}, await self.hall.said(turn_id), effects[0] if effects else None)

    def runner(self) -> Runner:
        """Run what the tools do with nobody who has to be asked: what may be called at all is another suite's matter."""
        bench, rooms = self.hall.bench, self.hall.rooms
        ports = runner_ports(bench.database.path.parent, bench.clock)
        return Runner(
            bench.database, rooms.toolbox, bench.clock, bench.ids, bench.epoch, rooms.wording, **ports,
            settle_waits=lambda: [0.0] * 3, retry_waits=lambda: iter([0.0] * 9),
        )  # fmt: skip

    # what was before ---------------------------------------------------------------------------------------------------
    async def nothing(self) -> None:
        """Nothing at all has happened."""

    async def alarm(self) -> None:
        """An alarm is live, and nobody has acknowledged it."""
        await self.hall.alarm_door.admit(hot(self.hall.bench))
        (row,) = await self.hall.bench.rows("SELECT activation_id FROM alarm")
        self.names["activation"] = row["activation_id"]

    async def memory(self) -> None:
        """Something is remembered."""
        draft = MemoryDraft(
            tier=Tier.EPISODIC, scope="line_3", asset="motor_3", fault="over_temperature", text="The fan filter was blocked.",
            source_session="se_1", confidence=0.9, verified=True, occurred_utc=self.hall.bench.clock.utc(), facts={},
        )  # fmt: skip
        await self.hall.memory.remember(draft, key="earlier")

    async def work_order(self) -> None:
        """There is one for motor 3."""
        await self.call("create_work_order", {"asset": "motor_3", "title": "Check the fan"})

    async def shelved(self) -> None:
        """The alarm about the temperature is shelved."""
        await self.call("shelve_alarm", {"alarm": "motor_3_over_temperature", "minutes": 30, "reason": "test"})

    async def check(self) -> None:
        """A check waits."""
        await self.call("schedule_check", {"minutes": 10, "sentence": "what alarms are active"})

    async def past(self) -> None:
        """The temperature of motor 3 rose in the last 20 minutes."""
        clock = self.hall.bench.clock
        for minute in range(20):
            at = clock.monotonic_ns()
            reading = Reading("motor_3.temperature", 60.0 + minute, "degC", Quality.GOOD, clock.utc(), (), "", at)
            self.hall.history.note([reading])
            clock.advance(60)

    async def cool(self) -> None:
        """Nothing stands out about motor 3."""
        assert isinstance(self.hall.bus, TableBus)
        self.hall.bus.values["motor_3.temperature"] = 60.0

    async def long_result(self) -> None:
        """The coming turn's session has had a result that was too long to be kept whole."""
        await self._spilled(f"lane:tr_called_{self.turns + 1}")

    async def result_of_another(self) -> None:
        """Another session has."""
        await self._spilled("lane:another")

    async def _spilled(self, lane: str) -> None:
        bench, contract = self.hall.bench, self.hall.rooms.toolbox.contracts["read_plc_log"]
        spill = Spill(bench.database.path.parent / "spill")

        def work(tx: Transaction) -> ToolResult:
            session = sessions.open_for(tx, bench.clock, bench.ids, lane, None)
            call = ToolCall("read_plc_log", {}, "tr_long", session, "ac_long", lane, "en", {})
            return spill.bounded(tx, call, contract, ToolResult(True, {"lines": ["x" * 99] * 2_000}, EffectDisposition.NONE))

        kept = await bench.database.transaction(work)
        self.names["result"] = kept.value["spilled"]

    async def hold(self) -> None:
        """The appliance is on hold."""
        clock = self.hall.bench.clock
        await self.hall.bench.database.transaction(
            lambda tx: holds.begin(tx, clock, HoldSource.PERSON, by="anna", reason="belt off the pulley")
        )

    async def away(self) -> None:
        """The PLC cannot be reached."""
        if isinstance(self.hall.bus, TableBus):
            self.hall.bus.is_away = True
        else:
            await self.field_at(NOBODY_LISTENS)

    async def lost_answer(self) -> None:
        """A write is carried out and its answer is lost."""
        if isinstance(self.hall.bus, TableBus):
            self.hall.bus.answers_writes = False
        else:
            assert isinstance(self.plc, SimulatedPlant)
            await self.plc.do("hold_write_reply", seconds=1.5)

    async def hurry(self) -> None:
        """Every tool has a moment, and whatever it waits for takes longer."""
        toolbox, is_table = self.hall.rooms.toolbox, isinstance(self.hall.bus, TableBus)
        for name in toolbox.names:
            tool: Any = toolbox.find(name)
            tool.contract = replace(tool.contract, sla=SlaContract(1 if is_table else 50))
        if isinstance(self.hall.bus, TableBus):
            self.hall.bus.open_gate.clear()
            self.hall.bus.write_gate.clear()
        else:
            assert isinstance(self.plc, SimulatedPlant)
            await self.plc.do("hold_read_reply", seconds=0.3)
        await self.hall.history._using_file.acquire()
        self.names["locked"] = True

    async def field_at(self, port: int) -> None:
        """Ask a PLC at this port from now on."""
        old: Any = self.hall.bus
        bus: Any = ModbusBus(shipped_plant(port, timeout_s=0.4, retries=0), SystemClock(), Degraded())
        self.hall.bus = bus
        self.hall.build(self.hall.bench.epoch)
        if isinstance(old, ModbusBus):
            await old.close()


@asynccontextmanager
async def open_world(
    folder: Path, plc: SimulatedPlant | FieldServer | None, procedures: ProcedureRepository
) -> AsyncIterator[World]:
    """Build a hall that nobody leads, whose field is a table, or a PLC that runs. ``procedures`` are open."""
    async with open_bench(folder) as bench:
        degraded, plant = Degraded(), shipped_plant()
        memory = Memory(bench.database, bench.clock, bench.ids, MemorySettings(), None, procedures, degraded)
        availability = Availability(bench.database, bench.clock, degraded)
        bus = TableBus(plant, bench.clock)
        hall = Hall(bench, bus, memory, procedures, degraded, availability, SessionSettings(), lambda rooms: rooms, plant=plant)
        hall.history = History(folder / HISTORY_FILE, plant, bench.clock, degraded, HistorySettings())
        hall.build(bench.epoch)
        world = World(hall, plc)
        try:
            if plc is not None:
                await world.field_at(plc.port)
            yield world
        finally:
            if world.names.get("locked"):
                hall.history._using_file.release()
            if isinstance(field_bus := world.hall.bus, ModbusBus):
                await field_bus.close()
            await hall.history.close()
            await memory.stop()
