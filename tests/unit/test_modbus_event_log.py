"""The PLC's event ring, written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.plant import EventRing
from drivers.modbus.event_log import SLOT_REGISTERS, decode_ring, encode_slot

RING = EventRing(link="l", device_id=1, address=100, entries=4, codes={7: {"en": "seven", "zh": "七"}})


def write(events: int) -> tuple[int, list[int]]:
    slots = [0] * RING.entries * SLOT_REGISTERS
    for n in range(1, events + 1):
        at = (n - 1) % RING.entries * SLOT_REGISTERS
        slots[at : at + SLOT_REGISTERS] = encode_slot(n, 7, n / 10, n)
    return events % 2**16, slots


@given(st.integers(0, 12), st.integers(1, 6))
def test_the_newest_come_last(events: int, newest: int) -> None:
    count, slots = write(events)
    expected = list(range(max(1, events - min(newest, RING.entries) + 1), events + 1))
    assert [e["sequence"] for e in decode_ring(RING, count, slots, newest)] == expected


def test_the_count_wraps() -> None:
    slots = [
        *encode_slot(65534, 7, 0, 1),
        *encode_slot(65535, 7, 0, 2),
        *encode_slot(65536, 7, 0, 3),
        *encode_slot(65537, 7, 0, 4),
    ]
    assert [e["at_s"] for e in decode_ring(RING, 1, slots, 4)] == [1, 2, 3, 4]


@pytest.mark.field("FC-F13")
def test_an_entry_has_text_signed_value_and_time() -> None:
    _, slots = write(0)
    slots[:4] = encode_slot(1, 7, -12.5, 90)
    assert decode_ring(RING, 1, slots, 9) == [
        {"sequence": 1, "code": 7, "text": {"en": "seven", "zh": "七"}, "value": -12.5, "at_s": 90}
    ]


def test_an_unknown_code_is_named_by_its_number() -> None:
    slots = [*encode_slot(1, 99, 0, 0), *[0] * 12]
    assert decode_ring(RING, 1, slots, 1)[0]["text"] == {"en": "code 99", "zh": "code 99"}


def test_a_slot_overwritten_while_reading_is_left_out() -> None:
    count, slots = write(4)
    slots[:4] = encode_slot(5, 7, 0, 0)  # written after the count was read
    assert [e["sequence"] for e in decode_ring(RING, count, slots, 9)] == [2, 3, 4]
