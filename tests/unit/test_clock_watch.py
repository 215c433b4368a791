"""Wall time that is set is noted with what the monotonic clock said, and a clock that cannot be right is named."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.foundation import clock_steps, system_clock
from appliance.foundation.clock_steps import ClockSteps
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock, kernel_clock_state
from appliance.health.clock_watch import CANNOT_ASK, ClockWatch
from appliance.store import audit, operations
from tests.support.clock import ManualClock
from tests.support.ledger import Bench, open_bench
from tests.support.waiting import until

pytestmark = [pytest.mark.field("FC-B01"), pytest.mark.req("X7")]


class Bell:
    """Tells of steps when the test says so."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    async def wait(self) -> None:
        await self.rung.wait()
        self.rung.clear()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


def watch_of(bench: Bench, steps: Bell | ClockSteps | None = None, look_every_s: float = 3600.0) -> tuple[ClockWatch, Degraded]:
    degraded = Degraded()
    return ClockWatch(bench.database, bench.clock, degraded, steps or Bell(), look_every_s=look_every_s), degraded


async def noted(bench: Bench, what: str) -> list[str]:
    return [
        row["payload"] for row in await bench.rows("SELECT payload FROM operation WHERE kind = ? ORDER BY seq", f"audit.{what}")
    ]


@pytest.mark.parametrize("step", [timedelta(days=18262), timedelta(days=-18262), timedelta(seconds=2)])
async def test_a_step_is_noted_once_and_changes_nothing_that_is_written(bench: Bench, step: timedelta) -> None:
    await bench.database.transaction(lambda tx: audit.note(tx, bench.clock, "before", "x", {}))
    before = await bench.rows("SELECT * FROM operation")
    bell = Bell()
    watch, _ = watch_of(bench, bell)
    heard: list[None] = []
    watch.listeners.append(lambda: heard.append(None))
    task = asyncio.create_task(watch.run())
    try:
        bench.clock.advance(10)
        bench.clock.now += step
        bell.rung.set()
        await until(lambda: heard, "the step is noted")
        await watch.look()
        bench.clock.advance(1000)  # time that passes is no step
        await watch.look()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    (facts,) = await noted(bench, "clock_stepped")
    assert f'"step_s":{step.total_seconds()}' in facts
    assert f'"at_mono_ns":{bench.clock.mono_ns - 1000 * 10**9}' in facts and f'"boot_id":"{bench.clock.boot_id}"' in facts
    shown = watch.facts()
    assert (shown["steps"], shown["last_step"]["step_s"]) == (1, step.total_seconds())
    assert (await bench.rows("SELECT * FROM operation WHERE seq = 1")) == before  # nothing is re-stamped
    assert (await bench.kinds(OperationLane.P1)) == ["audit.before", "audit.clock_stepped"]


async def test_where_the_kernel_tells_nothing_a_step_is_found_by_looking(bench: Bench) -> None:
    watch, _ = watch_of(bench, look_every_s=0.01)
    task = asyncio.create_task(watch.run())
    try:
        bench.clock.now += timedelta(days=1)
        await until(lambda: watch.facts()["steps"] == 1, "the step is found")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_undisciplined_clock_is_named_until_it_is_set(bench: Bench) -> None:
    bench.clock.is_synced = False
    watch, degraded = watch_of(bench)
    await watch.look()
    assert "times may be wrong" in degraded.reasons["clock"]
    bench.clock.is_synced = True
    await watch.look()
    assert degraded.reasons == {}
    assert await noted(bench, "clock_synced") == [f'{{"at_mono_ns":{bench.clock.mono_ns},"is_synced":true}}']


async def test_a_clock_that_cannot_be_asked_is_not_called_one_that_nobody_sets(bench: Bench) -> None:
    bench.clock.is_synced = False
    degraded = Degraded()
    await ClockWatch(bench.database, bench.clock, degraded, Bell(), can_ask=lambda: False).look()
    assert degraded.reasons["clock"] == CANNOT_ASK and "nothing sets" not in CANNOT_ASK


