"""The link against PLCs that answer badly, late, twice or never: byte-level servers, real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from appliance.contracts.errors import Refused, Unavailable, Uncertain
from appliance.contracts.link import Link
from appliance.contracts.tag import RegisterKind
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.link import ModbusLink
from tests.support.raw_plc import Answer, RawPlc, raw_plc, registers
from tests.support.waiting import until, within

HOLDING = RegisterKind.HOLDING_REGISTER
TIMEOUT_S = 0.4


class Linked:
    def __init__(self, plc: RawPlc, retries: int, timeout_s: float) -> None:
        self.plc = plc
        self.changes: list[str] = []
        link = Link(id="l", host="127.0.0.1", port=plc.port, timeout_s=timeout_s, retries=retries)
        self.link = ModbusLink(link, SystemClock(), lambda _, why: self.changes.append(why))

    async def read(self, count: int = 2) -> tuple[int, ...]:
        return await self.link.read(1, HOLDING, 0, count)

    async def write(self, *raw: int) -> None:
        await self.link.write(1, HOLDING, 0, raw)

    async def read_when_due(self) -> tuple[int, ...]:
        """Read, waiting as long as the link itself says to wait."""
        while True:
            try:
                return await self.read()
            except Unavailable as error:
                await asyncio.sleep(error.retry_after_s)


@asynccontextmanager
async def linked(answer: Answer, retries: int = 1, timeout_s: float = TIMEOUT_S) -> AsyncIterator[Linked]:
    async with raw_plc(answer) as plc:
        it = Linked(plc, retries, timeout_s)
        try:
            yield it
        finally:
            it.link.close()


def good(pdu: bytes) -> bytes:
    return registers(*range(1, int.from_bytes(pdu[3:5], "big") + 1)) if pdu[0] == 3 else pdu[:5]


@pytest.mark.req("F1")
async def test_a_good_answer_brings_the_link_online() -> None:
    async with linked(good) as it:
        assert not it.link.is_online
        assert await it.read() == (1, 2)
        assert it.link.is_online
        assert it.changes == [""]


@pytest.mark.field("FC-F06")
async def test_an_open_socket_is_not_online() -> None:
    async with linked(lambda _: None) as it:
        with pytest.raises(Unavailable, match="no answer within"):
            await it.read()
        assert it.plc.connections == 1
        assert not it.link.is_online
        assert it.changes == ["no answer within 0.4 s"]


@pytest.mark.req("F1")
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("one register of two", lambda _: registers(7)),
        ("three registers of two", lambda _: registers(7, 8, 9)),
        ("another function", lambda _: b"\x04\x04\x00\x01\x00\x02"),
        ("an unknown function", lambda _: b"\x63\x00"),
        ("a torn answer", lambda _: b"\x03\x04\x00"),
        ("more bytes than announced", lambda _: b"\x03\x04\x00\x01\x00\x02\x00"),
        ("fewer bytes than announced", lambda _: b"\x03\x06\x00\x01\x00\x02"),
        ("an exception with a tail", lambda _: b"\x83\x02\x00"),
        ("an exception to another function", lambda _: b"\x84\x02"),
    ],
)
async def test_an_answer_to_something_else_is_no_answer(name: str, answer: Answer) -> None:
    async with linked(answer, retries=0) as it:
        with pytest.raises(Unavailable):
            await it.read()
        assert not it.link.is_online
        it.plc.answer = good
        assert await it.read_when_due() == (1, 2), f"after {name} a new connection is clean"


@pytest.mark.req("F1")
@pytest.mark.parametrize("stray", [b"\x7f\xff\0\0\0\x07\x01\x03\x04\0\x09\0\x09", b"\0\0\0\0\0\x07\x01\x03\x04\0\x09\0\x09"])
async def test_an_answer_with_another_number_is_passed_over(stray: bytes) -> None:
    async with linked(good) as it:
        it.plc.late.append(stray)
        assert await it.read() == (1, 2)
        assert it.plc.connections == 1


@pytest.mark.req("F1")
@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\0\x01\0\0\xff\xff\x01\x03"])
async def test_what_is_not_modbus_ends_the_connection_at_once(junk: bytes) -> None:
    async with linked(good, retries=0, timeout_s=60) as it:
        it.plc.late.append(junk)
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable, match="not Modbus"):
                await it.read()
        assert await it.read_when_due() == (1, 2)
        await until(lambda: it.plc.open == 1, "one socket")


@pytest.mark.req("F1")
@pytest.mark.parametrize("chunk", [1, 6, 8])
async def test_an_answer_in_pieces_is_put_together(chunk: int) -> None:
    async with linked(good) as it:
        it.plc.chunk = chunk
        assert await it.read(125) == tuple(range(1, 126))


async def test_an_answer_of_another_device_is_no_answer() -> None:
    async with linked(good, retries=0) as it:
        it.plc.device_id_shift = 1
        with pytest.raises(Unavailable):
            await it.read()


@pytest.mark.field("FC-F04")
async def test_bits_come_in_the_exact_count_without_padding() -> None:
    async with linked(lambda _: b"\x01\x01\xfd") as it:
        assert await it.link.read(1, RegisterKind.COIL, 0, 3) == (1, 0, 1)
    async with linked(lambda _: b"\x01\x03\xfd\xff\xff", retries=0) as it:
        with pytest.raises(Unavailable, match="24 bits came for 3"):
            await it.link.read(1, RegisterKind.COIL, 0, 3)


@pytest.mark.field("FC-F09")
async def test_a_late_answer_is_never_taken_for_the_next_request() -> None:
    held: list[bytes] = []

    def answer_the_one_before(pdu: bytes) -> bytes | None:
        held.append(pdu)
        return None if len(held) == 1 else registers(100 + pdu[2], 0)

    async with linked(answer_the_one_before, retries=0) as it:
        with pytest.raises(Unavailable):
            await it.link.read(1, HOLDING, 1, 2)
        while True:
            try:
                assert await it.link.read(1, HOLDING, 2, 2) == (102, 0)
                break
            except Unavailable as error:
                await asyncio.sleep(error.retry_after_s)
        assert it.plc.connections == 2, "the connection with the late answer is closed"
        await until(lambda: it.plc.open == 1, "one socket")


@pytest.mark.req("F4")
@pytest.mark.parametrize("raw", [(7,), (7, 8)])
async def test_a_write_without_answer_is_uncertain_and_sent_once(raw: tuple[int, ...]) -> None:
    async with linked(good, retries=3) as it:
        await it.read()
        it.plc.requests.clear()
        it.plc.answer = lambda _: None
        with pytest.raises(Uncertain, match="no answer"):
            await it.write(*raw)
        it.plc.answer = good
        await it.read_when_due()
        assert [pdu[0] for pdu in it.plc.requests] == [6 if len(raw) == 1 else 16, 3]


@pytest.mark.req("F4")
async def test_a_connection_lost_under_a_write_is_uncertain_at_once() -> None:
    async with linked(good, timeout_s=60) as it:
        await it.read()
        it.plc.answer = lambda pdu: b"" if pdu[0] == 6 else good(pdu)
        async with asyncio.timeout(30):
            with pytest.raises(Uncertain, match="connection was lost"):
                await it.write(7)
        assert await it.read() == (1, 2), "the read-back goes out at once, on a new connection"


@pytest.mark.req("F4")
async def test_an_echo_of_another_write_is_uncertain() -> None:
    async with linked(lambda pdu: good(pdu) if pdu[0] == 3 else b"\x06\x00\x00\x00\x09") as it:
        with pytest.raises(Uncertain, match="echoes another"):
            await it.write(7)


@pytest.mark.req("F4")
@pytest.mark.parametrize("echo", [b"\x16\0\x05\0\xf2\0\x24", b"\x16\0\x04\0\xf2\0\x25", b"\x16\0\x05\0\xf2"])
async def test_a_mask_write_with_another_echo_is_uncertain(echo: bytes) -> None:
    async with linked(lambda pdu: pdu) as it:
        await it.link.mask_write(1, 5, and_mask=0xF2, or_mask=0x25)
        assert it.plc.requests == [b"\x16\0\x05\0\xf2\0\x25"]
        it.plc.answer = lambda _: echo
        with pytest.raises(Uncertain, match="echoes another"):
            await it.link.mask_write(1, 5, and_mask=0xF2, or_mask=0x25)
        assert len(it.plc.requests) == 2


@pytest.mark.req("F4")
async def test_one_value_can_be_written_by_the_function_for_many() -> None:
    async with linked(lambda pdu: pdu[:5]) as it:
        await it.link.write(1, HOLDING, 3, (7,), multiple=True)
        await it.link.write(1, RegisterKind.COIL, 3, (1,), multiple=True)
        assert it.plc.requests == [b"\x10\0\x03\0\x01\x02\0\x07", b"\x0f\0\x03\0\x01\x01\x01"]


@pytest.mark.req("F4")
async def test_nothing_listening_is_unavailable_for_a_write() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    link = ModbusLink(Link(id="l", host="127.0.0.1", port=port, timeout_s=TIMEOUT_S), SystemClock(), lambda *_: None)
    with pytest.raises(Unavailable, match="cannot connect"):
        await link.write(1, HOLDING, 0, (1,))


@pytest.mark.req("F4")
@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (1, Refused, "ILLEGAL FUNCTION"),
        (2, Refused, "ILLEGAL DATA ADDRESS"),
        (3, Refused, "ILLEGAL DATA VALUE"),
        (6, Unavailable, "SERVER DEVICE BUSY"),
        (10, Unavailable, "GATEWAY PATH"),
        (4, Uncertain, "SERVER DEVICE FAILURE"),
        (5, Uncertain, "ACKNOWLEDGE"),
        (11, Uncertain, "FAILED TO RESPOND"),
        (99, Uncertain, "exception 99"),
    ],
)
async def test_an_exception_answer_to_a_write_says_what_became_of_it(code: int, expected: type[Exception], words: str) -> None:
    async with linked(lambda pdu: bytes([pdu[0] | 0x80, code])) as it:
        with pytest.raises(expected, match=words):
            await it.write(7)
        assert len(it.plc.requests) == 1
        assert it.link.is_online == (code not in (10, 11))


@pytest.mark.parametrize(("code", "expected"), [(2, Refused), (4, Unavailable), (6, Unavailable), (11, Unavailable)])
async def test_an_exception_answer_to_a_read_keeps_the_connection(code: int, expected: type[Exception]) -> None:
    async with linked(lambda pdu: bytes([pdu[0] | 0x80, code])) as it:
        for _ in range(2):
            with pytest.raises(expected):
                await it.read()
        assert it.plc.connections == 1


@pytest.mark.req("F1")
async def test_reads_are_tried_again_on_a_new_connection() -> None:
    answers = iter([good, lambda _: b"", good])
    async with linked(lambda pdu: next(answers)(pdu)) as it:
        await it.read()
        assert await it.read() == (1, 2)
        assert len(it.plc.requests) == 3
        await until(lambda: it.plc.open == 1, "one socket")


@pytest.mark.field("FC-F08")
async def test_a_plc_that_drops_every_connection_is_asked_ever_more_rarely() -> None:
    async with linked(lambda _: b"", retries=0) as it:
        waits = []
        for _ in range(4):
            with pytest.raises(Unavailable) as unavailable:
                await it.read()
            waits.append(unavailable.value.retry_after_s)
            with pytest.raises(Unavailable):
                await it.read()  # too soon: not even tried
            await asyncio.sleep(unavailable.value.retry_after_s)
        assert it.plc.connections == 4
        assert all(0.07 <= wait <= 2.0 for wait in waits)
        assert waits[-1] > 4 * waits[0]
        assert it.changes == ["the connection was lost"], "one change of state, however many failures"


@pytest.mark.field("FC-F07", "FC-F08")
async def test_after_a_long_absence_the_first_good_answer_ends_the_long_pauses() -> None:
    async with linked(lambda _: b"", retries=0) as it:
        for _ in range(4):  # the pause has grown to 0.8 s
            with pytest.raises(Unavailable) as unavailable:
                await it.read()
            await asyncio.sleep(unavailable.value.retry_after_s)
        it.plc.answer = good
        assert await it.read() == (1, 2)
        it.plc.answer = lambda _: b""
        with pytest.raises(Unavailable):
            await it.read()
        it.plc.answer = good
        with within(0.5):
            assert await it.read() == (1, 2)


@pytest.mark.field("FC-F08")
async def test_a_plc_that_answers_once_and_drops_is_not_asked_in_a_tight_loop() -> None:
    alternating = iter([good, lambda _: b""] * 500)
    async with linked(lambda pdu: next(alternating)(pdu), retries=0) as it:
        deadline_ns = SystemClock().monotonic_ns() + int(0.5e9)
        while SystemClock().monotonic_ns() < deadline_ns:
            try:
                await it.read()
            except Unavailable as error:
                await asyncio.sleep(min(0.005, error.retry_after_s))
        assert it.plc.connections <= 8


async def test_requests_of_many_tasks_go_out_one_at_a_time() -> None:
    async with linked(good) as it:
        results = await asyncio.gather(*(it.link.read(1, HOLDING, n, 1) for n in range(50)))
        assert results == [(1,)] * 50
        assert it.plc.connections == 1


@pytest.mark.req("F1")
async def test_cancelling_a_request_cancels_the_caller_and_leaves_a_working_link() -> None:
    async with linked(lambda _: None) as it:
        reading = asyncio.create_task(it.read())
        await until(lambda: it.plc.requests, "the request arrived")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        it.plc.answer = good
        assert await it.read_when_due() == (1, 2)
        await until(lambda: it.plc.open == 1, "one socket")


async def test_a_time_limit_round_a_request_works() -> None:
    async with linked(lambda _: None) as it:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S / 4):
                await it.read()


async def test_cancelling_while_connecting_leaves_no_socket() -> None:
    async with linked(good) as it:
        for _ in range(20):
            reading = asyncio.create_task(it.read())
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await it.read_when_due()
        await until(lambda: it.plc.open == 1, "one socket")
