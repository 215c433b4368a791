"""One codec both ways: what is written is what is read."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.tag import DataType, Tag, WordOrder
from drivers.modbus.codec import decode, encode, wire_address

_INTEGERS = {
    DataType.INT16: st.integers(-(2**15), 2**15 - 1),
    DataType.UINT16: st.integers(0, 2**16 - 1),
    DataType.INT32: st.integers(-(2**31), 2**31 - 1),
    DataType.UINT32: st.integers(0, 2**32 - 1),
}


def tag(type_: DataType, **changes: Any) -> Tag:
    fields: dict[str, Any] = {
        "name": "t", "asset": "a", "link": "l", "device_id": 1, "kind": "holding_register", "address": 0, "spoken": {},
    }  # fmt: skip
    return Tag.model_validate(fields | {"type": type_} | changes)


@pytest.mark.req("F2")
@pytest.mark.field("FC-F01")
@given(data=st.data(), order=st.sampled_from(WordOrder), type_=st.sampled_from(list(_INTEGERS)))
def test_every_integer_comes_back_in_every_word_order(data: Any, order: WordOrder, type_: DataType) -> None:
    value = data.draw(_INTEGERS[type_])
    t = tag(type_, word_order=order)
    raw = encode(t, value)
    assert len(raw) == t.register_count
    assert all(0 <= word <= 0xFFFF for word in raw)
    assert decode(t, raw) == value


@pytest.mark.field("FC-F01")
@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False), order=st.sampled_from(WordOrder))
def test_every_float_comes_back_in_every_word_order(value: float, order: WordOrder) -> None:
    t = tag(DataType.FLOAT32, word_order=order)
    assert decode(t, encode(t, value)) == value


@pytest.mark.req("F2")
@given(
    count=st.integers(-(2**15), 2**15 - 1),
    scale=st.sampled_from([0.1, 0.01, 0.5, 10, -0.1, 0.003]),
    offset=st.sampled_from([0, -40, 273.15]),
)
def test_scaled_values_come_back_on_the_same_step(count: int, scale: float, offset: float) -> None:
    t = tag(DataType.INT16, scale=scale, offset=offset)
    value = decode(t, [count & 0xFFFF])
    assert isinstance(value, float)
    assert encode(t, value) == (count & 0xFFFF,)


@pytest.mark.field("FC-F01")
@pytest.mark.parametrize(
    ("order", "raw"),
    [("ABCD", (0x42BC, 0x6666)), ("CDAB", (0x6666, 0x42BC)), ("BADC", (0xBC42, 0x6666)), ("DCBA", (0x6666, 0xBC42))],
)
def test_the_four_orders_are_the_documented_ones(order: str, raw: tuple[int, int]) -> None:
    t = tag(DataType.FLOAT32, word_order=order)
    assert encode(t, 94.2) == raw
    assert decode(t, raw) == pytest.approx(94.2, rel=1e-6)


@pytest.mark.field("FC-F13")
def test_negative_numbers_are_signed_both_ways() -> None:
    assert decode(tag(DataType.INT16), [65531]) == -5
    assert encode(tag(DataType.INT16), -5) == (65531,)
    assert decode(tag(DataType.UINT16), [65531]) == 65531
    assert decode(tag(DataType.INT32), [0xFFFF, 0xFFFB]) == -5


def test_scaling_is_decimal() -> None:
    assert decode(tag(DataType.INT16, scale=0.1), [943]) == 94.3
    assert decode(tag(DataType.UINT16), [943]) == 943
    assert encode(tag(DataType.UINT16, scale=0.01), 1.15) == (115,)


@pytest.mark.field("FC-F12")
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("order", list(WordOrder))
def test_a_float_that_is_no_number_is_no_value(number: float, order: WordOrder) -> None:
    raw = struct.unpack(">HH", struct.pack(">f", number))
    t = tag(DataType.FLOAT32, word_order=order)
    abcd = tag(DataType.FLOAT32)
    assert decode(abcd, raw) is None
    swapped = {"ABCD": raw, "CDAB": raw[::-1]}.get(order)
    if swapped:
        assert decode(t, swapped) is None
    with pytest.raises(Refused):
        encode(t, number)


@pytest.mark.field("FC-F12")
@pytest.mark.parametrize(
    ("type_", "raw"), [(DataType.INT16, [0x8000]), (DataType.UINT16, [0xFFFF]), (DataType.INT32, [0x8000, 0])]
)
def test_a_sentinel_is_no_value_and_is_never_written(type_: DataType, raw: list[int]) -> None:
    plain = decode(tag(type_), raw)
    assert plain is not None
    t = tag(type_, sentinels=[int.from_bytes(b"".join(w.to_bytes(2, "big") for w in raw), "big")])
    assert decode(t, raw) is None
    with pytest.raises(Refused, match="no measurement"):
        encode(t, plain)


@pytest.mark.field("FC-F12")
def test_scaling_that_overflows_is_no_value() -> None:
    raw = struct.unpack(">HH", struct.pack(">f", 3e38))
    assert decode(tag(DataType.FLOAT32, scale=1e308), raw) is None


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (DataType.INT16, 32768), (DataType.INT16, -32769), (DataType.UINT16, -1), (DataType.UINT16, 65536),
        (DataType.INT32, 2**31), (DataType.UINT32, -1), (DataType.FLOAT32, 1e39), (DataType.FLOAT32, 10**400),
        (DataType.UINT16, True), (DataType.UINT16, "12"), (DataType.BOOL, 2), (DataType.BOOL, 1.0), (DataType.BOOL, "on"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(type_: DataType, value: Any) -> None:
    with pytest.raises(Refused, match=r"a\.t"):
        encode(tag(type_), value)


def test_bits_are_true_or_false() -> None:
    coil = tag(DataType.BOOL, kind="coil")
    assert encode(coil, True) == (1,)
    assert encode(coil, 0) == (0,)
    assert decode(coil, [1]) is True
    assert decode(coil, [0]) is False


def test_a_wrong_length_is_malformed() -> None:
    with pytest.raises(Malformed):
        decode(tag(DataType.FLOAT32), [1])


def test_the_wire_address_can_be_said() -> None:
    assert wire_address(tag(DataType.INT16, address=7)) == "holding_register 7 of device 1 on l"
    assert wire_address(tag(DataType.INT32, address=7)) == "holding_register 7-8 of device 1 on l"


def test_bits_hold_bools_only() -> None:
    with pytest.raises(ValueError, match="holds a bool"):
        tag(DataType.UINT16, kind="coil")
