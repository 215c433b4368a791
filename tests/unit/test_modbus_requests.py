"""Requests as bytes and what is taken for their answer, by the examples of the specification and at random."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Refused
from appliance.contracts.tag import RegisterKind
from drivers.modbus.requests import ExceptionAnswer, Misfit, Request, mask_write_request, read_request, write_request

COIL, INPUT = RegisterKind.COIL, RegisterKind.DISCRETE_INPUT
HOLDING, INPUT_REGISTER = RegisterKind.HOLDING_REGISTER, RegisterKind.INPUT_REGISTER


# Modbus Application Protocol 1.1b3: request, answer and meaning as printed there.
@pytest.mark.req("F1", "F2")
@pytest.mark.parametrize(
    ("request_", "sent", "answer", "values"),
    [
        (
            read_request(COIL, 19, 19), "01 0013 0013", "01 03 CD 6B 05",
            (1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1),
        ),
        (
            read_request(INPUT, 196, 22), "02 00C4 0016", "02 03 AC DB 35",
            (0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1),
        ),
        (read_request(HOLDING, 107, 3), "03 006B 0003", "03 06 022B 0000 0064", (555, 0, 100)),
        (read_request(INPUT_REGISTER, 8, 1), "04 0008 0001", "04 02 000A", (10,)),
        (write_request(COIL, 172, [1]), "05 00AC FF00", "05 00AC FF00", ()),
        (write_request(HOLDING, 1, [3]), "06 0001 0003", "06 0001 0003", ()),
        (
            write_request(COIL, 19, [1, 0, 1, 1, 0, 0, 1, 1, 1, 0]), "0F 0013 000A 02 CD01", "0F 0013 000A", (),
        ),
        (write_request(HOLDING, 1, [10, 258]), "10 0001 0002 04 000A 0102", "10 0001 0002", ()),
        (mask_write_request(4, 0xF2, 0x25), "16 0004 00F2 0025", "16 0004 00F2 0025", ()),
    ],
)  # fmt: skip
def test_the_examples_of_the_specification(request_: Request, sent: str, answer: str, values: tuple[int, ...]) -> None:
    assert request_.pdu == bytes.fromhex(sent)
    assert request_.taken_from(bytes.fromhex(answer)) == values
    assert request_.is_read == (request_.pdu[0] <= 4)


@pytest.mark.req("F1")
@given(kind=st.sampled_from([COIL, INPUT, HOLDING, INPUT_REGISTER]), data=st.data())
@pytest.mark.field("FC-F04")
def test_only_the_exact_quantity_is_taken(kind: RegisterKind, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 125))
    asked = read_request(kind, 0, count)
    answer = data.draw(st.binary(min_size=1, max_size=300))
    try:
        values = asked.taken_from(answer)
    except (Misfit, ExceptionAnswer):
        return
    assert len(values) == count
    assert answer[0] == asked.pdu[0]
    assert answer[1] == len(answer) - 2


@given(raw=st.lists(st.integers(0, 1), min_size=1, max_size=1968))
def test_bits_are_packed_as_they_are_unpacked(raw: list[int]) -> None:
    written = write_request(COIL, 0, raw, multiple=True).pdu
    assert read_request(COIL, 0, len(raw)).taken_from(b"\x01" + written[5:]) == tuple(raw)


@given(raw=st.lists(st.integers(0, 65_535), min_size=1, max_size=123))
def test_registers_are_packed_as_they_are_unpacked(raw: list[int]) -> None:
    written = write_request(HOLDING, 0, raw, multiple=True).pdu
    assert read_request(HOLDING, 0, len(raw)).taken_from(b"\x03" + written[5:]) == tuple(raw)


@pytest.mark.parametrize("answer", ["03", "03 02", "03 04 0001", "03 03 000102", "03 02 0001 00", "83", "83 02 00", "86 02"])
def test_torn_answers_are_misfits(answer: str) -> None:
    with pytest.raises(Misfit):
        read_request(HOLDING, 0, 1).taken_from(bytes.fromhex(answer))


def test_an_exception_is_one_whatever_was_asked() -> None:
    for asked in (read_request(COIL, 0, 1), write_request(HOLDING, 0, [1, 2]), mask_write_request(0, 0, 0)):
        with pytest.raises(ExceptionAnswer) as answered:
            asked.taken_from(bytes([asked.pdu[0] | 0x80, 6]))
        assert answered.value.code == 6


@pytest.mark.parametrize(
    ("kind", "address", "count"),
    [(HOLDING, 0, 126), (COIL, 0, 2001), (HOLDING, 0, 0), (HOLDING, 65_535, 2), (HOLDING, -1, 1)],
)
def test_what_no_request_can_ask_for_is_refused(kind: RegisterKind, address: int, count: int) -> None:
    with pytest.raises(Refused):
        read_request(kind, address, count)


@pytest.mark.req("F4")
@pytest.mark.parametrize(
    ("kind", "raw"), [(HOLDING, [0] * 124), (COIL, [0] * 1969), (HOLDING, []), (INPUT, [1]), (INPUT_REGISTER, [1])]
)
def test_what_no_request_can_write_is_refused(kind: RegisterKind, raw: list[int]) -> None:
    with pytest.raises(Refused):
        write_request(kind, 0, raw)
