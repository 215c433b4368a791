"""One codec both ways: what is written is what is read."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.tag import DataType, Tag, WordOrder
from drivers.modbus.codec import Codec, decode, encode

_WHOLE = {
    DataType.INT16: st.integers(-(2**15), 2**15 - 1),
    DataType.UINT16: st.integers(0, 2**16 - 1),
    DataType.INT32: st.integers(-(2**31), 2**31 - 1),
    DataType.UINT32: st.integers(0, 2**32 - 1),
    DataType.INT64: st.integers(-(2**63), 2**63 - 1),
    DataType.UINT64: st.integers(0, 2**64 - 1),
    DataType.BCD16: st.integers(0, 9_999),
    DataType.BCD32: st.integers(0, 99_999_999),
}
_FLOATS = {DataType.FLOAT16: 16, DataType.FLOAT32: 32, DataType.FLOAT64: 64}
_NUMBERS = _WHOLE | {
    type_: st.floats(width=width, allow_nan=False, allow_infinity=False)  # type: ignore[arg-type]
    for type_, width in _FLOATS.items()
}
_LAYOUT = {DataType.FLOAT16: ">e", DataType.FLOAT32: ">f", DataType.FLOAT64: ">d"}


def tag(type_: DataType | str, **changes: Any) -> Tag:
    fields: dict[str, Any] = {
        "name": "t", "asset": "a", "link": "l", "device_id": 1, "kind": "holding_register", "address": 0, "spoken": {},
    }  # fmt: skip
    return Tag.model_validate(fields | {"type": type_} | changes)


@pytest.mark.req("F2")
@pytest.mark.field("FC-F01", "FC-F13")
@given(data=st.data(), order=st.sampled_from(WordOrder), type_=st.sampled_from(list(_NUMBERS)))
def test_every_number_comes_back_in_every_order(data: Any, order: WordOrder, type_: DataType) -> None:
    value = data.draw(_NUMBERS[type_])
    t = tag(type_, word_order=order)
    raw = encode(t, value)
    assert len(raw) == t.register_count
    assert all(0 <= word <= 0xFFFF for word in raw)
    assert decode(t, raw) == value
    assert isinstance(decode(t, raw), int if type_ in _WHOLE else float)


@pytest.mark.req("F2")
@pytest.mark.field("FC-F01")
@given(data=st.data(), order=st.sampled_from(WordOrder), type_=st.sampled_from(list(_NUMBERS)))
def test_what_was_read_writes_the_same_registers(data: Any, order: WordOrder, type_: DataType) -> None:
    words = st.lists(st.integers(0, 0xFFFF), min_size=tag(type_).register_count, max_size=tag(type_).register_count)
    t, raw = tag(type_, word_order=order), tuple(data.draw(words))
    value = decode(t, raw)
    if value is not None:
        assert encode(t, value) == raw


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


@pytest.mark.field("FC-F01")
@pytest.mark.parametrize(
    ("order", "raw"),
    [
        ("ABCD", (0x0102, 0x0304, 0x0506, 0x0708)),
        ("CDAB", (0x0708, 0x0506, 0x0304, 0x0102)),
        ("BADC", (0x0201, 0x0403, 0x0605, 0x0807)),
        ("DCBA", (0x0807, 0x0605, 0x0403, 0x0201)),
    ],
)
def test_four_registers_follow_the_same_rule(order: str, raw: tuple[int, ...]) -> None:
    t = tag(DataType.UINT64, word_order=order)
    assert encode(t, 0x0102030405060708) == raw
    assert decode(t, raw) == 0x0102030405060708


@pytest.mark.parametrize("order", list(WordOrder))
@pytest.mark.parametrize("type_", [DataType.UINT16, DataType.FLOAT16, DataType.BCD16])
def test_a_number_of_one_register_is_always_big_endian(type_: DataType, order: WordOrder) -> None:
    assert decode(tag(type_, word_order=order), [0x1234]) == decode(tag(type_), [0x1234])


@pytest.mark.field("FC-F13")
def test_negative_numbers_are_signed_both_ways() -> None:
    assert decode(tag(DataType.INT16), [65531]) == -5
    assert encode(tag(DataType.INT16), -5) == (65531,)
    assert decode(tag(DataType.UINT16), [65531]) == 65531
    assert decode(tag(DataType.INT32), [0xFFFF, 0xFFFB]) == -5
    assert decode(tag(DataType.INT64), [0xFFFF, 0xFFFF, 0xFFFF, 0xFFFB]) == -5
    assert decode(tag(DataType.INT16, scale=0.1), [65531]) == -0.5


def test_scaling_is_decimal() -> None:
    assert decode(tag(DataType.INT16, scale=0.1), [943]) == 94.3
    assert decode(tag(DataType.UINT16), [943]) == 943
    assert encode(tag(DataType.UINT16, scale=0.01), 1.15) == (115,)
    assert decode(tag(DataType.BCD16, scale=0.1), [0x0943]) == 94.3


@pytest.mark.req("F2")
def test_decimal_digits_are_read_as_they_stand() -> None:
    assert decode(tag(DataType.BCD16), [0x9876]) == 9876
    assert decode(tag(DataType.BCD32), [0x1234, 0x5678]) == 12345678
    assert encode(tag(DataType.BCD32, word_order="CDAB"), 12345678) == (0x5678, 0x1234)


@pytest.mark.field("FC-F12")
@pytest.mark.parametrize("raw", [0x123A, 0xF000, 0xFFFF])
def test_a_decimal_digit_above_nine_is_no_value(raw: int) -> None:
    assert decode(tag(DataType.BCD16), [raw]) is None
    assert decode(tag(DataType.BCD32), [0x1234, raw]) is None


@pytest.mark.field("FC-F12")
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("type_", list(_FLOATS))
@pytest.mark.parametrize("order", list(WordOrder))
def test_a_float_that_is_no_number_is_no_value(number: float, type_: DataType, order: WordOrder) -> None:
    t = tag(type_, word_order=order)
    wire = struct.pack(_LAYOUT[type_], number)
    whole = {2: DataType.UINT16, 4: DataType.UINT32, 8: DataType.UINT64}[len(wire)]
    raw = encode(tag(whole, word_order=order), int.from_bytes(wire, "big"))
    assert decode(t, raw) is None
    with pytest.raises(Refused):
        encode(t, number)


@pytest.mark.field("FC-F12")
@pytest.mark.parametrize(
    ("type_", "raw"),
    [
        (DataType.INT16, [0x8000]), (DataType.UINT16, [0xFFFF]), (DataType.INT32, [0x8000, 0]),
        (DataType.INT64, [0x8000, 0, 0, 0]), (DataType.FLOAT32, [0x7149, 0xF2CA]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", list(WordOrder))
def test_a_sentinel_is_no_value_and_is_never_written(type_: DataType, raw: list[int], order: WordOrder) -> None:
    plain = decode(tag(type_), raw)
    assert plain is not None
    t = tag(type_, word_order=order, sentinels=[int.from_bytes(b"".join(w.to_bytes(2, "big") for w in raw), "big")])
    assert decode(t, encode(tag(type_, word_order=order), plain)) is None
    with pytest.raises(Refused, match="no measurement"):
        encode(t, plain)


@pytest.mark.field("FC-F12")
def test_scaling_that_overflows_is_no_value() -> None:
    raw = struct.unpack(">HH", struct.pack(">f", 3e38))
    assert decode(tag(DataType.FLOAT32, scale=1e308), raw) is None
    assert decode(tag(DataType.UINT16, scale=1e308), [0xFFFF]) is None


@pytest.mark.field("FC-F12")
@given(data=st.data(), type_=st.sampled_from(list(_NUMBERS)))
def test_whatever_the_device_says_is_valid_json(data: Any, type_: DataType) -> None:
    count = tag(type_).register_count
    value = decode(tag(type_, scale=0.1), data.draw(st.lists(st.integers(0, 0xFFFF), min_size=count, max_size=count)))
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (DataType.INT16, 32768), (DataType.INT16, -32769), (DataType.UINT16, -1), (DataType.UINT16, 65536),
        (DataType.INT32, 2**31), (DataType.UINT32, -1), (DataType.FLOAT32, 1e39), (DataType.FLOAT32, 10**400),
        (DataType.UINT64, 2**64), (DataType.INT64, 2**63), (DataType.FLOAT16, 70_000), (DataType.FLOAT64, 10**400),
        (DataType.BCD16, 10_000), (DataType.BCD16, -1), (DataType.BCD32, 10**8),
        (DataType.UINT16, True), (DataType.UINT16, "12"), (DataType.BOOL, 2), (DataType.BOOL, 1.0), (DataType.BOOL, "on"),
        (DataType.STRING, 7), (DataType.STRING, True), (DataType.STRING, "abc"), (DataType.STRING, "a\x07"),
        (DataType.STRING, "é€"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(type_: DataType, value: Any) -> None:
    with pytest.raises(Refused, match=r"a\.t"):
        encode(tag(type_, **({"bit": 0} if type_ is DataType.BOOL else {})), value)


def test_a_clamp_bounds_what_is_shown_and_not_what_is_written() -> None:
    t = tag(DataType.INT16, scale=0.1, clamp=(0, 100))
    assert [decode(t, [raw & 0xFFFF]) for raw in (-3, 0, 505, 1000, 1004)] == [0, 0, 50.5, 100, 100]
    assert encode(t, 120) == (1200,)


@pytest.mark.req("F2")
def test_coils_are_true_or_false() -> None:
    coil = tag(DataType.BOOL, kind="coil")
    assert encode(coil, True) == (1,)
    assert encode(coil, 0) == (0,)
    assert decode(coil, [1]) is True
    assert decode(coil, [0]) is False


@pytest.mark.req("F2")
@given(word=st.integers(0, 0xFFFF), bit=st.integers(0, 15), wanted=st.booleans(), order=st.sampled_from(WordOrder))
def test_a_bit_of_a_register_leaves_the_other_bits_alone(word: int, bit: int, wanted: bool, order: WordOrder) -> None:
    codec = Codec(tag(DataType.BOOL, bit=bit, word_order=order))
    assert codec.decode([word]) is bool(word >> bit & 1)
    (alone,) = codec.encode(wanted)
    assert alone & ~codec.mask == 0
    after = (word & ~codec.mask) | alone
    assert codec.decode([after]) is wanted
    assert (after ^ word) & ~(1 << bit) == 0
    assert codec.shows([after], [alone])
    assert not codec.shows([after ^ codec.mask], [alone])


_PRINTABLE = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20)


@pytest.mark.req("F2")
@given(text=_PRINTABLE, order=st.sampled_from(WordOrder))
def test_every_text_comes_back_in_every_order(text: str, order: WordOrder) -> None:
    t = tag(DataType.STRING, length=60, word_order=order)
    assert len(encode(t, text)) == 60
    assert decode(t, encode(t, text)) == text


def test_a_text_swaps_bytes_but_never_words() -> None:
    assert encode(tag(DataType.STRING, length=2, word_order="ABCD"), "abc") == (0x6162, 0x6300)
    assert encode(tag(DataType.STRING, length=2, word_order="CDAB"), "abc") == (0x6162, 0x6300)
    assert encode(tag(DataType.STRING, length=2, word_order="BADC"), "abc") == (0x6261, 0x0063)
    assert encode(tag(DataType.STRING, length=1, word_order="DCBA"), "ab") == (0x6261,)


@pytest.mark.parametrize(
    ("wire", "shown"),
    [
        (b"ok\0garbage", "ok"),
        (b"ok        ", "ok"),
        (b"a\x1b[31mb\n", "a\N{REPLACEMENT CHARACTER}[31mb\N{REPLACEMENT CHARACTER}"),
        (b"\xff\xfe\0\0", "\N{REPLACEMENT CHARACTER}" * 2),
        ("温度".encode(), "温度"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}b".encode(), "\N{REPLACEMENT CHARACTER}b"),
        (b"\0\0", ""),
    ],
)
def test_a_text_from_the_field_is_data(wire: bytes, shown: str) -> None:
    raw = struct.unpack(f">{len(wire) // 2}H", wire)
    assert decode(tag(DataType.STRING, length=len(raw)), raw) == shown


def test_padding_does_not_make_another_text() -> None:
    codec = Codec(tag(DataType.STRING, length=2))
    assert codec.shows([0x6162, 0x2020], codec.encode("ab"))
    assert not codec.shows([0x6162, 0x6300], codec.encode("ab"))


MODES = {0: "stopped", 1: "Running", 7: "fault"}


@pytest.mark.req("F2")
def test_an_enumeration_is_its_name() -> None:
    t = tag(DataType.UINT16, names=MODES)
    assert decode(t, [1]) == "Running"
    assert decode(t, [9]) == "9", "a number nobody named is shown as it is"
    assert [encode(t, told) for told in ("running", " fault ", 7, 7.0, "7")] == [(1,), (7,), (7,), (7,), (7,)]
    assert decode(tag(DataType.INT16, names={-1: "back"}), [0xFFFF]) == "back"
    assert encode(tag(DataType.INT16, names={-1: "back"}), "back") == (0xFFFF,)


@pytest.mark.parametrize("told", ["walking", 9, "9", True, 1.5, ""])
def test_an_unknown_name_is_refused_and_the_known_ones_are_listed(told: Any) -> None:
    with pytest.raises(Refused, match=r"a\.t does not know") as refused:
        encode(tag(DataType.UINT16, names=MODES), told)
    assert refused.value.cure == "It knows: stopped, Running, fault."


FLAGS = {0: "door open", 3: "over temperature", 15: "emergency stop"}


@pytest.mark.req("F2")
@pytest.mark.parametrize("type_", [DataType.UINT16, DataType.INT16, DataType.UINT32, DataType.INT64])
@pytest.mark.parametrize("order", list(WordOrder))
def test_a_bitfield_is_the_names_of_its_set_bits(type_: DataType, order: WordOrder) -> None:
    t = tag(type_, flags=FLAGS, word_order=order)
    for number, shown in ((0, "none"), (1, "door open"), (0x8009, "door open, over temperature, emergency stop")):
        raw = encode(t, shown)
        assert decode(t, raw) == shown
        assert encode(t, number) == raw
    assert encode(t, "Emergency stop,door open") == encode(t, 0x8001)
    assert encode(t, "") == encode(t, 0)


_NAMES = st.dictionaries(st.integers(0, 15), st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=4), min_size=1)


@pytest.mark.req("F2")
@given(names=_NAMES, data=st.data(), is_bitfield=st.booleans())
def test_what_a_name_shows_can_be_written_back(names: dict[int, str], data: Any, is_bitfield: bool) -> None:
    kept = {name.strip().casefold(): (number, name) for number, name in names.items()}
    told = {number: name for number, name in kept.values() if name.casefold() != "none"}
    t = tag(DataType.UINT16, **{"flags" if is_bitfield else "names": told})
    number = sum(1 << bit for bit in told if data.draw(st.booleans())) if is_bitfield else next(iter(told), 0)
    shown = decode(t, [number])
    assert shown is not None
    if told:
        assert encode(t, shown) == encode(t, number) == (number,)


@pytest.mark.parametrize("name", ["door, open", "None", "bit 5", " "])
def test_a_flag_has_no_name_that_could_be_mistaken(name: str) -> None:
    with pytest.raises(ValueError, match="the name of a flag"):
        tag(DataType.UINT16, flags={0: name})


def test_a_set_bit_without_a_name_is_not_hidden() -> None:
    assert decode(tag(DataType.UINT16, flags=FLAGS), [0b11001]) == "door open, over temperature, bit 4"


@pytest.mark.parametrize("told", ["door", "door open, roof open", 2, "2", -1, True, 0.5])
def test_an_unknown_flag_is_refused(told: Any) -> None:
    with pytest.raises(Refused, match=r"a\.t does not know") as refused:
        encode(tag(DataType.UINT16, flags=FLAGS), told)
    assert refused.value.cure == "It knows: door open, over temperature, emergency stop."


def test_a_wrong_length_is_malformed() -> None:
    with pytest.raises(Malformed):
        decode(tag(DataType.FLOAT32), [1])


@pytest.mark.field("FC-F03")
def test_the_wire_address_can_be_said() -> None:
    assert tag(DataType.INT16, address=7).where == "holding_register 7 of device 1 on l"
    assert tag(DataType.INT64, address=7).where == "holding_register 7-10 of device 1 on l"
    assert tag(DataType.BOOL, address=7, bit=3).where == "holding_register 7 bit 3 of device 1 on l"


def test_bits_hold_bools_only() -> None:
    with pytest.raises(ValueError, match="holds a bool"):
        tag(DataType.UINT16, kind="coil")
