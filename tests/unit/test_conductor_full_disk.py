"""A write whose intent cannot be recorded is not carried out, not now and not later: its turn ends failed, and says so (T6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from appliance.conductor import Rooms
from appliance.contracts.admission import Outcome
from appliance.contracts.errors import StorageFullError
from appliance.contracts.store import Transaction
from appliance.execution.runner import Runner
from appliance.store.database import Database
from tests.support.hall import open_hall
from tests.support.runner_ports import runner_ports

T = TypeVar("T")

SET_FAN = "set the fan speed of motor three to eighty percent"


class FullLedger:
    """A real ledger that has no room for an intent, nor for ``spare`` works that record that there was none."""

    def __init__(self, database: Database, spare: int) -> None:
        self._database = database
        self._spare = spare

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        def bounded(tx: Transaction) -> T:
            value = work(tx)
            if tx.execute("SELECT 1 FROM effect").fetchone():
                raise StorageFullError("no room left for ledger.db")
            if self._spare and tx.execute("SELECT 1 FROM action WHERE result LIKE '%storage_full%'").fetchone():
                self._spare -= 1
                raise StorageFullError("no room left for ledger.db")
            return value

        return await self._database.transaction(bounded)

    async def fetch(self, *query: Any) -> Any:
        return await self._database.fetch(*query)


@pytest.mark.req("T6")
@pytest.mark.parametrize("spare", [0, 1])
async def test_a_write_that_cannot_be_written_down_is_not_done_and_its_turn_fails(tmp_path: Path, spare: int) -> None:
    def full(rooms: Rooms) -> Rooms:
        ledger: Any = FullLedger(rooms.ledger, spare)  # type: ignore[arg-type]  # the hall's ledger is a real one
        epoch = rooms.runner._journal._epoch
        ports = runner_ports(tmp_path, rooms.clock)
        return replace(rooms, runner=Runner(ledger, rooms.toolbox, rooms.clock, rooms.ids, epoch, rooms.wording, **ports))

    async with open_hall(tmp_path, change=full) as hall:
        asked = await hall.say(SET_FAN)
        answer = await hall.say("yes confirm")
        assert (answer.outcome, answer.turn_id) == (Outcome.FAILED, asked.turn_id)
        assert (await hall.turn(asked.turn_id))["state"] == "failed"
        assert hall.bus.writes == []
        assert "My disk is full" in (await hall.said())[-1]
        assert await hall.bench.rows("SELECT 1 FROM effect") == []
        assert (await hall.say("help")).outcome is Outcome.DONE
