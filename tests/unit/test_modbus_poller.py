"""When what is polled: on a grid, without drift, without bursts, and only what is declared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.plant import Plant
from drivers.modbus.blocks import Block
from drivers.modbus.poller import Slot
from drivers.modbus.reporting import Reporting, TrackedBlock
from drivers.modbus.schedule import KEEP_IN_SIGHT_S, scheduled
from tests.support.clock import ManualClock

NOTHING = TrackedBlock(Block("l", 1, "coil", 0, 1, ()), ())  # type: ignore[arg-type]


@pytest.mark.req("F3")
@given(st.integers(1, 10**10), st.lists(st.integers(0, 10**11), min_size=1, max_size=30))
def test_samples_stay_on_the_grid_whatever_happens(interval_ns: int, pauses_ns: list[int]) -> None:
    start_ns = now_ns = 7 * 10**9
    slot = Slot(NOTHING, interval_ns, start_ns)
    for pause_ns in pauses_ns:
        now_ns = max(now_ns, slot.due_ns) + pause_ns  # polled when due, and then something took its time
        before_ns = slot.due_ns
        missed = slot.move_on(now_ns)
        assert (slot.due_ns - start_ns) % interval_ns == 0, "lateness does not add up"
        assert slot.due_ns > now_ns, "what was missed is not made up for"
        assert slot.due_ns - now_ns <= interval_ns, "nor is a sample left out that could be had"
        assert slot.due_ns == before_ns + (missed + 1) * interval_ns


def plant(tags: list[dict[str, Any]], alarms: list[dict[str, Any]] | None = None) -> Plant:
    base = {"asset": "a", "link": "l", "device_id": 1, "kind": "holding_register", "type": "uint16", "spoken": {}}
    alarm = {"asset": "a", "priority": "high", "fault": "f", "playbook": "p", "text": {}}
    return Plant.model_validate(
        {
            "site": "s",
            "links": [{"id": "l", "host": "x"}, {"id": "m", "host": "y"}, {"id": "no_tags", "host": "z"}],
            "assets": [{"id": "a", "area": "x", "spoken": {}}],
            "poll_groups": [{"name": "fast", "every_s": 0.05}, {"name": "slow", "every_s": 60}],
            "tags": [base | {"name": f"t{n}"} | each for n, each in enumerate(tags)],
            "alarms": [alarm | {"id": f"al{n}"} | each for n, each in enumerate(alarms or [])],
        }
    )


def planned(model: Plant) -> dict[tuple[str, int], list[tuple[int, int, float, int]]]:
    """(address, count, every_s, tags that are reported) of each device."""
    reporting = Reporting(model.tags, {group.name: group.every_s for group in model.poll_groups}, ManualClock())
    return {
        device: [(block.block.address, block.block.count, every_s, len(block.cuts)) for block, every_s in blocks]
        for device, blocks in scheduled(model, reporting).items()
    }


@pytest.mark.req("F3")
def test_each_group_is_merged_by_itself_and_the_rest_is_not_polled() -> None:
    tags = [
        {"address": 0, "poll": "fast"}, {"address": 3, "poll": "fast"}, {"address": 1, "poll": "slow"}, {"address": 2},
        {"address": 0, "poll": "fast", "device_id": 2},
    ]  # fmt: skip
    assert planned(plant(tags)) == {("l", 1): [(0, 4, 0.05, 2), (1, 1, 60, 1)], ("l", 2): [(0, 1, 0.05, 1)]}


@pytest.mark.req("F7")
def test_a_link_on_which_nothing_is_polled_often_is_kept_in_sight() -> None:
    tags = [{"address": 4}, {"address": 5}, {"address": 6, "link": "m"}, {"address": 7, "link": "m", "poll": "slow"}]
    assert planned(plant(tags)) == {
        ("l", 1): [(4, 1, KEEP_IN_SIGHT_S, 0)],
        ("m", 1): [(7, 1, 60, 1), (6, 1, KEEP_IN_SIGHT_S, 0)],
    }


@pytest.mark.req("F7")
def test_a_device_whose_loss_is_an_alarm_is_kept_in_sight() -> None:
    tags = [{"address": 0, "poll": "fast"}, {"address": 5, "device_id": 2}, {"address": 6, "device_id": 3}]
    alarms = [{"condition": {"kind": "unreachable", "link": "l", "device_id": device}} for device in (1, 2, 9)]
    assert planned(plant(tags, alarms)) == {("l", 1): [(0, 1, 0.05, 1)], ("l", 2): [(5, 1, KEEP_IN_SIGHT_S, 0)]}


def test_published_tags_are_not_polled() -> None:
    model = Plant.model_validate(
        {
            "site": "s",
            "links": [],
            "assets": [{"id": "a", "area": "x", "spoken": {}}],
            "tags": [{"name": "t", "asset": "a", "link": "mqtt", "kind": "published", "type": "float64", "spoken": {}}],
            "topics": [{"topic": "x", "format": "plain", "values": {"value": "a.t"}}],
            "alarms": [],
        }
    )
    assert planned(model) == {}
