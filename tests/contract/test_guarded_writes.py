"""Guarded writes over the simulated plant's real Modbus server: limits, interlocks over live tags, read-back (X5, F4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from appliance.contracts.errors import Refused
from appliance.execution.approval.settings import ApprovalSettings
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.bus import ModbusBus
from tests.support.gate import FAN, SET_FAN, Gate, open_gate, principal, rules, write_step
from tests.support.plant import SimulatedPlant, running_plant, shipped_plant

pytestmark = [pytest.mark.req("X5", "F4"), pytest.mark.asyncio(loop_scope="module")]

ANA, BOSS = principal(), principal("critical")
COOL = {"require": "motor_3.temperature < 90 and pump_3.running", "fresh_s": 3}
LANE = "console:ana"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plc(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SimulatedPlant]:
    async with running_plant(tmp_path_factory.mktemp("plant")) as plant:
        yield plant


@asynccontextmanager
async def opened(folder: Path, plc: SimulatedPlant, settings: ApprovalSettings) -> AsyncIterator[Gate]:
    """A gate over the plant, in real time."""
    clock = SystemClock()
    bus = ModbusBus(shipped_plant(plc.port, timeout_s=0.3, retries=0), clock, Degraded())
    try:
        plant = shipped_plant(plc.port, timeout_s=0.3, retries=0)
        async with open_gate(folder, settings, bus=lambda bench, plant: bus, plant=plant, clock=clock) as gate:
            yield gate
    finally:
        await bus.close()


async def shown(gate: Gate) -> Any:
    """What the PLC holds."""
    return (await gate.bus.read([FAN]))[FAN].value


def locked(**changes: Any) -> ApprovalSettings:
    return rules(writes=[{"tags": [FAN], "interlocks": [COOL], **changes}])


async def test_a_write_is_made_while_its_interlock_holds_read_back_and_recorded(tmp_path: Path, plc: SimulatedPlant) -> None:
    await plc.set("motor_3.temperature", 70.0)
    await plc.set("pump_3.running", True)
    async with opened(tmp_path, plc, locked()) as gate:
        await gate.ask(SET_FAN, ANA, lane=LANE)
        assert await gate.answer("yes confirm", ANA, lane=LANE) == "finished"
        assert await shown(gate) == 80
        assert (await gate.said())[-1] == "The fan speed of motor 3 is now 80 percent."
        (row,) = await gate.bench.rows("SELECT * FROM effect")
        assert (row["status"], row["settled_by"]) == ("applied", "reply")


async def test_an_interlock_that_does_not_hold_any_more_keeps_the_write_from_being_sent(
    tmp_path: Path, plc: SimulatedPlant
) -> None:
    await plc.set("motor_3.temperature", 70.0)
    await plc.set("pump_3.running", True)
    async with opened(tmp_path, plc, locked()) as gate:
        before = (await plc.counts())["writes"]
        await gate.ask("set the fan speed of motor three to thirty percent", ANA, lane=LANE)
        await plc.set("motor_3.temperature", 95.0)
        assert await gate.answer("yes confirm", ANA, lane=LANE) == "failed"
        assert (await plc.counts())["writes"] == before
        said = (await gate.said())[-1]
        assert said.startswith(
            "I cannot do that. The interlock does not permit that now. The temperature of motor 3 is 95 degrees"
        )
        with pytest.raises(Refused, match="The interlock does not permit that now"):  # and now nobody is asked any more
            await gate.ask(SET_FAN, ANA, lane=LANE)
        assert (await plc.counts())["writes"] == before


async def test_a_plc_that_does_not_tell_permits_nothing(tmp_path: Path, plc: SimulatedPlant) -> None:
    await plc.set("motor_3.temperature", 70.0)
    async with opened(tmp_path, plc, locked()) as gate:
        await gate.ask(SET_FAN, ANA, lane=LANE)
        before = (await plc.counts())["writes"]
        await plc.misbehave("silent", on="read")
        assert await gate.answer("yes confirm", ANA, lane=LANE) == "failed"
        await plc.behave()
        assert (await plc.counts())["writes"] == before
        said = (await gate.said())[-1]
        assert "I set nothing" in said, said
        assert (await gate.decisions())[-1] == ("write_tag", "deny", "interlock")


@pytest.mark.parametrize("value", [101, -1, 1e9])
async def test_nothing_beyond_its_limits_is_sent_whatever_is_allowed(tmp_path: Path, plc: SimulatedPlant, value: float) -> None:
    async with opened(tmp_path, plc, rules(ask=[], allow=["*"])) as gate:
        before = (await plc.counts())["writes"]
        turn = await gate.unprepared([write_step(value)], BOSS)
        assert (await gate.run(turn)).kind == "failed"
        assert (await plc.counts())["writes"] == before
        assert await gate.bench.rows("SELECT * FROM effect") == []  # it did not even begin


async def test_a_write_whose_read_back_cannot_be_had_is_unknown_and_said_to_be(tmp_path: Path, plc: SimulatedPlant) -> None:
    async with opened(tmp_path, plc, rules()) as gate:
        await gate.ask("set the fan speed of motor three to forty percent", ANA, lane=LANE)
        before = sum((await plc.counts())["writes"].values())
        await plc.misbehave("silent", on="read")
        assert await gate.answer("yes confirm", ANA, lane=LANE) == "failed"
        await plc.behave()
        assert sum((await plc.counts())["writes"].values()) == before + 1  # sent once, and never again
        (row,) = await gate.bench.rows("SELECT * FROM effect")
        assert row["status"] == "unknown"
        assert (await gate.said())[-1].startswith("I still do not know whether it was done")
        for _ in range(200):  # the link comes back by itself
            if (found := await shown(gate)) is not None:
                break
            await asyncio.sleep(0.02)
        assert found == 40  # it had happened


async def test_a_critical_write_needs_the_code_also_when_it_is_typed(tmp_path: Path, plc: SimulatedPlant) -> None:
    await plc.set("motor_3.temperature", 70.0)
    await plc.set("pump_3.running", True)
    async with opened(tmp_path, plc, locked(access="critical")) as gate:
        await gate.ask("set the fan speed of motor three to fifty percent", BOSS, lane=LANE)
        assert await gate.answer("yes confirm", BOSS, lane=LANE) == "needs_code"
        assert await shown(gate) != 50
        assert await gate.answer(f"confirm {await gate.code()}", BOSS, lane=LANE) == "finished"
        assert await shown(gate) == 50
