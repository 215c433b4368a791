"""The bookkeeping of what waits to go: slices, acknowledgements, rewinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.contracts.operation import GENESIS_HASH, OperationLane
from appliance.foundation.supervisor import Degraded
from appliance.store import operations, uplink
from appliance.sync.reconciliation import Reconciliation
from tests.support.ledger import Bench, open_bench

P1, P2 = OperationLane.P1, OperationLane.P2


async def write(bench: Bench, lane: OperationLane, *texts: str) -> None:
    for text in texts:
        await bench.database.transaction(
            lambda tx, text=text: operations.append(tx, bench.clock, lane, "test.noted", "e", {"text": text})  # type: ignore[misc]
        )


@pytest.mark.req("Y1")
async def test_a_slice_is_contiguous_and_bounded_both_ways(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await write(bench, P2, *["ä" * 1_000] * 5, "x" * 50_000, "y")
        await write(bench, P1, "another lane")

        async def slice_after(after: int, operations: int, size_bytes: int) -> list[int]:
            found = await uplink.next_slice(bench.database, P2, after, operations=operations, size_bytes=size_bytes)
            assert all(entry.lane is P2 for entry in found)
            return [entry.seq for entry in found]

        assert await slice_after(0, 3, 1_000_000) == [1, 2, 3]
        assert await slice_after(0, 100, 5_500) == [1, 2], "two bytes a letter and the envelope count"
        assert await slice_after(4, 100, 30_000) == [5], "what does not fit waits for the next"
        assert await slice_after(5, 100, 30_000) == [6], "one that fits nowhere goes alone"
        assert await slice_after(6, 100, 30_000) == [7]
        assert await slice_after(7, 100, 30_000) == []


@pytest.mark.field("FC-Y02")
async def test_an_acknowledgement_never_goes_back_nor_beyond_what_was_written(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await write(bench, P2, *"abcde")

        async def acknowledged(seq: int) -> int:
            await bench.database.transaction(lambda tx: uplink.acknowledge(tx, P2, seq))
            return (await uplink.lane_heads(bench.database))[P2].acknowledged_seq

        assert [await acknowledged(seq) for seq in (3, 2, 9, 5)] == [3, 3, 3, 5]
        assert await uplink.oldest_pending_utc(bench.database) == {}


@pytest.mark.req("Y2")
async def test_a_rewind_hears_all_changes_again(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await write(bench, P2, *"abcde")
        await bench.database.transaction(lambda tx: uplink.acknowledge(tx, P2, 5))
        await bench.database.transaction(lambda tx: uplink.save_cursor(tx, 12))
        assert await uplink.cursor(bench.database) == 12
        await bench.database.transaction(lambda tx: uplink.rewind(tx, P2, 2))
        assert (await uplink.lane_heads(bench.database))[P2].pending == 3
        assert await uplink.cursor(bench.database) == 0
        assert set(await uplink.oldest_pending_utc(bench.database)) == {P2}


async def test_hashes_and_newest_entries_are_found(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await write(bench, P2, *"abc")
        (_, second, _) = await uplink.next_slice(bench.database, P2, 0, operations=9, size_bytes=9_999)
        assert await uplink.hash_at(bench.database, P2, 2) == second.hash
        assert await uplink.hash_at(bench.database, P2, 0) == GENESIS_HASH
        assert await uplink.hash_at(bench.database, P2, 4) is None
        newest = await uplink.newest_of(bench.database, P2, ("test.noted", "other"), "e")
        assert newest is not None
        assert newest.payload == {"text": "c"}
        assert await uplink.newest_of(bench.database, P2, ("other",), "e") is None


@pytest.mark.req("Y2", "R8")
@pytest.mark.field("FC-D04")
async def test_a_stopped_lane_is_named_until_the_coordinator_takes_it_indeed(tmp_path: Path) -> None:
    """That contact is lost mends nothing: nobody is told that it goes on, and a fork names its way on."""
    async with open_bench(tmp_path) as bench:
        await write(bench, P1, "a", "b")
        await write(bench, P2, "a")
        ours, degraded = await uplink.lane_heads(bench.database), Degraded()
        reconciliation = Reconciliation(bench.database, bench.clock, degraded)
        await reconciliation.stop(P2, "malformed", "an entry is not understood", ours[P2])
        reconciliation.forgive()
        assert reconciliation.stopped == {}  # it is tried again
        assert degraded.reasons == {"sync": "P2 is stopped: an entry is not understood"}
        await reconciliation.compare({"P1": (2, "f" * 64)})
        why = degraded.reasons["sync"]
        assert "P1 is stopped: the coordinator holds another history of P1 up to 2" in why and "P2 is stopped" in why
        assert "a new ledger under a new name" in why and "docs/operations.md" in why
        reconciliation.forgive()
        assert set(reconciliation.stopped) == {P1}
        reconciliation.goes_on(P2)
        assert "P2 is stopped" not in degraded.reasons["sync"]
        await reconciliation.compare({})
        assert degraded.reasons == {}
