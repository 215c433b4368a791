"""The audit log: append-only, walked in slices, and a broken chain is named wherever it is looked for."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.cli import exit_codes
from appliance.contracts.errors import Malformed
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.foundation.canonical import canonical_json
from appliance.foundation.hash_chain import chain_hash
from appliance.foundation.supervisor import Degraded
from appliance.health.audit_watch import AuditWatch
from appliance.settings import DATABASE_FILE
from appliance.store import audit, head_witness, operations
from appliance.store.audit_check import Walked, newest_slice, walk_slice
from appliance.store.lock import FileLock
from tests.support.command_line import Run, command_line
from tests.support.ledger import ORIGIN, Bench, open_bench
from tests.support.operating import serving_site
from tests.support.waiting import until

pytestmark = pytest.mark.req("X7")

P0, P1 = OperationLane.P0, OperationLane.P1
TRIGGERS = ("operation_append_only_u", "operation_append_only_d", "operation_head_never_back", "operation_head_stays")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


def has_write_ahead_log(ledger: Path) -> bool:
    return ledger.with_name(f"{ledger.name}-wal").exists()


async def write(bench: Bench, lane: OperationLane, count: int) -> None:
    def work(tx: Transaction) -> None:
        for number in range(count):
            operations.append(tx, bench.clock, lane, "thing.happened", f"th_{number}", {"number": number, "text": "zählt 三"})

    await bench.database.transaction(work)


async def tamper(bench: Bench, statement: str) -> None:
    """Change the file as somebody with a shell could."""

    def work(tx: Transaction) -> None:
        for trigger in TRIGGERS:
            tx.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        tx.execute(statement)

    await bench.database.transaction(work)


async def walk(bench: Bench, lane: OperationLane, slice_of: int) -> Walked:
    walked = Walked(lane, 0, 1)
    while not walked.is_over:
        walked = await walk_slice(bench.database, lane, walked.upto, slice_of)
    return walked


@pytest.mark.parametrize("slice_of", [1, 3, 4, 1000])
async def test_a_whole_log_verifies_in_slices_of_any_size(bench: Bench, slice_of: int) -> None:
    await write(bench, P0, 10)
    walked = await walk(bench, P0, slice_of)
    assert (walked.upto, walked.newest, walked.broken_seq) == (10, 10, None)
    assert await walk(bench, OperationLane.P4, slice_of) == Walked(OperationLane.P4, 0, 0)


DAMAGE = [
    ("UPDATE operation SET kind = 'thing.else' WHERE lane = 'P0' AND seq = 5", 5, "was altered"),
    ("UPDATE operation SET payload = '{\"number\":9}' WHERE lane = 'P0' AND seq = 1", 1, "was altered"),
    ("UPDATE operation SET payload = '{' WHERE lane = 'P0' AND seq = 6", 6, "cannot be read"),
    ("UPDATE operation SET payload = '[]' WHERE lane = 'P0' AND seq = 6", 6, "cannot be read"),
    ("UPDATE operation SET entity = CAST(x'ff' AS TEXT) WHERE lane = 'P0' AND seq = 6", 6, "cannot be read"),
    ("UPDATE operation SET clock_synced = 0 WHERE lane = 'P0' AND seq = 10", 10, "was altered"),
    ("UPDATE operation SET at_utc = '1970-01-01T00:00:00.000000+00:00' WHERE lane = 'P0' AND seq = 2", 2, "was altered"),
    ("UPDATE operation SET prev_hash = 'x' WHERE lane = 'P0' AND seq = 4", 4, "does not follow the one before it"),
    ("UPDATE operation SET hash = 'x' WHERE lane = 'P0' AND seq = 4", 4, "was altered"),
    ("UPDATE operation SET seq = 12 WHERE lane = 'P0' AND seq = 7", 11, "is there, and the lane's head does not know it"),
    ("DELETE FROM operation WHERE lane = 'P0' AND seq = 7", 7, "is missing"),
    ("DELETE FROM operation WHERE lane = 'P0' AND seq = 1", 1, "is missing"),
    ("DELETE FROM operation WHERE lane = 'P0' AND seq = 10", 10, "is missing"),
    ("DELETE FROM operation WHERE lane = 'P0'", 1, "is missing"),
    ("UPDATE operation_head SET hash = 'x' WHERE lane = 'P0'", 10, "is not the one the lane's head names"),
    ("UPDATE operation_head SET hash = '' WHERE lane = 'P0'", 10, "is not the one the lane's head names"),
    ("UPDATE operation_head SET seq = 9 WHERE lane = 'P0'", 10, "is there, and the lane's head does not know it"),
    ("UPDATE operation_head SET seq = 11 WHERE lane = 'P0'", 11, "is missing"),
    ("DELETE FROM operation_head WHERE lane = 'P0'", 1, "is there, and the lane's head does not know it"),
    ("UPDATE appliance SET origin = 'line-4'", 1, "was altered"),
]


@pytest.mark.parametrize("slice_of", [1, 3, 1000])
@pytest.mark.parametrize(("statement", "seq", "what"), DAMAGE)
async def test_what_is_missing_moved_or_altered_is_named(
    bench: Bench, statement: str, seq: int, what: str, slice_of: int
) -> None:
    await write(bench, P0, 10)
    await tamper(bench, statement)
    walked = await walk(bench, P0, slice_of)
    assert (walked.broken_seq, walked.what) == (seq, what)
    assert walked.is_over


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE operation SET kind = 'audit.nothing' WHERE kind = 'audit.door_opened'",
        "DELETE FROM operation",
        "UPDATE operation_head SET seq = seq - 1",
        "UPDATE operation_head SET hash = 'x'",
        "UPDATE operation_head SET lane = 'P3' WHERE lane = 'P1'",
        "DELETE FROM operation_head",
    ],
)
async def test_the_log_only_grows(bench: Bench, statement: str) -> None:
    await bench.database.transaction(lambda tx: audit.note(tx, bench.clock, "door_opened", "door", {"by": "anna"}))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        await bench.database.transaction(lambda tx: tx.execute(statement) and None)
    acknowledging = "UPDATE operation_head SET acknowledged_seq = 1 WHERE lane = 'P1'"
    await bench.database.transaction(lambda tx: tx.execute(acknowledging) and None)  # what sync does is no change of the log


async def test_a_walk_beside_a_busy_writer_finds_nothing_wrong(bench: Bench) -> None:
    await write(bench, P1, 300)
    writing = asyncio.create_task(_go_on_writing(bench))
    try:
        for _ in range(3):
            walked = await walk(bench, P1, 50)
            assert (walked.broken_seq, walked.upto) == (None, walked.newest)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    assert (await walk(bench, P1, 1000)).newest > 300


async def _go_on_writing(bench: Bench) -> None:
    while True:
        await write(bench, P1, 3)


async def test_a_walk_that_begins_beyond_the_end_is_malformed(bench: Bench) -> None:
    await write(bench, P0, 2)
    with pytest.raises(Malformed, match="no entry 3"):
        await walk_slice(bench.database, P0, 3)


async def test_a_start_looks_at_the_newest_part_first_and_then_at_everything(bench: Bench) -> None:
    await write(bench, P0, 40)
    await tamper(bench, "UPDATE operation SET kind = 'x' WHERE lane = 'P0' AND seq = 3")
    assert (await newest_slice(bench.database, P0, 10)).broken_seq is None
    degraded = Degraded()
    watch = AuditWatch(bench.database, degraded, pause_s=0.0)
    task = asyncio.create_task(watch.run())
    try:
        await until(lambda: degraded.reasons, "the break is shown")
        assert degraded.reasons == {"audit": "entry 3 of lane P0 was altered"}
        assert watch.facts()["broken"] == [{"lane": "P0", "seq": 3, "what": "was altered"}]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_a_salvage_lost_and_stated_is_told_apart_from_a_break(bench: Bench) -> None:
    await write(bench, P0, 10)
    hash_of_4 = (await bench.one("SELECT hash FROM operation WHERE lane = 'P0' AND seq = 4"))["hash"]
    await tamper(bench, "DELETE FROM operation WHERE lane = 'P0' AND seq = 4")

    def state(tx: Transaction) -> None:
        tx.execute("PRAGMA defer_foreign_keys = ON")
        columns = [row["name"] for row in tx.execute("PRAGMA table_info(salvage)")]
        tx.execute(f"INSERT INTO salvage ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", _salvage(tx, columns))
        tx.execute("INSERT INTO operation_lost VALUES ('P0', 4, 1, 'lost', ?)", (hash_of_4,))

    await bench.database.transaction(state)
    for slice_of in (1, 3, 4, 1000):
        walked = Walked(P0, 0, 1)
        lost = 0
        while not walked.is_over:
            walked = await walk_slice(bench.database, P0, walked.upto, slice_of)
            lost += walked.lost
        assert (walked.broken_seq, walked.upto, lost) == (None, 10, 1)
    await bench.database.transaction(lambda tx: tx.execute("UPDATE operation_lost SET hash = 'x'") and None)
    assert (await walk(bench, P0, 1000)).what == "does not follow the one before it"


def _salvage(tx: Transaction, columns: list[str]) -> list[object]:
    """A row of ``salvage`` with something in every column."""
    kinds = {row["name"]: row["type"] for row in tx.execute("PRAGMA table_info(salvage)")}
    nullable = {row["name"] for row in tx.execute("PRAGMA table_info(salvage)") if not row["notnull"] and not row["pk"]}
    return [None if name in nullable else 1 if kinds[name] == "INTEGER" else "{}" for name in columns]


# the witness --------------------------------------------------------------------------------------------------------
CUT = (
    "DELETE FROM operation WHERE lane = 'P0' AND seq > 5",
    "UPDATE operation_head SET seq = 5, hash = (SELECT hash FROM operation WHERE lane = 'P0' AND seq = 5) WHERE lane = 'P0'",
)


async def cut_off(bench: Bench) -> None:
    """What somebody with root and a shell can do: the newest entries are gone, and the head says so."""
    for statement in CUT:
        await tamper(bench, statement)


@pytest.mark.parametrize("goes_on", [False, True])
async def test_newest_entries_that_were_cut_off_with_their_head_are_named(bench: Bench, goes_on: bool) -> None:
    path = bench.database.path
    await write(bench, P0, 10)
    assert await head_witness.keep(bench.database, path)
    assert head_witness.read(path)[P0][0] == 10
    await cut_off(bench)
    expected = (6, "is missing: the lane had reached entry 10")
    if goes_on:
        await write(bench, P0, 7)
        expected = (10, "is not the one that was there when the witness was written")
    for slice_of in (1, 4, 1000):
        walked = Walked(P0, 0, 1)
        while not walked.is_over:
            walked = await walk_slice(bench.database, P0, walked.upto, slice_of, witnessed=head_witness.read(path))
        assert (walked.broken_seq, walked.what) == expected
    degraded = Degraded()
    watch = AuditWatch(bench.database, degraded, witnessed=lambda: head_witness.read(path), pause_s=0.0)
    task = asyncio.create_task(watch.run())
    await until(lambda: degraded.reasons, "it is shown")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not await head_witness.keep(bench.database, path), "evidence is not overwritten"
    assert head_witness.read(path)[P0][0] == 10
    head_witness.forget(path)  # a person took the ledger as it is
    assert await head_witness.keep(bench.database, path)
    assert (await walk_slice(bench.database, P0, 0, witnessed=head_witness.read(path))).broken_seq is None


async def test_a_lane_that_was_cut_off_whole_is_named(bench: Bench) -> None:
    await write(bench, P0, 3)
    await head_witness.keep(bench.database, bench.database.path)
    await tamper(bench, "DELETE FROM operation WHERE lane = 'P0'")
    await tamper(bench, "DELETE FROM operation_head WHERE lane = 'P0'")
    walked = await walk_slice(bench.database, P0, 0, witnessed=head_witness.read(bench.database.path))
    assert (walked.broken_seq, walked.what, walked.is_over) == (1, "is missing: the lane had reached entry 3", True)


async def test_a_head_behind_what_the_coordinator_has_acknowledged_is_named(bench: Bench) -> None:
    await write(bench, P0, 10)
    await bench.database.transaction(lambda tx: tx.execute("UPDATE operation_head SET acknowledged_seq = 9") and None)
    await cut_off(bench)
    walked = await walk(bench, P0, 1000)
    assert (walked.broken_seq, walked.what) == (6, "is missing: the lane had reached entry 9")


async def test_an_entry_that_a_salvage_lost_or_chained_anew_is_no_break_of_the_witness(bench: Bench) -> None:
    path = bench.database.path
    await write(bench, P0, 10)
    await write(bench, P1, 10)
    hashes = {row["lane"]: row["hash"] for row in await bench.rows("SELECT lane, hash FROM operation_head")}

    def state(tx: Transaction) -> None:
        tx.execute("PRAGMA defer_foreign_keys = ON")
        columns = [row["name"] for row in tx.execute("PRAGMA table_info(salvage)")]
        tx.execute(f"INSERT INTO salvage ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", _salvage(tx, columns))
        tx.execute("INSERT INTO operation_lost VALUES ('P1', 10, 1, 'lost', '')")
        tx.execute("INSERT INTO operation_lost VALUES ('P0', 10, 1, 'rechained', 'as it was')")

    await bench.database.transaction(state)
    was = {"P0": {"seq": 10, "hash": "as it was"}, "P1": {"seq": 10, "hash": hashes["P1"]}}
    path.with_name(f"{path.name}.heads").write_text(json.dumps(was), encoding="utf-8")
    for lane in (P0, P1):
        assert (await walk_slice(bench.database, lane, 0, witnessed=head_witness.read(path))).broken_seq is None
    assert await head_witness.keep(bench.database, path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"P0": 7}', '{"P9": {"seq": 1, "hash": "x"}}', '{"P0": {"seq": "x"}}'])
def test_a_witness_of_heads_that_cannot_be_read_is_no_alarm(tmp_path: Path, content: str) -> None:
    (tmp_path / "ledger.db.heads").write_text(content, encoding="utf-8")
    assert head_witness.read(tmp_path / "ledger.db") == {}


async def test_a_log_that_was_put_back_is_whole_again_once_all_of_it_was_verified(bench: Bench) -> None:
    await write(bench, P0, 10)
    degraded = Degraded()
    watch = AuditWatch(bench.database, degraded)
    await tamper(bench, "UPDATE operation SET kind = 'thing.else' WHERE lane = 'P0' AND seq = 5")
    assert (await watch.verify(P0, 0))["broken"]
    await tamper(bench, "UPDATE operation SET kind = 'thing.happened' WHERE lane = 'P0' AND seq = 5")
    await watch.verify(P0, 7)
    assert degraded.reasons == {"audit": "entry 5 of lane P0 was altered"}, "a part of it proves nothing"
    assert not (await watch.verify(P0, 0))["broken"]
    assert (degraded.reasons, watch.facts()["broken"]) == ({}, [])


# the commands ---------------------------------------------------------------------------------------------------------


async def test_a_person_verifies_a_running_appliance_and_one_that_does_not_run(tmp_path: Path, run: Run) -> None:
    async with serving_site(tmp_path) as site:
        await write(site.bench, P0, 2500)
        await site.bench.database.transaction(lambda tx: audit.note(tx, site.bench.clock, "door_opened", "d", {"by": "anna"}))
        code, out, err = await run("audit", "verify")
        assert (code, out, err) == (0, "2501 entries verified: the log is whole\n", "")
        code, out, _ = await run("audit", "verify", "--json")
        assert (code, json.loads(out)["verified"]["P0"]) == (0, 2500)
        code, out, _ = await run("audit", "list")
        assert (code, "audit.door_opened" in out, "anna" in out) == (0, True, True)
        code, out, _ = await run("audit", "list", "--json", "--limit", "1")
        assert json.loads(out)[0]["payload"] == {"by": "anna"}

        await tamper(site.bench, "UPDATE operation SET entity = 'x' WHERE lane = 'P0' AND seq = 2200")
        code, out, _ = await run("audit", "verify")
        assert (code, "BROKEN: entry 2200 of lane P0 was altered" in out) == (exit_codes.PROBLEM, True)
        assert site.degraded.reasons == {"audit": "entry 2200 of lane P0 was altered"}  # found by a person, shown to everybody
        code, out, _ = await run("audit", "verify", "--json")
        told = json.loads(out)
        assert (code, told["ok"], told["broken"]) == (1, False, [{"lane": "P0", "seq": 2200, "what": "was altered"}])
    code, _, err = await run("audit", "verify")
    assert (code, "no service answers" in err) == (exit_codes.NOT_REACHABLE, True)


async def test_a_stopped_appliance_is_only_read(tmp_path: Path, run: Run) -> None:
    async with open_bench(tmp_path) as bench:
        await write(bench, P0, 1200)
        await write(bench, P1, 3)
    ledger = tmp_path / DATABASE_FILE
    (tmp_path / "ledger.db").rename(ledger)
    before = ledger.read_bytes()
    code, out, _ = await run("audit", "verify", "--data", str(tmp_path))
    assert (code, out) == (0, "1203 entries verified: the log is whole\n")
    assert (ledger.read_bytes(), has_write_ahead_log(ledger)) == (before, False)
    lock = FileLock(ledger)
    try:
        code, _, err = await run("audit", "verify", "--data", str(tmp_path))
        assert (code, "belongs to process" in err) == (exit_codes.PROBLEM, True)
    finally:
        lock.release()
    with sqlite3.connect(ledger) as shell:
        shell.execute("DROP TRIGGER operation_append_only_d")
        shell.execute("DELETE FROM operation WHERE lane = 'P1' AND seq = 2")
    shell.close()
    code, out, _ = await run("audit", "verify", "--data", str(tmp_path), "--json")
    assert (code, json.loads(out)["broken"]) == (1, [{"lane": "P1", "seq": 2, "what": "is missing"}])
    code, _, err = await run("audit", "verify", "--data", str(tmp_path / "nowhere"))
    assert (code, "there is no ledger" in err) == (exit_codes.PROBLEM, True)


async def test_a_hundred_thousand_entries_are_verified_in_seconds(bench: Bench) -> None:
    count, at = 100_000, "2026-03-02T08:00:00.000000+00:00"

    def fill(tx: Transaction) -> None:
        prev_hash, rows = "", []
        for seq in range(1, count + 1):
            payload = {"id": f"delivery_{seq}", "status": "delivered"}
            hashed = chain_hash(
                origin=ORIGIN, lane=P1, seq=seq, kind="delivery.delivered", entity=f"d_{seq}", payload=payload, at_utc=at,
                clock_synced=True, prev_hash=prev_hash,
            )  # fmt: skip
            rows.append(("P1", seq, "delivery.delivered", f"d_{seq}", canonical_json(payload), at, 1, prev_hash, hashed))
            prev_hash = hashed
        tx.executemany("INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        tx.execute("INSERT INTO operation_head VALUES ('P1', ?, ?, 0)", (count, prev_hash))

    await bench.database.transaction(fill)
    began_s = time.process_time()
    walked = await walk(bench, P1, 1000)
    assert (walked.upto, walked.broken_seq) == (count, None)
    assert time.process_time() - began_s < 15
