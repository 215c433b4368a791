"""A cancellation passes, also when what it interrupts cannot be recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from appliance.contracts.errors import Unavailable
from appliance.execution.carry_through import record_in_passing
from tests.support.hall import open_hall
from tests.support.waiting import until


async def test_what_cannot_be_recorded_does_not_replace_what_passes() -> None:
    async def full() -> None:
        raise Unavailable("the card is full")

    cancelled = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError) as passed:
        await record_in_passing(full(), cancelled)
    assert passed.value is cancelled and isinstance(cancelled.__cause__, Unavailable)


@pytest.mark.req("R7", "R9")
async def test_a_turn_that_is_cancelled_ends_although_its_ledger_cannot_be_written(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        await hall.say("set the fan speed of motor three to eighty percent")
        hall.bus.write_gate.clear()
        await hall.console_door.admit("yes confirm", "en", "console")
        await until(lambda: hall.bus.writes, "the machine was written to")
        await hall.bench.database.tend(lambda db: db.execute("PRAGMA query_only = ON"))
        hall._leading.cancel()
        ended, _ = await asyncio.wait({hall._leading}, timeout=5)
        await hall.bench.database.tend(lambda db: db.execute("PRAGMA query_only = OFF"))
        hall.bus.write_gate.set()
        assert ended, "it waits for its ledger instead of ending"
        await hall.die()
        (successor,) = (await hall.restart()).resumed
        hall.open()
        await hall.ended(successor)
