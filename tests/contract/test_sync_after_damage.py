"""A salvaged operation log meets a real coordinator: what can go on goes on, and what cannot is a fork with a name."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from appliance.contracts.errors import Corrupt
from appliance.contracts.operation import OperationLane
from appliance.foundation.system_clock import SystemClock
from appliance.store import damage, operations, salvage
from appliance.store.columns import to_json
from tests.support.clock import ManualClock
from tests.support.coordinator import CoordinatorProcess, appliance_side, arrived, eventually, running_coordinator
from tests.support.ledger import open_bench
from tests.support.old_ledger import PAGE, spoil

P2 = OperationLane.P2


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    with running_coordinator(tmp_path_factory.mktemp("coordinator")) as running:
        yield running


async def write(folder: Path, device: str, first: int, count: int) -> None:
    """Write to lane P2 while nobody syncs."""
    async with open_bench(folder, clock=ManualClock(), origin=device) as bench:
        for number in range(first, first + count):
            await bench.database.transaction(
                lambda tx, number=number: operations.append(
                    tx, bench.clock, P2, "test.noted", f"thing-{number:04d}", {"number": number, "text": "x" * 300}
                )
            )


async def sync(coordinator: CoordinatorProcess, token: str, folder: Path, device: str, until: int) -> None:
    """Run until the coordinator holds so many entries of P2."""
    async with appliance_side(folder, coordinator.url, token, device=device) as side:
        await eventually(lambda: len([row for row in arrived(coordinator, device) if row["lane"] == "P2"]) >= until)
        assert await side.uplink.drain(20)


def lose(folder: Path, device: str, entity: str) -> dict[str, object]:
    """Spoil the page that holds an entry, salvage, and return what is said of the lane."""
    path = folder / "ledger.db"
    content = path.read_bytes()
    (page,) = {content.index(entity.encode()) // PAGE + 1}
    spoil(path, [page], 1)
    damage.suspect(path, "a test said so")
    salvage.mend(path, SystemClock(), device)
    with closing(sqlite3.connect(path)) as db:
        lanes: dict[str, dict[str, object]] = to_json(db.execute("SELECT account FROM salvage").fetchone()[0])["lanes"]
    return lanes["P2"]


def numbers(told: dict[str, object]) -> set[int]:
    ranges = told["lost"]
    assert isinstance(ranges, list)
    return {seq for first, last in ranges for seq in range(first, last + 1)}


@pytest.mark.req("Y1")
async def test_entries_lost_before_they_were_sent_are_named_at_the_coordinator_and_the_rest_arrives(
    coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    token = coordinator.enrol("lost-pending")
    await write(tmp_path, "lost-pending", 1, 100)
    await sync(coordinator, token, tmp_path, "lost-pending", 100)
    await write(tmp_path, "lost-pending", 101, 100)
    told = lose(tmp_path, "lost-pending", "thing-0150")
    lost = numbers(told)
    assert 150 in lost and min(lost) > 100 and told["rechained_from"] == min(lost)
    await sync(coordinator, token, tmp_path, "lost-pending", 200)
    held = {row["seq"]: row for row in arrived(coordinator, "lost-pending") if row["lane"] == "P2"}
    assert sorted(held) == list(range(1, 201))
    for seq, row in held.items():
        expected = ("audit.operation_lost", "P2") if seq in lost else ("test.noted", f"thing-{seq:04d}")
        assert (row["kind"], row["entity"]) == expected


@pytest.mark.req("Y1", "X7")
async def test_entries_lost_after_they_were_sent_stop_nothing_and_the_log_does_not_pass_as_whole(
    coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    token = coordinator.enrol("lost-sent")
    await write(tmp_path, "lost-sent", 1, 100)
    await sync(coordinator, token, tmp_path, "lost-sent", 100)
    told = lose(tmp_path, "lost-sent", "thing-0050")
    assert 50 in numbers(told) and told["rechained_from"] is None
    await write(tmp_path, "lost-sent", 101, 10)
    await sync(coordinator, token, tmp_path, "lost-sent", 110)
    assert len([row for row in arrived(coordinator, "lost-sent") if row["lane"] == "P2"]) == 110
    async with open_bench(tmp_path, clock=ManualClock(), origin="lost-sent") as bench:
        with pytest.raises(Corrupt, match="lane P2 is missing"):
            await bench.database.transaction(lambda tx: operations.verify_chain(tx, P2))


@pytest.mark.req("Y2")
async def test_entries_the_coordinator_had_after_all_are_a_fork_with_a_name(
    coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    token = coordinator.enrol("forked")
    first, other = tmp_path / "first", tmp_path / "other"
    await write(first, "forked", 1, 100)
    await sync(coordinator, token, first, "forked", 100)
    await write(first, "forked", 101, 100)
    shutil.copytree(first, other)
    await sync(coordinator, token, first, "forked", 200)  # the copy does not know that it was sent
    lose(other, "forked", "thing-0150")
    async with appliance_side(other, coordinator.url, token, device="forked") as side:
        await eventually(lambda: "another history of P2" in side.degraded.reasons.get("sync", ""))
        kept = await side.bench.rows("SELECT count(*) AS n FROM operation WHERE lane = 'P2'")
        assert kept == [{"n": 200}]
        named = "SELECT payload FROM operation WHERE kind = 'sync.forked' AND entity = 'P2'"

        async def is_named() -> bool:  # it is shown first
            return bool(await side.bench.rows(named))

        await eventually(is_named)
        entry = await side.bench.one(named)
    assert to_json(entry["payload"])["reason"] == "fork"
    assert len([row for row in arrived(coordinator, "forked") if row["lane"] == "P2"]) == 200
