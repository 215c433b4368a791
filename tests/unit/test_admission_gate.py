"""The gate and the queue behind it: durable before acknowledged, duplicates collapse, one turn a lane."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Set
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.contracts.admission import PRIORITY_ALARM, Admission, AdmissionStatus, Outcome, RequestKind
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import admissions, operations
from appliance.store.database import Database
from tests.support.ledger import Bench, given_admission, open_bench, request

NOBODY: set[str] = set()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
def gate(bench: Bench) -> Gate:
    return Gate(bench.database, bench.clock, bench.ids)


@pytest.fixture
def queue(bench: Bench) -> AdmissionQueue:
    return AdmissionQueue(bench.database, bench.clock)


async def start(bench: Bench, admission: Admission) -> str:
    turns = Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())
    turn = await turns.open(admission, language="en", intent="x", context={}, offline=False)
    return turn.id


async def settle(bench: Bench, admission: Admission) -> None:
    await bench.database.transaction(lambda tx: admissions.settle(tx, bench.clock, admission.id, Outcome.DONE))


@pytest.mark.req("R1")
async def test_what_is_admitted_is_on_disk_with_its_operation(bench: Bench, gate: Gate) -> None:
    admitted = await gate.admit(request("u1"))
    assert not admitted.is_duplicate
    row = await bench.one("SELECT * FROM admission")
    assert (row["id"], row["status"], row["clock_synced"], row["boot_id"]) == (admitted.admission.id, "queued", 1, "boot-1")
    assert admitted.admission.payload == request("u1").payload
    assert await bench.kinds(OperationLane.P1) == ["admission.queued"]
    logged = json.loads((await bench.one("SELECT payload FROM operation"))["payload"])
    assert "temperature" not in json.dumps(logged)  # what was said stays in the admission


@pytest.mark.req("R1")
@pytest.mark.field("FC-R04", "FC-F17")
async def test_a_repeat_is_the_same_admission_whatever_became_of_it(bench: Bench, gate: Gate) -> None:
    ran: list[str] = []

    def also(_: Transaction, admission: Admission) -> None:
        ran.append(admission.id)

    first = await gate.admit(request("u1"), also)
    again = await gate.admit(request("u1"), also)
    assert again.is_duplicate and again.admission == first.admission
    await start(bench, first.admission)
    later = await gate.admit(request("u1"), also)
    assert later.is_duplicate and later.admission.status is AdmissionStatus.STARTED
    assert ran == [first.admission.id]
    assert len(await bench.rows("SELECT 1 FROM admission")) == 1


@pytest.mark.req("R1")
async def test_repeats_that_race_are_one(bench: Bench, gate: Gate) -> None:
    answers = await asyncio.gather(*(gate.admit(request("u1")) for _ in range(20)))
    assert sum(not a.is_duplicate for a in answers) == 1
    assert len({a.admission.id for a in answers}) == 1


@pytest.mark.req("R1")
async def test_the_same_key_with_other_content_is_refused_and_audited(bench: Bench, gate: Gate) -> None:
    await gate.admit(request("u1"))
    with pytest.raises(Refused, match="u1"):
        await gate.admit(request("u1", payload={"text": "stop"}))
    assert await bench.kinds(OperationLane.P1) == ["admission.queued", "audit.admission_conflict"]
    assert len(await bench.rows("SELECT 1 FROM admission")) == 1


@pytest.mark.req("R1")
async def test_what_goes_with_an_admission_stands_or_falls_with_it(bench: Bench, gate: Gate) -> None:
    def also(tx: Transaction, admission: Admission) -> None:
        operations.append(tx, bench.clock, OperationLane.P0, "alarm.raised", admission.id, {})
        raise Refused("no such alarm")

    with pytest.raises(Refused):
        await gate.admit(request("u1"), also)
    assert await bench.rows("SELECT 1 FROM admission UNION ALL SELECT 1 FROM operation") == []


@pytest.mark.req("R1", "R9")
async def test_a_full_queue_says_so_knows_repeats_and_keeps_room_for_alarms(bench: Bench) -> None:
    gate = Gate(bench.database, bench.clock, bench.ids, limit=2)
    for key in ("u1", "u2"):
        await gate.admit(request(key))
    with pytest.raises(Unavailable) as full:
        await gate.admit(request("u3"))
    assert full.value.retry_after_s > 0
    assert (await gate.admit(request("u1"))).is_duplicate
    for key in ("a1", "a2"):
        await gate.admit(request(key, priority=PRIORITY_ALARM, kind=RequestKind.ALARM))
    with pytest.raises(Unavailable):
        await gate.admit(request("a3", priority=PRIORITY_ALARM))
    assert [row["dedupe_key"] for row in await bench.rows("SELECT dedupe_key FROM admission ORDER BY seq")] == [
        "u1",
        "u2",
        "a1",
        "a2",
    ]


@pytest.mark.req("R1")
@pytest.mark.field("FC-R01")
async def test_five_in_a_row_are_five_in_order(gate: Gate, queue: AdmissionQueue, bench: Bench) -> None:
    for number in range(5):
        await gate.admit(request(f"u{number}"))
    order = []
    for _ in range(5):
        admission = await queue.next(NOBODY)
        order.append(admission.dedupe_key)
        await settle(bench, admission)
    assert order == ["u0", "u1", "u2", "u3", "u4"]
    assert await queue.look(NOBODY) is None


@pytest.mark.req("R1", "C3")
async def test_the_most_urgent_lane_goes_first_and_keeps_its_order(bench: Bench, queue: AdmissionQueue) -> None:
    await given_admission(bench, "talk", lane="speaker", priority=6)
    await given_admission(bench, "old news", lane="asset:a", priority=5)
    await given_admission(bench, "alarm", lane="asset:a", priority=9)
    assert (await queue.next(NOBODY)).dedupe_key == "old news"  # its lane holds an alarm, which comes second there
    assert (await queue.next({"asset:a"})).dedupe_key == "talk"
    assert await queue.look({"asset:a", "speaker"}) is None


@pytest.mark.req("R2")
async def test_interrupted_work_goes_on_before_what_came_after_it(bench: Bench, queue: AdmissionQueue) -> None:
    await given_admission(bench, "later", lane="speaker", priority=6)
    await given_admission(bench, "resume", lane="speaker", priority=8, kind=RequestKind.RESUME)
    assert (await queue.next(NOBODY)).dedupe_key == "resume"


@pytest.mark.req("R1")
@pytest.mark.field("FC-R02")
async def test_a_lane_never_runs_two(bench: Bench, queue: AdmissionQueue) -> None:
    first = await given_admission(bench, "u1", lane="a")
    second = await given_admission(bench, "u2", lane="a")
    await start(bench, first)
    assert await queue.look(NOBODY) is None
    with pytest.raises(Refused, match="busy"):
        await start(bench, second)
    with pytest.raises(Refused, match="started"):
        await start(bench, first)
    await settle(bench, first)
    assert (await queue.next(NOBODY)).id == second.id


@pytest.mark.req("R1")
async def test_the_queue_wakes_without_polling(bench: Bench, queue: AdmissionQueue) -> None:
    gate = Gate(bench.database, bench.clock, bench.ids, notify=queue.wake)
    taker = asyncio.create_task(queue.next(NOBODY))
    await queue.look(NOBODY)
    assert not taker.done()
    admitted = await gate.admit(request("u1"))
    assert (await asyncio.wait_for(taker, 20)).id == admitted.admission.id


@pytest.mark.req("R1")
async def test_an_empty_queue_is_looked_at_once_a_wake(bench: Bench) -> None:
    looks: list[int] = []

    class Watched(AdmissionQueue):
        async def look(
            self, busy_lanes: Set[str], holds_alarms: bool = False, *, interjections: bool = False
        ) -> Admission | None:
            looks.append(1)
            return await super().look(busy_lanes, holds_alarms, interjections=interjections)

    queue = Watched(bench.database, bench.clock)
    taker = asyncio.create_task(queue.next(NOBODY))
    for wakes in range(1, 4):
        for _ in range(5):  # each reading lets a loop that does not wait go round
            await bench.database.fetch("SELECT 1")
        assert len(looks) == wakes
        queue.wake()
    taker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taker


async def test_the_queue_is_read_by_its_index(bench: Bench) -> None:
    plan = await bench.rows(f"EXPLAIN QUERY PLAN {admissions.NEXT}", "[]", "", False, "boot-1", 5, 1, PRIORITY_ALARM, 11)
    scans = [row["detail"] for row in plan if row["detail"].startswith("SCAN admission") and "INDEX" not in row["detail"]]
    assert scans == []


LATTICE = [AdmissionStatus.QUEUED, AdmissionStatus.STARTED, AdmissionStatus.UNKNOWN, AdmissionStatus.TERMINAL]


@pytest.mark.req("R1", "R2")
@settings(max_examples=30, deadline=None)
@given(moves=st.lists(st.sampled_from(["start", "doubt", "settle", "raw"]), max_size=8), data=st.data())
def test_a_status_never_goes_back(tmp_path_factory: pytest.TempPathFactory, moves: list[str], data: st.DataObject) -> None:
    """Any sequence of moves, even raw SQL, only ever climbs the lattice, and an outcome never changes."""

    async def move(bench: Bench, database: Database, admission: Admission, what: str) -> None:
        if what == "start":
            await start(bench, admission)
        elif what == "doubt":
            await database.transaction(lambda tx: admissions.doubt(tx, bench.clock, admission.id))
        elif what == "settle":
            outcome = data.draw(st.sampled_from(list(Outcome)))
            await database.transaction(lambda tx: admissions.settle(tx, bench.clock, admission.id, outcome))
        else:
            status = data.draw(st.sampled_from(LATTICE))
            ended = data.draw(st.sampled_from([None, *Outcome]))
            await database.transaction(
                lambda tx: tx.execute("UPDATE admission SET status = ?, outcome = ?", (status, ended)) and None
            )

    async def scenario(folder: Path) -> None:
        async with open_bench(folder) as bench:
            admission = await given_admission(bench, "u1")
            reached, outcome = 0, None
            for what in moves:
                with contextlib.suppress(Refused, sqlite3.IntegrityError):
                    await move(bench, bench.database, admission, what)
                row = await bench.one("SELECT status, outcome FROM admission")
                now = LATTICE.index(AdmissionStatus(row["status"]))
                assert now >= reached
                assert outcome is None or row["outcome"] == outcome
                reached, outcome = now, row["outcome"]

    asyncio.run(scenario(tmp_path_factory.mktemp("lattice")))