@pytest.mark.parametrize(
    ("state", "is_marked", "is_synced"),
    [(0, False, True), (5, True, False), (-1, False, False), (-1, True, True), (None, True, True), (None, False, False)],
)
def test_where_the_kernel_may_not_be_asked_timesyncd_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: int | None, is_marked: bool, is_synced: bool
) -> None:
    monkeypatch.setattr(system_clock, "_adjtimex", lambda: None if state is None else lambda _: state)
    monkeypatch.setattr(system_clock, "_TIMESYNC_MARK", mark := tmp_path / "synchronized")
    if is_marked:
        mark.touch()
    assert SystemClock().is_synced is is_synced
    assert (kernel_clock_state() is None) is (state in (None, -1))


@pytest.mark.parametrize(
    ("written_synced", "synced_now", "is_wrong"),
    [(True, False, True), (False, False, True), (True, True, True), (False, True, False)],
)
async def test_a_clock_behind_the_ledgers_own_record_is_certainly_wrong(
    tmp_path: Path, written_synced: bool, synced_now: bool, is_wrong: bool
) -> None:
    clock = ManualClock()
    clock.is_synced = written_synced
    async with open_bench(tmp_path, clock=clock) as bench:
        await bench.database.transaction(lambda tx: audit.note(tx, clock, "before", "x", {}))
    later = ManualClock(datetime(1970, 1, 1, tzinfo=UTC), boot_id="boot-2")
    later.is_synced = synced_now
    async with open_bench(tmp_path, clock=later) as bench:
        await bench.database.transaction(lambda tx: audit.note(tx, later, "this start's own", "x", {}))
        watch, degraded = watch_of(bench, bell := Bell())
        task = asyncio.create_task(watch.run())
        try:
            await until(lambda: is_wrong == ("clock_behind" in degraded.reasons), "it is named", within_s=5)
            assert watch.facts()["is_behind"] is is_wrong
            if is_wrong:
                assert "1970-01-01" in degraded.reasons["clock_behind"] and "2026-03-02" in degraded.reasons["clock_behind"]
            later.now, later.is_synced = datetime(2026, 3, 2, 9, tzinfo=UTC), True
            bell.rung.set()
            await until(lambda: not degraded.reasons, "time has come: nothing is wrong any more")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_step_that_cannot_be_written_is_noted_at_the_next_look(bench: Bench) -> None:
    watch, _ = watch_of(bench)
    bench.clock.now += timedelta(days=1)
    await bench.database.close()
    await watch.look()
    assert watch.facts()["steps"] == 0


@pytest.mark.parametrize("synced", [True, False])
async def test_what_is_written_says_whether_the_clock_was_disciplined(bench: Bench, synced: bool) -> None:
    bench.clock.is_synced = synced

    def work(tx: Transaction) -> None:
        operations.append(tx, bench.clock, OperationLane.P2, "memory.stored", "mem_1", {})

    await bench.database.transaction(work)
    assert (await bench.one("SELECT clock_synced FROM operation WHERE lane = 'P2'"))["clock_synced"] == synced


# the kernel's word ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "timerfd_create") and os.uname().sysname != "Linux", reason="timerfd is Linux's")
async def test_the_timer_wakes_and_is_armed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = ClockSteps()
    assert steps.is_told
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await steps.wait()  # nobody sets the clock
        monkeypatch.setattr(clock_steps, "_NEVER_S", int(time.time()) - 1)
        assert clock_steps._arm(steps._descriptor)
        monkeypatch.setattr(clock_steps, "_NEVER_S", 1 << 33)
        async with asyncio.timeout(5):
            await steps.wait()  # expired: as when it is cancelled, the descriptor is readable
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await steps.wait()  # armed again
    finally:
        steps.close()
        steps.close()


async def test_the_kernels_word_is_a_cancelled_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What read(2) answers after a step (ECANCELED) is news, no fault; a timer that cannot be armed again is given up."""
    steps = ClockSteps()
    try:
        monkeypatch.setattr(clock_steps, "_NEVER_S", int(time.time()) - 1)
        assert clock_steps._arm(steps._descriptor)

        def cancelled(*_: object) -> bytes:
            raise OSError(errno.ECANCELED, "Operation canceled")

        monkeypatch.setattr(clock_steps.os, "read", cancelled)
        monkeypatch.setattr(clock_steps, "_arm", lambda _: False)
        async with asyncio.timeout(5):
            await steps.wait()
        assert not steps.is_told
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await steps.wait()
    finally:
        steps.close()
