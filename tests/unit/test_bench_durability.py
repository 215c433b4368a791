"""What the benches of the ledger and of sessions are made of; no peer is needed here."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from bench.contestant import Taken, contestant, made
from bench.deadly_effect import DEADLY, STEPS, happen, happened
from bench.durable_core import durable_core
from bench.figures import Findings
from bench.ledger_ours import Rounds
from bench.ledger_steps import entries, note
from bench.machine import describe_versions
from bench.servers import CannotMeasure
from bench.session_yard import measure
from bench.statement_record import RecordingLedger, Replay, renamed
from tests.support.ledger import Bench, open_bench

ROWS = ("SELECT state, result FROM action ORDER BY rowid", "SELECT tool, arguments, status, result FROM effect ORDER BY seq")


async def _written(core: Any, since: int) -> dict[str, list[tuple[Any, ...]]]:
    """What steps left behind: the states of actions, the effects, and the kinds and payloads of their operations."""
    found = {sql: [tuple(row) for row in await core.database.fetch(sql)][since:] for sql in ROWS}
    sql = "SELECT kind, length(payload), length(hash) FROM operation WHERE kind LIKE 'effect.%' ORDER BY lane, seq"
    found["operations"] = [tuple(row) for row in await core.database.fetch(sql)][2 * since :]
    return found


async def test_a_replay_writes_what_the_runner_writes_with_as_many_bytes(tmp_path: Path) -> None:
    async with durable_core(tmp_path) as core:
        rounds = Rounds(core)
        ran = await rounds.take("runner", 1, 3)
        by_runner = await _written(core, 0)
        replayed = await rounds.take("replay", 1, 3)  # the turn it is recorded from comes first
        both = await _written(core, 3)
    assert (ran.steps, replayed.steps) == (3, 3)
    assert len(ran.steps_ms) == 3 and ran.took_s > 0
    again = {name: rows[3:] if name != "operations" else rows[6:] for name, rows in both.items()}
    assert by_runner[ROWS[0]] == again[ROWS[0]] and {state for state, _ in again[ROWS[0]]} == {"done"}
    assert by_runner[ROWS[1]] == again[ROWS[1]] and len(again[ROWS[1]]) == 3
    assert sorted(by_runner["operations"]) == sorted(again["operations"]) and len(again["operations"]) == 6


async def test_a_replay_leaves_the_log_of_the_runner_whole(tmp_path: Path) -> None:
    async with durable_core(tmp_path) as core:
        rounds = Rounds(core)
        for kind in ("replay", "replay_writes", "runner"):
            await rounds.take(kind, 2, 2)
        assert await core.database.transaction(lambda tx: operations.verify_chain(tx, OperationLane.P1)) > 0
        (left,) = await core.database.fetch("SELECT count(*) FROM admission WHERE status <> 'terminal'")
    assert left[0] == 0


async def test_writers_append_as_many_records_as_they_are_told(tmp_path: Path) -> None:
    async with durable_core(tmp_path) as core:
        taken = await Rounds(core).take("writers", 5, 4)
        (count,) = await core.database.fetch("SELECT count(*) FROM operation WHERE kind = 'bench.noted'")
    assert (taken.steps, len(taken.steps_ms), count[0]) == (20, 20, 20)


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    async with open_bench(tmp_path) as opened:
        yield opened


async def test_a_record_keeps_statements_by_transaction_and_knows_writes_from_reads(bench: Bench) -> None:
    recording = RecordingLedger(bench.database)

    def work(tx: Transaction) -> str:
        tx.execute("SELECT 1").fetchone()
        operations.append(tx, bench.clock, OperationLane.P2, "thing.happened", "th_1", {})
        return "kept"

    assert await recording.transaction(work) == "kept"
    await recording.transaction(lambda tx: tx.execute("SELECT 2") and None)
    assert (await recording.fetch("SELECT 3"))[0][0] == 3
    (written,) = recording.script(only_writes=True)
    assert [sql.split(" (")[0] for sql, _ in written] == ["INSERT INTO operation", "INSERT INTO operation_head"]
    assert [len(statements) for statements in recording.script()] == [4, 1]


def test_ids_are_renamed_wherever_they_occur() -> None:
    script = ((("INSERT", ("tr_1", 7, '{"turn":"tr_1","action":"ac_1"}', None)),),)
    assert renamed(script, {"tr_1": "tr_9", "ac_1": "ac_8"}) == (
        (("INSERT", ("tr_9", 7, '{"turn":"tr_9","action":"ac_8"}', None)),),
    )


async def test_replayed_operations_get_numbers_of_their_own(bench: Bench) -> None:
    replay = Replay()
    insert = (
        f"INSERT INTO operation (lane, seq, kind, entity, payload, at_utc, clock_synced, prev_hash, hash) VALUES ({'?,' * 8}?)"
    )
    statement = (insert, (OperationLane.P1, 41, "k", "e", "{}", "t", True, "p", "h"))
    await bench.database.transaction(replay.prepare)
    for _ in range(3):
        await bench.database.transaction(replay.work([statement]))
    rows = await bench.rows("SELECT lane, seq, clock_synced FROM operation WHERE kind = 'k'")
    assert [(row["lane"], row["seq"], row["clock_synced"]) for row in rows] == [("P3", number, 1) for number in (1, 2, 3)]


def _line_up(rates: Mapping[str, list[float]]) -> Any:
    line_up = entries(is_quick=True)
    for name, entry in line_up.items():
        entry.rounds += [
            Taken(20, 20 / rate, [1000 / rate] * 20, 0.001, 0.002) for rate in rates.get(name, [100.0, 100.0, 100.0])
        ]
    return line_up


def test_ratios_are_of_rounds_that_were_taken_beside_each_other() -> None:
    findings = Findings()
    # The second round met a slow disk: that says nothing about who is faster.
    note(findings, _line_up({"ours_1": [200.0, 20.0, 300.0], "dbos_wal_1": [100.0, 10.0, 150.0], "ours_32": [50.0] * 3}))
    assert findings.figures["vs_dbos"] == 2.0
    assert findings.figures["steps_s_1"] == 200
    assert findings.figures["p99_ms_32"] == 20.0
    assert findings.to_json()["reaches"] == {"vs_dbos": True, "vs_raw_pair": False}
    assert findings.to_json()["reach_details"]["vs_raw_pair"] == {
        "value": 0.5, "at_least": 0.6, "says": "32 sessions at least 0.6 x the same transactions without the runtime",
    }  # fmt: skip


async def test_a_contestant_takes_rounds_in_a_process_of_its_own(tmp_path: Path) -> None:
    async with contestant("ledger_raw", made(tmp_path / "raw")) as raw:
        commits, groups = await raw.take("commits", 1, 5), await raw.take("groups", 4, 3)
    assert (commits.steps, len(commits.steps_ms)) == (5, 5)
    assert (groups.steps, len(groups.steps_ms)) == (12, 3)
    with sqlite3.connect(tmp_path / "raw" / "raw.sqlite") as db:
        assert db.execute("SELECT count(*) FROM step").fetchone()[0] == 17
    db.close()


async def test_a_contestant_that_cannot_start_is_named_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match=r"no_such_contestant does not start: .*No module named .*setup-bench installs dbos"):
        async with contestant("no_such_contestant", made(tmp_path / "x"), needs="dbos"):
            pass


def test_the_deadly_effect_kills_once(tmp_path: Path) -> None:
    (tmp_path / "killed").touch()
    for step in (*STEPS, DEADLY):
        happen(tmp_path, step)
    assert happened(tmp_path) == ["a", "b", "c", "b"]


def test_a_version_that_is_not_here_is_said_not_to_be() -> None:
    versions = describe_versions(["psutil", "no-such-package-of-anybody"])
    assert versions["no-such-package-of-anybody"] == "not installed" and versions["psutil"][0].isdigit()


@pytest.mark.req("S9")
async def test_open_sessions_are_small_are_not_lost_and_cross_threads_once_a_transaction(tmp_path: Path) -> None:
    found = await measure(tmp_path, 150, is_traced=False)
    assert found.unanswered == 0
    assert found.running_bytes / found.sessions < 100_000 and found.waiting_bytes / found.sessions < 100_000
    assert found.hops <= found.transactions + found.reads < found.statements / 5
