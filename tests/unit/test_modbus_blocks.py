"""Neighbouring tags travel in one request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.tag import DataType, Tag
from drivers.modbus.blocks import MOST_REGISTERS, WIDEST_GAP, merge


def tag(address: int, type_: DataType = DataType.UINT16, **changes: Any) -> Tag:
    fields = {
        "name": f"t{address}", "asset": "a", "link": "l", "device_id": 1, "kind": "input_register", "spoken": {},
        "address": address, "type": type_,
    }  # fmt: skip
    return Tag.model_validate(fields | changes)


@pytest.mark.req("F3")
def test_near_tags_are_one_block_and_far_ones_are_not() -> None:
    near = [tag(0), tag(1, DataType.FLOAT32), tag(3 + WIDEST_GAP)]
    (block,) = merge(reversed(near))
    assert (block.address, block.count) == (0, 4 + WIDEST_GAP)
    assert len(merge([tag(0), tag(2 + WIDEST_GAP)])) == 2


def test_other_tables_devices_and_links_are_other_blocks() -> None:
    tags = [tag(0), tag(1, kind="holding_register"), tag(1, device_id=2), tag(1, link="m")]
    assert len(merge(tags)) == 4


def test_a_tag_inside_another_ones_registers_stays_inside() -> None:
    (block,) = merge([tag(0, DataType.FLOAT32), tag(1)])
    assert (block.address, block.count) == (0, 2)


@given(st.sets(st.integers(0, 400), min_size=1, max_size=60), st.data())
def test_blocks_cover_all_tags_within_the_protocols_bound(addresses: set[int], data: Any) -> None:
    tags = [tag(a, data.draw(st.sampled_from([DataType.UINT16, DataType.FLOAT32]))) for a in addresses]
    blocks = merge(tags)
    assert sorted(t.key for b in blocks for t in b.tags) == sorted(t.key for t in tags)
    for block in blocks:
        assert block.count <= MOST_REGISTERS
        answer = tuple(range(block.address, block.address + block.count))
        for each in block.tags:
            assert block.raw_of(each, answer) == tuple(range(each.address, each.address + each.register_count))
