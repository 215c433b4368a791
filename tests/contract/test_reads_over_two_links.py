"""Reads of one batch over two real Modbus links: a silent one delays only what is read over it (T8)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from appliance.contracts.plan import Step
from appliance.contracts.plant import Plant
from appliance.execution.tools.read_tags import ReadTags
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.bus import ModbusBus
from tests.support.plant import shipped_plant
from tests.support.raw_plc import raw_plc
from tests.support.stopping import FINISHED, open_yard
from tests.support.waiting import until

HERE, THERE, BOTH = "motor_3.temperature", "pump_3.pressure", "motor_3.load"
PATIENCE_S = 5.0


def zeros(pdu: bytes) -> bytes:
    count = int.from_bytes(pdu[3:5], "big")
    size = (count + 7) // 8 if pdu[0] in (1, 2) else 2 * count
    return bytes([pdu[0], size]) + bytes(size)


def on_two_links(here: int, there: int) -> Plant:
    """The shipped plant, with the pump behind a second controller."""
    plant = shipped_plant(here, timeout_s=PATIENCE_S, retries=0)
    (first,) = plant.links
    second = first.model_copy(update={"id": "plc_there", "port": there})
    tags = [tag.model_copy(update={"link": "plc_there"}) if tag.asset == "pump_3" else tag for tag in plant.tags]
    return plant.model_copy(update={"links": [first, second], "tags": tags})


@pytest.mark.req("T8")
async def test_a_silent_link_delays_only_what_is_read_over_it(tmp_path: Path) -> None:
    async with raw_plc(zeros) as silent, raw_plc(zeros) as answering, open_yard(tmp_path) as yard:
        plant = on_two_links(silent.port, answering.port)
        bus = ModbusBus(plant, SystemClock(), Degraded())
        yard.more.append(ReadTags(bus, plant, yard.bench.clock))
        silent.answer = lambda pdu: None
        steps = [Step(name, "read_tags", {"keys": [key]}) for name, key in (("a", HERE), ("b", THERE), ("c", BOTH))]
        turn = await yard.turn(*steps)
        clock = asyncio.get_running_loop().time
        since_s = clock()
        running = asyncio.create_task(yard.runner.run(turn, yard.bell))
        await until(lambda: bool(silent.requests) and bool(answering.requests), "both links are asked", within_s=PATIENCE_S / 2)
        assert clock() - since_s < PATIENCE_S / 2 and not running.done()
        assert len(silent.requests) == 1, "what goes over one link goes one after the other"
        silent.answer = zeros
        assert await running == FINISHED
        assert await yard.states() == {"a": "done", "b": "done", "c": "done"}
        await bus.close()
