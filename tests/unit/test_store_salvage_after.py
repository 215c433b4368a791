"""What a loss means afterwards: on hold until a person says otherwise, no number twice, and the loss told in figures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.hold import HoldSource
from appliance.foundation.system_clock import SystemClock
from appliance.holding import Holding
from appliance.store import damage, deliveries, holds, identities, operations, owners, salvage, salvages, witness
from appliance.store.database import Database
from tests.support.ledger import ORIGIN, open_bench
from tests.support.old_ledger import root_of, spoil
from tests.support.operating import holding_of
from tests.support.small_disk import small_disk

CLOCK = SystemClock()


def mend(path: Path) -> None:
    damage.suspect(path, "a test said so")
    salvage.mend(path, CLOCK, ORIGIN)


@pytest.mark.req("R10")
async def test_a_hold_on_a_lost_page_is_taken_up_by_the_appliance_itself_until_a_person_releases(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await holding_of(bench).hold("hands in the machine", "anna")
        path, ids = bench.database.path, bench.ids
    spoil(path, [root_of(path, "hold")], 5)
    mend(path)
    async with open_bench(tmp_path, ids=ids) as bench:
        holding: Holding = holding_of(bench)
        await holding.load()
        with pytest.raises(Refused, match="on hold by floorhand: my records were damaged"):
            await bench.database.transaction(holds.require_none)
        (row,) = await bench.rows("SELECT payload FROM delivery WHERE channel = 'mqtt' ORDER BY seq DESC LIMIT 1")
        told = dict(deliveries.to_json_or_none(row["payload"]) or {})
        assert told["on_hold"] and [hold["by"] for hold in told["holds"]] == [holds.ITSELF]
        with pytest.raises(Refused):
            await holding.release("anna")  # it is not hers: she says whose
        assert not (await holding.release("anna", of=holds.ITSELF))["on_hold"]


@pytest.mark.req("R10")
@pytest.mark.parametrize("is_lost", [True, False])
async def test_only_a_loss_that_may_have_cost_a_hold_holds(tmp_path: Path, is_lost: bool) -> None:
    async with open_bench(tmp_path) as bench:
        path = bench.database.path
    if is_lost:
        path.write_text("gone" * 2000)
    mend(path)
    async with open_bench(tmp_path) as bench:
        in_force = await bench.database.transaction(holds.in_force)
    assert [(hold.source, hold.by) for hold in in_force] == ([(HoldSource.PERSON, holds.ITSELF)] if is_lost else [])


@pytest.mark.field("FC-D03", "FC-D04")
@pytest.mark.parametrize("keeps_damaged_files", [True, False])
def test_no_number_is_given_out_twice_however_often_all_is_lost(tmp_path: Path, keeps_damaged_files: bool) -> None:
    path = tmp_path / "ledger.db"
    given: list[int] = []
    newest: dict[str, int] = {}

    async def life() -> None:
        database = await Database.open(path, CLOCK, prepare=lambda file: salvage.mend(file, CLOCK, ORIGIN))
        await database.transaction(lambda tx: operations.set_origin(tx, CLOCK, ORIGIN))
        await database.transaction(lambda tx: identities.compare(tx, CLOCK, "", witness.read(path)))
        for _ in range(3):
            given.append((await database.transaction(lambda tx: owners.take_ownership(tx, CLOCK, "core"))).epoch)
        witness.write(path, given[-1])
        assert await database.fetch(identities.OPEN) == []  # a loss is no sign of a copy
        for name, seq in await database.fetch("SELECT name, seq FROM sqlite_sequence"):
            assert seq >= newest.get(name, 0), name
            newest[name] = seq
        await database.close()

    for _ in range(4):
        asyncio.run(life())
        path.write_text("gone" * 2000)
        if not keeps_damaged_files:
            for aside in tmp_path.glob("*.damaged-*"):
                aside.unlink()
    assert given == sorted(set(given)) and len(given) == 12
    assert min(seq for name, seq in newest.items() if name != "owner") >= 3 * salvage.SEQUENCE_LEAP


def test_a_loss_is_told_in_figures_and_lost_commits_are_no_nothing() -> None:
    account = {
        "tables": {
            "action": {"before": 40, "after": 31},
            "turn": {"before": None, "after": 3, "at_most": 50},
            "lease": {"before": None, "after": 0},
        },
        "lost_commits": 8,
        "unplaced_pages": 2,
    }
    assert salvages.losses(account) == [
        "action (40 before, 31 now)",
        "lease (unknown before, 0 now)",
        "turn (at most 50 before, 3 now)",
        "the last 8 commits, whatever was in them",
        "2 pages of rows, of whichever table",
    ]
    assert salvages.losses({"tables": {}, "lost_commits": 0, "unplaced_pages": 0}) == []


@pytest.mark.field("FC-D01", "FC-D02")
async def test_on_a_full_disk_what_is_saved_takes_the_room_that_was_kept(tmp_path: Path) -> None:
    with small_disk(tmp_path / "card", 24 * 1024 * 1024) as disk:
        path = disk.folder / "ledger.db"
        reserve = path.with_name(f"{path.name}.reserve")
        database = await Database.open(path, CLOCK, reserve_bytes=8 * 1024 * 1024)
        await database.transaction(lambda tx: operations.set_origin(tx, CLOCK, ORIGIN))
        await database.transaction(lambda tx: owners.take_ownership(tx, CLOCK, "core"))
        await database.close()
        assert reserve.exists()
        spoil(path, [root_of(path, "turn")], 5)
        damage.suspect(path, "a test said so")
        disk.fill()
        assert disk.free_bytes == 0
        database = await Database.open(
            path, CLOCK, reserve_bytes=8 * 1024 * 1024, prepare=lambda file: salvage.mend(file, CLOCK, ORIGIN)
        )
        assert not reserve.exists() and "kept for alarms" in database.refuses_talk()
        await database.transaction(lambda tx: owners.take_ownership(tx, CLOCK, "core"))
        await database.close()
