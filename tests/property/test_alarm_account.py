"""Whatever comes in, in whatever order: every event is accounted for, and every activation is one row."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from appliance.alarms.settings import AlarmSettings
from appliance.contracts.alarm import Inhibition
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from tests.support.alarms import AlarmBench, event, rooms_of
from tests.support.ledger import Bench, open_bench

ALARMS = ("hot", "trip", "jam")
RULES = AlarmSettings(chatter_count=2, chatter_window_s=30, chatter_calm_s=60, shelve_longest_s=600)

alarm = st.sampled_from(ALARMS)
moves = st.one_of(
    st.tuples(st.just("raise"), alarm, st.booleans()),  # True: the PLC is read too and tells of the same
    st.tuples(st.just("clear"), alarm, st.booleans()),  # True: the PLC tells first; else some time after
    st.tuples(st.just("late"), st.just(0), st.booleans()),
    st.tuples(st.just("resend"), st.integers(0, 9), st.booleans()),  # True: as a retained message
    st.tuples(st.just("conflict"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("lose"), alarm, st.booleans()),  # a number of the gateway that never arrives
    st.tuples(st.just("shelve"), alarm, st.booleans()),
    st.tuples(st.just("release"), alarm, st.booleans()),
    st.tuples(st.just("suppress"), alarm, st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from((1, 20, 70, 700)), st.booleans()),
    st.tuples(st.just("restart"), st.just(0), st.booleans()),
)


class Line:
    """What is really so: which activations there were, and what was sent of them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.rooms: AlarmBench = rooms_of(bench, settings=RULES)
        self.active: dict[str, int] = {}
        self.seen_by_plc: set[int] = set()
        self.still_to_clear: list[tuple[str, int]] = []
        self.happened = 0
        self.handed_in = 0
        self.sequence = 0
        self.lost = 0
        self.sent: list[Any] = []

    async def tell(self, told: Any) -> None:
        self.handed_in += 1
        with contextlib.suppress(Refused):
            await self.rooms.door.admit(told)

    async def gateway(self, alarm: str, activation: int, *, cleared: bool = False) -> None:
        self.sequence += 1
        told = event(self.bench, alarm, str(activation), cleared=cleared, sequence=self.sequence)
        self.sent.append(told)
        await self.tell(told)

    async def plc(self, alarm: str, activation: int, *, cleared: bool = False) -> None:
        self.seen_by_plc.add(activation)
        told = event(self.bench, alarm, f"act_{activation}", cleared=cleared, source="plc", was_missed=True, value=None)
        await self.tell(told)

    async def do(self, move: tuple[str, Any, bool]) -> None:
        what, about, flag = move
        match what:
            case "raise" if about not in self.active:
                self.happened += 1
                self.active[about] = self.happened
                await self.gateway(about, self.happened)
                if flag:
                    await self.plc(about, self.happened)
            case "clear" if about in self.active:
                activation = self.active.pop(about)
                if flag and activation in self.seen_by_plc:
                    await self.plc(about, activation, cleared=True)
                elif activation in self.seen_by_plc:
                    self.still_to_clear.append((about, activation))
                await self.gateway(about, activation, cleared=True)
            case "late" if self.still_to_clear:
                await self.plc(*self.still_to_clear.pop(), cleared=True)
            case "resend" | "conflict" if self.sent:
                told = self.sent[-1 - about % len(self.sent)]
                changes = {"value": -1.0} if what == "conflict" else {"is_state": flag}
                same = {"activation": told.activation, "cleared": told.change == "cleared", "sequence": told.sequence}
                await self.tell(event(self.bench, told.alarm_id, source_utc=told.source_utc, **same, **changes))
            case "lose" if self.sequence:
                self.sequence += 1
                self.lost += 1
            case "shelve":
                await self.rooms.inhibitions.shelve(about, 50, by="anna", reason="cleaning")
            case "release":
                with contextlib.suppress(Refused):
                    await self.rooms.inhibitions.end(about, Inhibition.SHELVED, by="anna")
            case "suppress":
                await self.rooms.door.suppress(about, flag, "motor_3.running changed")
            case "wait":
                self.bench.clock.advance(about)
                await self.rooms.inhibitions.end_what_is_over()
            case "restart":
                self.rooms = rooms_of(self.bench, settings=RULES)


async def check(bench: Bench, line: Line) -> None:
    account = await line.rooms.account.draw_up()
    assert [fault for fault in account["faults"] if "never came" not in fault] == []
    sources = account["sources"]
    assert sum(counted["seen"] for counted in sources) == line.handed_in
    # A number that was skipped is noticed with the next that comes.
    came_after = (await bench.rows("SELECT last_sequence FROM alarm_source WHERE source = 'gateway'")) or [{"last_sequence": 0}]
    behind = line.sequence - (came_after[0]["last_sequence"] or 0)
    assert sum(counted["missing"] for counted in sources) == line.lost - behind
    rows = await bench.rows("SELECT alarm_id, source, cleared_utc IS NULL AS active FROM alarm")
    assert len(rows) == line.happened and {row["source"] for row in rows} <= {"gateway"}
    assert sorted(row["alarm_id"] for row in rows if row["active"]) == sorted(line.active)
    # What is there, was never told and is not held by anything: there is no such thing.
    told = "SELECT count(*) AS n FROM alarm_event WHERE disposition = 'announce' AND admission_id IS NULL"
    assert (await bench.one(told))["n"] == 0
    assert (
        await bench.rows("SELECT 1 FROM alarm_event GROUP BY admission_id HAVING admission_id IS NOT NULL AND count(*) > 1") == []
    )
    await bench.kinds(OperationLane.P0)


async def every_one_is_told_in_the_end(bench: Bench, line: Line) -> None:
    """Once nothing holds them and all is calm, what is active was announced."""
    for name in ALARMS:
        await line.rooms.door.suppress(name, False, "motor_3.running changed")
    bench.clock.advance(1000)
    await line.rooms.inhibitions.end_what_is_over()
    left = await bench.rows(
        "SELECT e.disposition FROM alarm a JOIN alarm_event e ON e.activation_id = a.activation_id AND e.change = 'raised'"
        " WHERE a.cleared_utc IS NULL AND e.disposition NOT IN ('announce', 'merged', 'repeat', 'state')"
    )
    assert left == []


@pytest.mark.req("F6", "F7")
@pytest.mark.field("FC-F16", "FC-F17", "FC-F18")
@example([("raise", "hot", True), ("clear", "hot", False), ("raise", "hot", False), ("late", 0, False)])
@given(st.lists(moves, max_size=40))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_event_is_accounted_for_and_every_activation_is_one(what_happens: Sequence[tuple[str, Any, bool]]) -> None:
    async def play() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with open_bench(Path(folder)) as bench:
                line = Line(bench)
                for move in what_happens:
                    await line.do(move)
                await check(bench, line)
                await every_one_is_told_in_the_end(bench, line)
                await check(bench, line)

    asyncio.run(play())
