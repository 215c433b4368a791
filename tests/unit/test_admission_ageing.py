"""Who goes first as time passes: alarms, and talk that has waited; nobody waits for ever, and no lane is out of order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.admission.queue import AGES_BY_ONE_IN_S, ALARMS_BETWEEN, AdmissionQueue
from appliance.contracts.admission import (
    PRIORITY_ALARM,
    PRIORITY_CONSOLE,
    PRIORITY_FLOOD,
    PRIORITY_INTERJECTION,
    PRIORITY_UTTERANCE,
    Admission,
    Arrival,
    Outcome,
    RequestKind,
)
from appliance.contracts.errors import Refused
from appliance.store import admissions
from tests.support.clock import ManualClock
from tests.support.ledger import Bench, given_admission, given_turn, open_bench

NOBODY: set[str] = set()
_BETWEEN_ALARMS_S = 1.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
def queue(bench: Bench) -> AdmissionQueue:
    return AdmissionQueue(bench.database, bench.clock)


async def given_alarm(bench: Bench, key: str, **changes: Any) -> Admission:
    about: dict[str, Any] = {"lane": f"asset:{key}", "priority": PRIORITY_ALARM, "kind": RequestKind.ALARM}
    return await given_admission(bench, key, **about | changes)


async def take(bench: Bench, queue: AdmissionQueue) -> str:
    """Take the next admission and end it; return its key."""
    admission = await queue.next(NOBODY)
    await bench.database.transaction(lambda tx: admissions.settle(tx, bench.clock, admission.id, Outcome.DONE))
    return admission.dedupe_key


@pytest.mark.req("R1")
@pytest.mark.parametrize(("priority", "within_s"), [(PRIORITY_UTTERANCE, 60), (PRIORITY_CONSOLE, 75), (3, 105)])
async def test_talk_waits_behind_alarms_without_end_and_not_for_ever(
    bench: Bench, queue: AdmissionQueue, priority: int, within_s: int
) -> None:
    """Each second brings a fresh alarm, and each second there is time for one turn."""
    await given_admission(bench, "talk", priority=priority)
    for second in range(200):
        await given_alarm(bench, f"alarm-{second}")
        taken = await take(bench, queue)
        if taken == "talk":
            break
        assert taken == f"alarm-{second}", "alarms are told in the order they came, each at once"
        bench.clock.advance(_BETWEEN_ALARMS_S)
    assert within_s - AGES_BY_ONE_IN_S <= second <= within_s


@pytest.mark.req("R1")
async def test_a_backlog_of_talk_delays_an_alarm_by_one_turn(bench: Bench, queue: AdmissionQueue) -> None:
    """Aged talk goes before waiting alarms once, then some alarms come first: neither starves."""
    for number in range(6):
        await given_admission(bench, f"talk-{number}", lane=f"console:{number}", priority=PRIORITY_CONSOLE)
    bench.clock.advance(3600)
    for number in range(2 * ALARMS_BETWEEN):
        await given_alarm(bench, f"alarm-{number}")
    order = [await take(bench, queue) for _ in range(6 + 2 * ALARMS_BETWEEN)]
    alarms = [f"alarm-{number}" for number in range(2 * ALARMS_BETWEEN)]
    first, second = alarms[:ALARMS_BETWEEN], alarms[ALARMS_BETWEEN:]
    assert order == ["talk-0", *first, "talk-1", *second, "talk-2", "talk-3", "talk-4", "talk-5"]


@pytest.mark.req("R1")
async def test_a_flood_goes_before_what_is_fresh_and_behind_what_waited_longest(bench: Bench, queue: AdmissionQueue) -> None:
    await given_admission(bench, "waited", lane="a")
    bench.clock.advance(AGES_BY_ONE_IN_S * 20)
    await given_admission(bench, "fresh", lane="b")
    await given_alarm(bench, "flood", priority=PRIORITY_FLOOD, kind=RequestKind.FLOOD)
    assert [await take(bench, queue) for _ in range(3)] == ["waited", "flood", "fresh"]


@pytest.mark.req("R1", "R4")
async def test_what_waits_since_an_earlier_boot_has_waited_longest(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as before:
        before.clock.advance(10_000)
        await given_admission(before, "before the power cut", lane="a", priority=PRIORITY_CONSOLE)
    after = replace_boot(before)
    async with open_bench(tmp_path, clock=after, ids=before.ids) as bench:
        queue = AdmissionQueue(bench.database, bench.clock)
        await given_admission(bench, "talk", lane="b")
        await given_alarm(bench, "alarm")
        assert [await take(bench, queue) for _ in range(3)] == ["before the power cut", "alarm", "talk"]


def replace_boot(bench: Bench) -> ManualClock:
    """A clock of the next boot, whose monotonic time begins anew."""
    clock = ManualClock(bench.clock.now, boot_id="boot-2")
    clock.mono_ns = 5
    return clock


@pytest.mark.req("R1")
async def test_interjections_are_taken_beside_everything_else(bench: Bench, queue: AdmissionQueue) -> None:
    await given_turn(bench, "running")
    await given_admission(bench, "talk")
    stop: dict[str, Any] = {"kind": RequestKind.INTERJECTION, "priority": PRIORITY_INTERJECTION}
    interjection = await given_admission(bench, "stop", lane="control:speaker:floor", **stop)
    assert await queue.look(NOBODY) is None, "its lane is busy, and an interjection is not for this loop"
    assert (await queue.next(NOBODY, interjections=True)).id == interjection.id
    assert await queue.look({"control:speaker:floor"}, interjections=True) is None


@pytest.mark.req("R1")
async def test_both_loops_are_woken_and_neither_takes_the_others_wake(bench: Bench, queue: AdmissionQueue) -> None:
    talk = asyncio.create_task(queue.next(NOBODY))
    control = asyncio.create_task(queue.next(NOBODY, interjections=True))
    await bench.database.fetch("SELECT 1")
    stop = await given_admission(bench, "stop", lane="control:a", kind=RequestKind.INTERJECTION)
    said = await given_admission(bench, "said", lane="a")
    queue.wake()
    async with asyncio.timeout(20):
        assert ((await talk).id, (await control).id) == (said.id, stop.id)


@pytest.mark.req("R1")
async def test_what_steers_is_found_in_order_and_taken_up_by_the_turn_that_runs(bench: Bench) -> None:
    turn = await given_turn(bench, "running", lane="a")
    waits = await given_admission(bench, "waits", lane="a")
    steer = await given_admission(bench, "and then", lane="a", arrival=Arrival.STEER)
    elsewhere = await given_admission(bench, "elsewhere", lane="b", arrival=Arrival.STEER)
    redirect = await given_admission(bench, "instead", lane="a", arrival=Arrival.REDIRECT)
    rows = await bench.rows(admissions.STEERING, '["a"]')
    assert [(row["id"], row["lane"], row["arrival"]) for row in rows] == [
        (steer.id, "a", "steer"),
        (redirect.id, "a", "redirect"),
    ]
    taken = await bench.database.transaction(lambda tx: admissions.take_up(tx, bench.clock, steer.id, bench.epoch, turn.id))
    assert (taken.status, taken.outcome, taken.turn_id, taken.epoch) == ("terminal", Outcome.DONE, turn.id, bench.epoch)
    assert [row["id"] for row in await bench.rows(admissions.STEERING, '["a", "b"]')] == [elsewhere.id, redirect.id]
    with pytest.raises(Refused, match="not queued"):
        await bench.database.transaction(lambda tx: admissions.take_up(tx, bench.clock, steer.id, bench.epoch, turn.id))
    assert (await bench.one("SELECT status FROM admission WHERE id = ?", waits.id))["status"] == "queued"


@pytest.mark.req("R1")
async def test_what_steers_begins_a_turn_in_its_order_when_none_runs(bench: Bench, queue: AdmissionQueue) -> None:
    await given_admission(bench, "first", lane="a")
    await given_admission(bench, "steer", lane="a", arrival=Arrival.STEER)
    await given_admission(bench, "last", lane="a")
    assert [await take(bench, queue) for _ in range(3)] == ["first", "steer", "last"]


MOVES = st.one_of(
    st.tuples(
        st.just("admit"), st.sampled_from("abcd"), st.sampled_from([3, PRIORITY_CONSOLE, PRIORITY_UTTERANCE, PRIORITY_ALARM])
    ),
    st.tuples(st.just("wait"), st.just(""), st.integers(1, 200)),
    st.tuples(st.just("start"), st.just(""), st.just(0)),
    st.tuples(st.just("end"), st.just(""), st.integers(0, 3)),
)


@pytest.mark.req("R1")
@pytest.mark.field("FC-R01", "FC-R02")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(moves=st.lists(MOVES, min_size=5, max_size=40))
def test_no_lane_is_ever_out_of_order_nor_runs_two(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, str, int]]
) -> None:
    """Whatever comes, waits and ends: in each lane turns begin in the order the inputs came, one at a time, and all get there."""

    async def scenario(folder: Path) -> None:
        async with open_bench(folder) as bench:
            queue = AdmissionQueue(bench.database, bench.clock)
            came: dict[str, list[str]] = {lane: [] for lane in "abcd"}
            began: dict[str, list[str]] = {lane: [] for lane in "abcd"}
            running: list[Admission] = []

            async def start() -> bool:
                admission = await queue.look({each.lane for each in running})
                if admission is None:
                    return False
                assert admission.lane not in {each.lane for each in running}
                assert await queue.next({each.lane for each in running}) == admission
                began[admission.lane].append(admission.id)
                running.append(admission)
                return True

            async def end(number: int) -> None:
                ended = running.pop(number % len(running))
                await bench.database.transaction(lambda tx: admissions.settle(tx, bench.clock, ended.id, Outcome.DONE))

            for number, (what, lane, amount) in enumerate(moves):
                if what == "admit":
                    kind = RequestKind.ALARM if amount >= PRIORITY_ALARM else RequestKind.UTTERANCE
                    admission = await given_admission(bench, f"k{number}", lane=lane, priority=amount, kind=kind)
                    came[lane].append(admission.id)
                elif what == "wait":
                    bench.clock.advance(amount)
                elif what == "start":
                    await start()
                elif running:
                    await end(amount)
            while running or await start():
                while await start():
                    pass
                await end(0)
            assert began == came

    asyncio.run(scenario(tmp_path_factory.mktemp("lanes")))
