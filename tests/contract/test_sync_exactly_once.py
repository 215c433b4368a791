"""The operation log reaches a real coordinator whole and once, whatever is lost, cut or killed on the way."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from appliance.contracts.operation import OperationLane
from appliance.foundation.canonical import canonical_json
from appliance.store import uplink as log_table
from appliance.store import work_orders
from tests.support.clock import CountingIds, ManualClock
from tests.support.coordinator import (
    CoordinatorProcess,
    Network,
    Side,
    appliance_side,
    arrived,
    eventually,
    running_coordinator,
)

P0, P1, P2, P3, P4 = OperationLane


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    """One coordinator for the tests that leave it alone; each enrols a device of its own."""
    with running_coordinator(tmp_path_factory.mktemp("coordinator")) as coordinator:
        yield coordinator


async def all_is_there(side: Side, coordinator: CoordinatorProcess) -> None:
    """Drain, then compare both logs byte by byte; a work in progress may add entries meanwhile, so until they are equal."""

    async def same() -> bool:
        return await side.uplink.drain(30) and arrived(coordinator, side.device) == await side.log()

    await eventually(same, 30)


@pytest.mark.req("Y1", "Y2", "C10")
@pytest.mark.field("FC-Y01", "FC-Y02", "FC-Y04")
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_lossy_network_loses_and_doubles_nothing(shared: CoordinatorProcess, tmp_path: Path, seed: int) -> None:
    network = Network(lost_requests=0.25, lost_replies=0.25, seed=seed)
    coordinator = shared
    token = coordinator.enrol(f"lossy-{seed}")
    async with appliance_side(
        tmp_path, coordinator.url, token, device=f"lossy-{seed}", network=network, batch_operations=10
    ) as side:
        for lane in (P3, P0, P1, P2):
            await side.write(lane, 60)
        await all_is_there(side, coordinator)
        assert network.lost > 10, "the network was to lose something"
        assert await side.kinds("sync.rewound", "sync.forked") == [], "nothing was acknowledged that had not arrived"
        network.lost_requests = network.lost_replies = 0.0
        heads = await log_table.lane_heads(side.bench.database)
        assert all(head.pending == 0 for head in heads.values())


@pytest.mark.req("Y2", "C10")
@pytest.mark.field("FC-Y01", "FC-Y04")
async def test_coordinator_killed_between_batches_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    with running_coordinator(tmp_path) as coordinator:
        token = coordinator.enrol("line-3")
        async with appliance_side(tmp_path, coordinator.url, token, batch_operations=25) as side:
            for _ in range(2):
                pushed = len(side.network.pushes())
                await side.write(P2, 100)
                await eventually(partial(lambda before: len(side.network.pushes()) > before + 1, pushed))
                coordinator.kill()
                acknowledged = (await log_table.lane_heads(side.bench.database))[P2].acknowledged_seq
                assert len(coordinator.rows("SELECT seq FROM operation WHERE lane = 'P2'")) >= acknowledged
                await side.write(P2, 30)
                await asyncio.to_thread(coordinator.start)
                await all_is_there(side, coordinator)
            assert coordinator.admin("GET", "/v1/devices").status_code == 200, "the administrator's token outlives it"


@pytest.mark.req("Y2")
@pytest.mark.field("FC-Y09")
async def test_appliance_restarted_in_the_middle_goes_on_where_it_was(shared: CoordinatorProcess, tmp_path: Path) -> None:
    clock, ids = ManualClock(), CountingIds()
    coordinator = shared
    token = coordinator.enrol("restarted")
    for _ in range(3):
        network = Network(lost_replies=0.3)
        async with appliance_side(
            tmp_path, coordinator.url, token, device="restarted", clock=clock, ids=ids, network=network, batch_operations=10
        ) as side:
            await side.write(P1, 80)
            await eventually(partial(lambda net: len(net.pushes()) >= 3, network))
    async with appliance_side(tmp_path, coordinator.url, token, device="restarted", clock=clock, ids=ids) as side:
        await all_is_there(side, coordinator)


@pytest.mark.field("FC-Y09")
async def test_another_coordinator_in_the_settings_gets_the_whole_log(shared: CoordinatorProcess, tmp_path: Path) -> None:
    clock, ids = ManualClock(), CountingIds()
    async with appliance_side(tmp_path, shared.url, shared.enrol("moved"), device="moved", clock=clock, ids=ids) as side:
        await side.write(P2, 40)
        await all_is_there(side, shared)
        side.network.is_cut = True
        await side.write(P2, 40)
    with running_coordinator(tmp_path) as other:
        async with appliance_side(tmp_path, other.url, other.enrol("moved"), device="moved", clock=clock, ids=ids) as side:
            await all_is_there(side, other)
            assert "sync.rewound" in await side.bench.kinds(P1)


@pytest.mark.req("Y2")
async def test_coordinator_restored_from_an_older_backup_gets_the_rest_again(tmp_path: Path) -> None:
    with running_coordinator(tmp_path) as coordinator:
        token = coordinator.enrol("line-3")
        async with appliance_side(tmp_path, coordinator.url, token) as side:
            await side.write(P2, 30)
            await all_is_there(side, coordinator)
            coordinator.rows("VACUUM INTO ?", str(tmp_path / "backup.db"))
            await order(side, "wo_1")
            await eventually(lambda: numbered(side, "wo_1"))
            coordinator.stop()
            shutil.copy(tmp_path / "backup.db", coordinator.database)
            side.network.is_cut = True
            await asyncio.to_thread(coordinator.start)
            coordinator.admin("POST", "/v1/work-orders", json={"asset": "pump_1", "title": "takes the number"})
            side.network.is_cut = False
            await order(side, "wo_2")
            await eventually(lambda: numbered(side, "wo_2"))
            await all_is_there(side, coordinator)
            assert await side.kinds("sync.rewound") == ["sync.rewound"], "only P2 had gone on since the backup"

            async def numbers_agree() -> bool:
                ours = await side.bench.rows("SELECT id, number FROM work_order")
                wanted = {"wo_1": "WO-000002", "wo_2": "WO-000003"}
                return {row["id"]: row["number"] for row in ours} == wanted

            await eventually(numbers_agree)
            assert await side.kinds("work_order.renumbered") == ["work_order.renumbered"]


@pytest.mark.req("Y2")
@pytest.mark.field("FC-D04")
async def test_appliance_restored_from_an_older_backup_stops_that_lane_loudly(shared: CoordinatorProcess, tmp_path: Path) -> None:
    clock, ids = ManualClock(), CountingIds()
    coordinator = shared
    token = coordinator.enrol("cloned")
    async with appliance_side(tmp_path, coordinator.url, token, device="cloned", clock=clock, ids=ids) as side:
        await side.write(P2, 20)
        await all_is_there(side, coordinator)
    shutil.copytree(tmp_path, tmp_path / "card", ignore=shutil.ignore_patterns("coordinator*", "*.lock", "admin*"))
    async with appliance_side(tmp_path, coordinator.url, token, device="cloned", clock=clock, ids=ids) as side:
        await side.write(P2, 20)
        await all_is_there(side, coordinator)
    held = arrived(coordinator, "cloned")

    for _ in range(2):  # the second start knows the fork already
        async with appliance_side(tmp_path / "card", coordinator.url, token, device="cloned", clock=clock, ids=ids) as side:
            await side.write(P2, 5)
            await side.write(P0, 5)
            await eventually(partial(lambda s: "sync" in s.degraded.reasons, side))
            assert not await side.uplink.drain(20)
            assert "another history of P2" in side.degraded.reasons["sync"]
            assert await side.kinds("sync.forked") == ["sync.forked"]
            lanes = (await side.uplink.progress())["lanes"]
            assert lanes["P2"]["stopped"]
            assert lanes["P2"]["pending"] > 0
            assert lanes["P0"]["pending"] == 0, "other lanes go on"
            assert not [task for task in side.tasks if task.done()]
    assert [row for row in arrived(coordinator, "cloned") if row["lane"] == "P2"] == [row for row in held if row["lane"] == "P2"]


@pytest.mark.req("Y3", "C10")
@pytest.mark.field("FC-Y07")
async def test_an_alarm_overtakes_a_backlog_and_no_backlog_starves_another(shared: CoordinatorProcess, tmp_path: Path) -> None:
    network = Network()
    network.is_cut = True
    coordinator = shared
    token = coordinator.enrol("alarm")
    async with appliance_side(tmp_path, coordinator.url, token, device="alarm", network=network, batch_operations=10) as side:
        await side.write(P3, 150)
        await side.write(P1, 150)
        alarm_written_at = 0

        async def alarm(_: object) -> None:
            nonlocal alarm_written_at
            if len(network.pushes()) == 5 and not alarm_written_at:
                alarm_written_at = 5
                await side.write(P0, 1)

        network.before = alarm
        network.is_cut = False
        await all_is_there(side, coordinator)
        lanes = [push["lane"] for push in network.pushes()]
        assert lanes[alarm_written_at] == "P0", "the very next push carries the alarm"
        assert {"P1", "P3"} <= set(lanes[:20])


@pytest.mark.field("FC-Y06")
async def test_a_failed_push_is_tried_again_without_any_local_write(shared: CoordinatorProcess, tmp_path: Path) -> None:
    network = Network()
    coordinator = shared
    token = coordinator.enrol("retry")
    async with appliance_side(tmp_path, coordinator.url, token, device="retry", network=network) as side:
        await eventually(lambda: bool(network.seen))
        network.is_cut = True
        await side.write(P1, 1)
        await eventually(lambda: not side.availability.is_online)
        network.is_cut = False
        await eventually(lambda: side.availability.is_online)
        await eventually(lambda: bool(coordinator.rows("SELECT seq FROM operation WHERE device = 'retry'")))


@pytest.mark.req("Y2")
@pytest.mark.field("FC-Y03")
async def test_an_entry_that_cannot_be_acted_on_does_not_block_those_behind_it(
    shared: CoordinatorProcess, tmp_path: Path
) -> None:
    coordinator = shared
    token = coordinator.enrol("poison")
    async with appliance_side(tmp_path, coordinator.url, token, device="poison") as side:
        await side.write(P2, 1, "work_order.created", asset=7)
        await side.write(P2, 3)
        await all_is_there(side, coordinator)
        shown = coordinator.ask(token, "GET", "/v1/quarantine").json()["quarantine"]
        assert [(row["device"], row["lane"], row["seq"]) for row in shown] == [("poison", "P2", 1)]
        assert "asset" in shown[0]["reason"]


async def test_large_entries_go_in_several_pushes_and_a_huge_one_alone(shared: CoordinatorProcess, tmp_path: Path) -> None:
    coordinator = shared
    token = coordinator.enrol("large")
    async with appliance_side(tmp_path, coordinator.url, token, device="large") as side:
        await side.write(P2, 12, blob="ä" * 40_000)
        await side.write(P2, 1, blob="x" * 1_000_000)
        await side.write(P2, 1)
        await all_is_there(side, coordinator)
        sizes = [len(canonical_json(push).encode()) for push in side.network.pushes() if len(push["operations"]) > 1]
        assert sizes
        assert max(sizes) <= 256 * 1024


@pytest.mark.req("Y2")
async def test_an_entry_the_coordinator_cannot_read_stops_its_lane_only(shared: CoordinatorProcess, tmp_path: Path) -> None:
    coordinator = shared
    token = coordinator.enrol("unreadable")
    async with appliance_side(tmp_path, coordinator.url, token, device="unreadable") as side:
        await side.write(P2, 7)
        await side.write(P2, 1, "x" * 2_000)  # no kind is that long
        await side.write(P1, 3)
        await eventually(lambda: "sync" in side.degraded.reasons)
        assert not await side.uplink.drain(20)
        held = [(row["lane"], row["seq"]) for row in arrived(coordinator, "unreadable")]
        assert [seq for lane, seq in held if lane == "P2"] == list(range(1, 8)), "the good ones before it went through"
        assert [seq for lane, seq in held if lane == "P1"][:3] == [1, 2, 3]


async def order(side: Side, order_id: str) -> None:
    await side.bench.database.transaction(
        lambda tx: work_orders.create(
            tx, side.bench.clock, order_id=order_id, turn_id=None, asset="motor_3", title="Check the fan", detail=""
        )
    )
    side.uplink.notify()


async def numbered(side: Side, order_id: str) -> bool:
    rows = await side.bench.rows("SELECT number FROM work_order WHERE id = ?", order_id)
    return bool(rows and rows[0]["number"])
