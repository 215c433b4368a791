"""Whatever the clock, the power and the queue do: each check that was asked for ends once, and is admitted at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.admission.gate import Gate
from appliance.contracts.principal import NOBODY
from appliance.contracts.store import Transaction
from appliance.intake.schedule_door import LATEST_S, ScheduleDoor
from appliance.store import scheduled_checks
from tests.support.ledger import Bench, open_bench
from tests.support.plans import phrasing

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.floats(1, 3_600)),
        st.tuples(st.just("pass"), st.floats(0, 3_000)),
        st.tuples(st.just("reboot"), st.floats(0, 3_000)),
        st.tuples(st.just("synced"), st.booleans()),
        st.tuples(st.just("full"), st.booleans()),
        st.tuples(st.just("look"), st.just(0)),
    ),
    min_size=8,
    max_size=25,
)


class World:
    """A ledger with doors on it that come and go; two schedulers run all the time."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.asked = 0
        self.limit = 256
        self.doors = self.new_doors()

    def new_doors(self) -> list[ScheduleDoor]:
        bench = self.bench
        gate = Gate(bench.database, bench.clock, bench.ids, self.limit)
        return [ScheduleDoor(bench.database, gate, bench.clock, bench.ids, phrasing()) for _ in range(2)]

    async def do(self, step: str, value: Any) -> None:
        clock = self.bench.clock
        match step:
            case "ask":
                await self.bench.database.transaction(lambda tx: self.ask(tx, value))
            case "pass":
                clock.advance(value)
            case "reboot":
                clock.advance(value)
                clock.boot_id, clock.mono_ns, clock.is_synced = f"{clock.boot_id}+", 1_000_000_000, False
                self.doors = self.new_doors()
            case "synced":
                clock.is_synced = value
            case "full":
                self.limit = 0 if value else 256
                self.doors = self.new_doors()
            case "look":
                await asyncio.gather(*(door.look() for door in self.doors))

    def ask(self, tx: Transaction, after_s: float) -> None:
        self.asked += 1
        bench = self.bench
        scheduled_checks.schedule(
            tx, bench.clock, bench.ids, turn_id="tr_1", lane="console:anna", language="en", principal=NOBODY,
            intent="list_alarms", slots={}, what="what alarms are there", after_s=after_s,
        )  # fmt: skip


async def live(folder: Path, steps: Sequence[tuple[str, Any]]) -> None:
    async with open_bench(folder) as bench:
        world = World(bench)
        for step, value in steps:
            await world.do(step, value)
        for _ in range(3):  # in the end everything is over, whatever was: what waited for a clock, a queue or its time
            await world.do("look", 0)
            await world.do("pass", 3_600 + LATEST_S + 1)
        await world.do("look", 0)
        checks = await bench.rows("SELECT * FROM scheduled_check")
        admissions = await bench.rows("SELECT payload ->> '$.check' AS id, dedupe_key FROM admission")
        assert len(checks) == world.asked
        assert {check["status"] for check in checks} <= {"started", "missed"}
        started = sorted(check["id"] for check in checks if check["status"] == "started")
        assert sorted(row["id"] for row in admissions) == started, "each that was started was admitted once, and no other"
        said = await bench.rows("SELECT text FROM delivery")
        assert len(said) == world.asked, "and each was told of once: that it is made, or that it was missed"
        ends = await bench.rows("SELECT entity FROM operation WHERE kind IN ('check.started', 'check.missed')")
        assert sorted(row["entity"] for row in ends) == sorted(check["id"] for check in checks)


@pytest.mark.field("FC-R07", "FC-R08")
@given(steps=STEPS)
@settings(max_examples=25, deadline=None)
def test_every_check_ends_once_and_is_told_of_once(steps: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), steps))
