"""The simulated PLC answers requests as the protocol says, byte by byte, in both framings."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plant import Plant
from appliance.contracts.tag import DataType, RegisterKind, WordOrder
from drivers.sim.framing import Frame, Framing, MbapFraming, RtuFraming, crc16
from drivers.sim.registers import Registers
from drivers.sim.requests import Illegal, carry_out, parse
from tests.support.raw_client import mbap, words

LINK: dict[str, Any] = {"id": "plc", "host": "127.0.0.1"}


def plant_of(*tags: dict[str, Any], **link: Any) -> Plant:
    full = [{"name": f"t{n}", "asset": "a", "link": "plc", "device_id": 1, "spoken": {}, **tag} for n, tag in enumerate(tags)]
    return Plant.model_validate(
        {"site": "s", "links": [LINK | link], "assets": [{"id": "a", "area": "x", "spoken": {}}], "tags": full, "alarms": []}
    )


def words_plant() -> Registers:
    holding = [{"kind": "holding_register", "type": "uint16", "address": n} for n in range(4)]
    coils = [{"kind": "coil", "type": "bool", "address": n} for n in range(10)]
    return Registers(plant_of(*holding, *coils), "plc")


def asked(registers: Registers, pdu: bytes) -> bytes:
    return carry_out(parse(pdu), 1, registers)


def test_each_function_answers_as_the_protocol_says() -> None:
    registers = words_plant()
    assert asked(registers, words(6, 1, 0x1234)) == words(6, 1, 0x1234)
    assert asked(registers, words(16, 2, 2) + b"\x04\x00\x0a\x01\x02") == words(16, 2, 2)
    assert asked(registers, words(3, 0, 4)) == b"\x03\x08\x00\x00\x12\x34\x00\x0a\x01\x02"
    assert asked(registers, words(22, 1, 0x00F2, 0x0025)) == words(22, 1, 0x00F2, 0x0025)
    assert asked(registers, words(3, 1, 1)) == b"\x03\x02" + (0x1234 & 0x00F2 | 0x0025 & ~0x00F2).to_bytes(2, "big")
    assert asked(registers, words(5, 3, 0xFF00)) == words(5, 3, 0xFF00)
    assert asked(registers, words(15, 0, 10) + b"\x02\xcd\x01") == words(15, 0, 10)
    assert asked(registers, words(1, 0, 10)) == b"\x01\x02\xcd\x01"
    assert asked(registers, words(1, 8, 2)) == b"\x01\x01\x01"
    assert asked(registers, words(5, 0, 0)) == words(5, 0, 0)
    assert asked(registers, words(1, 0, 1)) == b"\x01\x01\x00"


@pytest.mark.parametrize(
    ("pdu", "code"),
    [
        (bytes([43, 14, 1, 0]), 1),
        (words(3, 3, 2), 2),
        (words(4, 0, 1), 2),
        (words(6, 4, 1), 2),
        (words(3, 0, 126), 3),
        (words(3, 0, 0), 3),
        (words(1, 0, 2001), 3),
        (words(5, 0, 1), 3),
        (words(3, 0), 3),
        (words(16, 0, 2) + b"\x02\x00\x01", 3),
        (words(15, 0, 10) + b"\x01\xff", 3),
        (words(16, 0), 3),
        (words(22, 0, 1), 3),
    ],
)
def test_what_cannot_be_is_an_exception_and_changes_nothing(pdu: bytes, code: int) -> None:
    registers = words_plant()
    with pytest.raises(Illegal) as refusal:
        asked(registers, pdu)
    assert refusal.value.code == code
    assert set(registers.cells(1, RegisterKind.HOLDING_REGISTER).values()) == {0}


def test_a_device_gives_no_more_in_one_answer_than_the_plant_model_says() -> None:
    tags = [{"kind": "holding_register", "type": "uint16", "address": n} for n in range(8)]
    registers = Registers(plant_of(*tags, devices=[{"id": 1, "most_registers": 4}]), "plc")
    assert len(asked(registers, words(3, 0, 4))) == 2 + 8
    with pytest.raises(Illegal):
        asked(registers, words(3, 0, 5))


def test_a_bit_of_a_register_leaves_its_neighbours_alone() -> None:
    bits = [{"kind": "holding_register", "type": "bool", "address": 0, "bit": bit} for bit in (0, 3, 15)]
    plant = plant_of(*bits)
    registers = Registers(plant, "plc")
    for tag in plant.tags:
        registers.put(tag, True)
    registers.put(plant.tags[1], False)
    assert registers.cells(1, RegisterKind.HOLDING_REGISTER) == {0: 0x8001}
    assert [registers.get(tag) for tag in plant.tags] == [True, False, True]
    assert registers.tags_in(1, RegisterKind.HOLDING_REGISTER, 0, 1) == plant.tags


@pytest.mark.field("FC-F12")
@pytest.mark.parametrize("order", list(WordOrder))
@pytest.mark.parametrize("kind", [DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64, DataType.INT32, DataType.UINT64])
def test_a_broken_sensor_is_no_number_in_any_order(kind: DataType, order: WordOrder) -> None:
    sentinels = [] if kind.startswith("float") else [0x80000001]
    plant = plant_of({"kind": "input_register", "type": kind, "address": 0, "word_order": order, "sentinels": sentinels})
    registers = Registers(plant, "plc")
    registers.put(plant.tags[0], 12)
    assert registers.get(plant.tags[0]) == 12
    registers.put_no_measurement(plant.tags[0])
    assert registers.get(plant.tags[0]) is None


def test_a_tag_without_a_sentinel_cannot_say_that_it_is_broken() -> None:
    plant = plant_of({"kind": "input_register", "type": "int16", "address": 0})
    with pytest.raises(Refused, match="no sentinel"):
        Registers(plant, "plc").put_no_measurement(plant.tags[0])


def test_the_checksum_is_that_of_a_known_frame() -> None:
    assert crc16(bytes.fromhex("01030000000a")) == bytes.fromhex("c5cd")


REQUESTS = [
    Frame(1, words(3, 0, 4), 7),
    Frame(17, words(16, 0, 2) + b"\x04\x00\x01\x00\x02", 8),
    Frame(2, words(22, 0, 1, 2), 9),
    Frame(3, words(15, 0, 9) + b"\x02\xff\x01", 10),
    Frame(4, words(5, 0, 0xFF00), 11),
]


@pytest.mark.parametrize("make", [MbapFraming, RtuFraming])
@given(cuts=st.lists(st.integers(0, 80), max_size=8))
def test_frames_are_whole_however_the_stream_is_cut(make: type[Framing], cuts: list[int]) -> None:
    stream = b"".join(make().pack(frame) for frame in REQUESTS)
    framing = make()
    found = [
        frame
        for start, end in pairwise(sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))}))
        for frame in framing.feed(stream[start:end])
    ]
    assert [(frame.device_id, frame.pdu) for frame in found] == [(frame.device_id, frame.pdu) for frame in REQUESTS]
    assert make is RtuFraming or [frame.transaction for frame in found] == [7, 8, 9, 10, 11]


def test_a_stream_that_is_not_modbus_tcp_is_malformed() -> None:
    with pytest.raises(Malformed):
        MbapFraming().feed(b"GET / HTTP/1.1\r\n")
    assert MbapFraming().pack(Frame(1, words(3, 0, 1), 1)) == mbap(words(3, 0, 1))


def test_an_rtu_frame_with_a_wrong_checksum_is_dropped_and_the_next_is_understood() -> None:
    framing = RtuFraming()
    good = framing.pack(Frame(1, words(3, 0, 1)))
    assert framing.feed(good[:-1] + bytes([good[-1] ^ 1])) == []
    assert framing.feed(good) == [Frame(1, words(3, 0, 1))]
