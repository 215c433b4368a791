"""Changes and their cursor: together or not at all, and nothing unknown blocks the feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import FloorhandError
from appliance.contracts.operation import OperationLane
from appliance.coordination.availability import Availability
from appliance.foundation.supervisor import Degraded
from appliance.store import uplink, work_orders
from appliance.sync.downlink import Downlink
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.settings import SyncSettings
from tests.support.ledger import Bench, open_bench


def downlink_of(bench: Bench) -> Downlink:
    settings = SyncSettings(coordinator="http://127.0.0.1:1", device="line-3", token="t")
    availability = Availability(bench.database, bench.clock, Degraded())
    return Downlink(bench.database, HttpCoordinator(settings), bench.clock, settings, availability)


async def with_order(bench: Bench, order_id: str) -> None:
    await bench.database.transaction(
        lambda tx: work_orders.create(tx, bench.clock, order_id=order_id, turn_id=None, asset="motor_3", title="Check", detail="")
    )


def numbered(position: int, order_id: str, number: str) -> Mapping[str, Any]:
    return {"position": position, "kind": "work_order.numbered", "payload": {"id": order_id, "number": number}}


async def orders(bench: Bench) -> dict[str, str | None]:
    return {row["id"]: row["number"] for row in await bench.rows("SELECT id, number FROM work_order")}


@pytest.mark.field("FC-Y05")
async def test_a_batch_that_breaks_leaves_neither_rows_nor_cursor(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await with_order(bench, "wo_1")
        broken: Sequence[Mapping[str, Any]] = [numbered(1, "wo_1", "WO-000001"), {"position": 2}]
        with pytest.raises(KeyError):
            await downlink_of(bench).apply(broken, 2)
        assert await orders(bench) == {"wo_1": None}
        assert await uplink.cursor(bench.database) == 0


@pytest.mark.field("FC-Y05")
async def test_changes_pulled_before_the_cursor_moved_are_left_alone(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await with_order(bench, "wo_1")
        downlink = downlink_of(bench)
        await downlink.apply([numbered(1, "wo_1", "WO-000001")], 1)
        await downlink.apply([numbered(1, "wo_1", "WO-000009")], 1)
        assert await orders(bench) == {"wo_1": "WO-000001"}
        await downlink.apply([numbered(5, "wo_1", "WO-000005")], 5)
        assert await orders(bench) == {"wo_1": "WO-000001"}
        assert await uplink.cursor(bench.database) == 1


@pytest.mark.req("Y2")
async def test_what_means_nothing_here_is_noted_and_passed(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await with_order(bench, "wo_1")
        changes = [
            {"position": 1, "kind": "playbook.published", "payload": {"x": 1}},
            {"position": 2, "kind": "work_order.numbered", "payload": {"id": 7}},
            {"position": 3, "kind": "work_order.numbered"},
            numbered(4, "wo_unknown", "WO-000001"),
            numbered(5, "wo_1", "WO-000002"),
        ]
        await downlink_of(bench).apply(changes, 5)
        assert await orders(bench) == {"wo_1": "WO-000002"}
        assert await uplink.cursor(bench.database) == 5
        assert await bench.kinds(OperationLane.P1) == ["change.ignored"] * 4


async def test_a_new_number_replaces_the_old_one_and_says_so(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await with_order(bench, "wo_1")
        downlink = downlink_of(bench)
        await downlink.apply([numbered(1, "wo_1", "WO-000001")], 1)
        await bench.database.transaction(lambda tx: uplink.save_cursor(tx, 0))
        await downlink.apply([numbered(1, "wo_1", "WO-000002")], 1)
        assert await orders(bench) == {"wo_1": "WO-000002"}
        row = await bench.one("SELECT payload FROM operation WHERE kind = 'work_order.renumbered'")
        assert row["payload"] == '{"number":"WO-000002","was":"WO-000001"}'


class GappyFeed:
    """A link whose feed leaves one out."""

    async def pull(self, after: int) -> tuple[int, Sequence[Mapping[str, Any]]]:
        return after + 2, [numbered(after + 2, "wo_1", "WO-000002")]


@pytest.mark.field("FC-Y08")
async def test_a_feed_with_a_gap_is_not_believed(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        settings = SyncSettings(coordinator="http://127.0.0.1:1", device="line-3", token="t")
        availability = Availability(bench.database, bench.clock, Degraded())
        downlink = Downlink(bench.database, GappyFeed(), bench.clock, settings, availability)  # type: ignore[arg-type]
        with pytest.raises(FloorhandError, match="gap"):
            await downlink._pull()
