"""Neighbouring tags travel in one request, within the bounds of their device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from appliance.contracts.errors import Malformed
from appliance.contracts.link import Addressing, Link, to_wire_address
from appliance.contracts.plant import Plant
from appliance.contracts.tag import DataType, RegisterKind, Tag
from drivers.modbus.blocks import Block, merge
from drivers.modbus.codec import is_bits

WIDEST_GAP = 8
_TYPES = [DataType.UINT16, DataType.FLOAT32, DataType.UINT64]


def tag(address: int, type_: DataType = DataType.UINT16, **changes: Any) -> Tag:
    fields = {
        "name": f"t{address}", "asset": "a", "link": "l", "device_id": 1, "kind": "input_register", "spoken": {},
        "address": address, "type": type_,
    }  # fmt: skip
    return Tag.model_validate(fields | changes)


def links(**device: Any) -> dict[str, Link]:
    devices = [{"id": 1} | device] if device else []
    return {name: Link.model_validate({"id": name, "host": "x", "devices": devices}) for name in ("l", "m")}


def spans(blocks: list[Block]) -> list[tuple[int, int]]:
    return [(block.address, block.count) for block in blocks]


@pytest.mark.req("F3")
def test_near_tags_are_one_block_and_far_ones_are_not() -> None:
    near = [tag(0), tag(1, DataType.FLOAT32), tag(3 + WIDEST_GAP)]
    assert spans(merge(reversed(near), links())) == [(0, 4 + WIDEST_GAP)]
    assert len(merge([tag(0), tag(2 + WIDEST_GAP)], links())) == 2
    assert len(merge([tag(0), tag(2)], links(widest_gap=0))) == 2
    assert len(merge([tag(0), tag(1)], links(widest_gap=0))) == 1


def test_other_tables_devices_and_links_are_other_blocks() -> None:
    tags = [tag(0), tag(1, kind="holding_register"), tag(1, device_id=2), tag(1, link="m")]
    assert len(merge(tags, links())) == 4


def test_a_tag_inside_another_ones_registers_stays_inside() -> None:
    assert spans(merge([tag(0, DataType.UINT64), tag(1), tag(3, DataType.FLOAT32)], links())) == [(0, 5)]


def test_bits_of_one_register_are_one_register() -> None:
    bits = [tag(4, DataType.BOOL, bit=bit, name=f"b{bit}") for bit in (0, 7, 15)]
    assert spans(merge(bits, links())) == [(4, 1)]


@pytest.mark.req("F3")
def test_a_forbidden_address_is_never_touched() -> None:
    forbidden = [{"kind": "input_register", "first": 2, "last": 3}]
    assert spans(merge([tag(0), tag(1), tag(4), tag(5)], links(forbidden=forbidden))) == [(0, 2), (4, 2)]
    elsewhere = [{"kind": "holding_register", "first": 2, "last": 3}]
    assert spans(merge([tag(0), tag(5)], links(forbidden=elsewhere))) == [(0, 6)]


@pytest.mark.req("F3")
def test_five_thousand_tags_of_twenty_devices_are_forty_requests() -> None:
    tags = [tag(address, name=f"t{address}", device_id=device) for device in range(1, 21) for address in range(250)]
    assert len(merge(tags, links())) == 40


@pytest.mark.req("F3")
@given(st.data())
def test_blocks_cover_all_tags_within_the_bounds_of_the_device(data: Any) -> None:
    kind = data.draw(st.sampled_from([RegisterKind.INPUT_REGISTER, RegisterKind.COIL]))
    most, gap = data.draw(st.integers(4, 125)), data.draw(st.integers(0, 20))
    fences = data.draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 5)), max_size=6))
    forbidden = [{"kind": kind, "first": first, "last": first + more} for first, more in fences]
    device = {"most_registers": most, "most_bits": most, "widest_gap": gap, "forbidden": forbidden}
    closed = {address for first, more in fences for address in range(first, first + more + 1)}
    types = [DataType.BOOL] if is_bits(kind) else _TYPES
    drawn = data.draw(st.dictionaries(st.integers(0, 400), st.sampled_from(types), min_size=1, max_size=60))
    tags = [tag(address, type_, kind=kind) for address, type_ in drawn.items()]
    tags = [each for each in tags if not closed & set(range(each.address, each.address + each.register_count))]

    blocks = merge(tags, links(**device))

    assert sorted(each.key for block in blocks for each in block.tags) == sorted(each.key for each in tags)
    assert len(blocks) <= len(tags)
    for block in blocks:
        asked = range(block.address, block.address + block.count)
        assert block.count <= most
        assert not closed & set(asked)
        assert {asked[0], asked[-1]} <= {
            address for each in block.tags for address in range(each.address, each.address + each.register_count)
        }, "a request begins and ends at a wanted address"
        wanted = sorted({a for each in block.tags for a in range(each.address, each.address + each.register_count)})
        gaps = [after - before - 1 for before, after in pairwise(wanted)]
        assert max(gaps, default=0) <= gap * (16 if is_bits(kind) else 1)
        for each in block.tags:
            assert tuple(asked)[block.part_of(each)] == tuple(range(each.address, each.address + each.register_count))


@given(st.dictionaries(st.integers(0, 100), st.sampled_from(_TYPES), min_size=2, max_size=30))
def test_halves_are_smaller_and_lose_no_tag(drawn: dict[int, DataType]) -> None:
    (block, *_) = merge([tag(address, type_) for address, type_ in drawn.items()], links(widest_gap=100))
    left, right = block.halves()
    assert left.tags + right.tags == block.tags
    assert left.tags and right.tags
    assert left.address == block.address
    assert max(left.address + left.count, right.address + right.count) == block.address + block.count


def test_a_refused_block_is_parted_at_its_widest_gap_else_in_the_middle() -> None:
    (gappy,) = merge([tag(0), tag(1), tag(3), tag(9)], links())
    assert spans(list(gappy.halves())) == [(0, 4), (9, 1)]
    (whole,) = merge([tag(address) for address in range(8)], links())
    assert spans(list(whole.halves())) == [(0, 4), (4, 4)]


@pytest.mark.field("FC-F03")
@pytest.mark.parametrize(
    ("written", "kind", "notation", "wire"),
    [
        (7, "holding_register", "wire", 7),
        (7, "holding_register", "one_based", 6),
        (40001, "holding_register", "reference", 0),
        (400001, "holding_register", "reference", 0),
        (49999, "holding_register", "reference", 9998),
        (465536, "holding_register", "reference", 65535),
        (30010, "input_register", "reference", 9),
        (300010, "input_register", "reference", 9),
        (10001, "discrete_input", "reference", 0),
        (1, "coil", "reference", 0),
        (9999, "coil", "reference", 9998),
    ],
)
def test_written_addresses_become_wire_addresses(written: int, kind: str, notation: str, wire: int) -> None:
    assert to_wire_address(written, RegisterKind(kind), Addressing(notation)) == wire


@pytest.mark.field("FC-F03")
@pytest.mark.parametrize(
    ("written", "kind", "notation"),
    [
        (0, "holding_register", "one_based"),
        (40001, "input_register", "reference"),
        (30001, "holding_register", "reference"),
        (40000, "holding_register", "reference"),
        (7, "holding_register", "reference"),
        (65537, "coil", "one_based"),
    ],
)
def test_an_address_of_another_table_is_no_address(written: int, kind: str, notation: str) -> None:
    with pytest.raises(Malformed, match=f"{written} is not the address of a {kind}"):
        to_wire_address(written, RegisterKind(kind), Addressing(notation))


def plant(*tags: dict[str, Any], **device: Any) -> Plant:
    base = {"asset": "a", "link": "l", "device_id": 1, "kind": "holding_register", "type": "uint32", "spoken": {}}
    return Plant.model_validate(
        {
            "site": "s",
            "links": [{"id": "l", "host": "x", "devices": [{"id": 1} | device]}],
            "assets": [{"id": "a", "area": "x", "spoken": {}}],
            "tags": [base | {"name": f"t{n}"} | each for n, each in enumerate(tags)],
            "alarms": [],
        }
    )


@pytest.mark.field("FC-F03")
def test_a_tag_in_the_manuals_notation_shows_its_wire_address() -> None:
    tags = plant({"address": 40012}, {"address": 1, "kind": "coil", "type": "bool"}, addressing="reference").tags
    assert [each.where for each in tags] == ["holding_register 11-12 of device 1 on l", "coil 0 of device 1 on l"]
    (one_based,) = plant({"address": 12}, addressing="one_based").tags
    assert one_based.where == "holding_register 11-12 of device 1 on l"
    with pytest.raises(ValueError, match="30001 is not the address of a holding_register"):
        plant({"address": 30001}, addressing="reference")


_OFFSETS = {"wire": 0, "one_based": 1}
_TABLES = {"coil": 0, "discrete_input": 1, "input_register": 3, "holding_register": 4}


def wire_of(address: Any, kind: str, notation: str, **changes: Any) -> int:
    fields = {"address": address, "kind": kind, "type": "bool" if is_bits(RegisterKind(kind)) else "uint16"}
    return plant(fields | changes, addressing=notation).tags[0].address


@pytest.mark.field("FC-F03")
@given(st.integers(0, 65_535), st.sampled_from(sorted(_TABLES)), st.sampled_from([*_OFFSETS, "reference"]))
def test_every_written_form_is_the_same_address_or_is_refused(wire: int, kind: str, notation: str) -> None:
    is_reference = notation == "reference"
    number = (_TABLES[kind] * (10_000 if wire < 9_999 else 100_000) + 1 if is_reference else _OFFSETS[notation]) + wire
    sound: list[Any] = [number, f"{_TABLES[kind]}{wire + 1:05}"] if is_reference and wire < 65_535 else [number]
    if is_reference and wire < 9_999:
        sound.append(f"{_TABLES[kind]}{wire + 1:04}")
    assert {wire_of(form, kind, notation) for form in sound} == {wire}
    digits = [f"{zeros}{number}" for zeros in ("", "0", "00")]
    for form in [*digits, f"{number} ", f"+{number}", f"{number}.0", float(number), None]:
        try:
            assert wire_of(form, kind, notation) == wire
        except ValidationError:
            continue
        assert is_reference
        assert form in digits


@pytest.mark.field("FC-F03")
@pytest.mark.parametrize("written", ["40", "00018", True, 40.0, None, [40], {"a": 1}, "４０"])
@pytest.mark.parametrize("notation", ["wire", "one_based"])
def test_only_a_number_is_an_address_where_addresses_are_numbers(written: Any, notation: str) -> None:
    with pytest.raises(ValueError, match=r"tags\.0\.address"):
        wire_of(written, "holding_register", notation)


@pytest.mark.field("FC-F03")
@pytest.mark.parametrize("device_id", ["1", 1.0, True])
def test_a_device_is_named_by_a_number_or_its_notation_would_be_missed(device_id: Any) -> None:
    with pytest.raises(ValueError, match="device_id"):
        wire_of(7, "holding_register", "one_based", device_id=device_id)
    with pytest.raises(ValueError, match=r"devices\.0\.id"):
        plant({"address": 7}, id=device_id)


@pytest.mark.field("FC-F03")
def test_wrong_addresses_are_told_each_at_its_tag_beside_other_faults() -> None:
    with pytest.raises(ValidationError) as caught:
        plant(
            {"address": 30001}, {"address": 40001}, {"address": "10001"}, {"address": 40009, "type": "no"}, addressing="reference"
        )
    assert [fault["loc"] for fault in caught.value.errors()] == [
        ("tags", 0, "address"), ("tags", 2, "address"), ("tags", 3, "type")
    ]  # fmt: skip


def test_a_published_tag_of_a_device_with_a_notation_is_a_fault_not_a_crash() -> None:
    with pytest.raises(ValidationError, match="belong together"):
        plant({"address": 7, "kind": "published"}, addressing="reference")


@pytest.mark.field("FC-F03")
def test_a_forbidden_range_covers_something() -> None:
    with pytest.raises(ValueError, match="first must not be above last"):
        plant(forbidden=[{"kind": "holding_register", "first": 12, "last": 10}])
    with pytest.raises(ValueError, match="lies in a forbidden range"):
        plant({"address": 11}, forbidden=[{"kind": "holding_register", "first": 12, "last": 12}])


@pytest.mark.req("F3")
def test_a_tag_that_cannot_be_read_whole_is_a_fault_of_the_plant_model() -> None:
    fence = [{"kind": "holding_register", "first": 13, "last": 20}]
    with pytest.raises(ValueError, match=r"tag a\.t0: lies in a forbidden range of device 1"):
        plant({"address": 12}, forbidden=fence)
    assert plant({"address": 11}, forbidden=fence)
    with pytest.raises(ValueError, match=r"tag a\.t0: spans more registers than device 1 gives"):
        plant({"address": 12}, most_registers=1)
