"""What ``drivers/modbus`` relies on in pymodbus, and why its clients are not used: read it when one of these fails after an
update."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

import pytest
from pymodbus.client import AsyncModbusTcpClient
from pymodbus.framer import FramerBase, FramerRTU, FramerSocket, FramerTLS
from pymodbus.pdu import DecodePDU

from tests.support.raw_plc import raw_plc
from tests.support.waiting import until

READ = bytes.fromhex("03 006B 0003")
ANSWER = bytes.fromhex("03 06 022B 0000 0064")
REFUSAL = bytes.fromhex("83 02")
FRAMERS = [FramerSocket, FramerRTU]


def framer(kind: type[FramerBase]) -> FramerBase:
    return kind(DecodePDU(False))


def test_frames_are_those_of_the_specification() -> None:
    assert framer(FramerSocket).encode(READ, 17, 0x1501) == bytes.fromhex("1501 0000 0006 11") + READ
    assert framer(FramerRTU).encode(READ, 17, 0) == b"\x11" + READ + bytes.fromhex("76 87")


@pytest.mark.parametrize("kind", FRAMERS)
@pytest.mark.parametrize("pdu", [ANSWER, REFUSAL, bytes.fromhex("06 0001 0003"), bytes.fromhex("16 0004 00F2 0025")])
def test_a_frame_comes_apart_unchanged_and_only_when_it_is_whole(kind: type[FramerBase], pdu: bytes) -> None:
    frame = framer(kind).encode(pdu, 17, 7)
    for length in range(1, len(frame)):
        assert framer(kind).decode(frame[:length])[0] == 0
    used, device_id, transaction, data = framer(kind).decode(frame)
    assert (used, device_id, data) == (len(frame), 17, pdu)
    assert transaction == (7 if kind is FramerSocket else 0)


def test_a_damaged_rtu_frame_is_nothing_and_used_up() -> None:
    frame = framer(FramerRTU).encode(ANSWER, 17, 0)
    damaged = frame[:-1] + bytes([frame[-1] ^ 1])
    assert framer(FramerRTU).decode(damaged) == (len(frame), 0, 0, b"")


def test_its_tls_framer_takes_half_a_frame_for_a_whole_one() -> None:
    """Why TLS links use the framer of TCP, which is the same on the wire and counts."""
    frame = framer(FramerTLS).encode(ANSWER, 17, 7)
    assert frame == framer(FramerSocket).encode(ANSWER, 17, 7)
    assert framer(FramerTLS).decode(frame[:-2])[0] == len(frame) - 2


async def test_its_client_takes_short_answers_for_good_ones() -> None:
    """Why answers are checked in ``requests.py``."""
    async with raw_plc(lambda _: b"\x03\x02\x00\x07") as plc:
        client = AsyncModbusTcpClient("127.0.0.1", port=plc.port, timeout=1, retries=0, reconnect_delay=0)
        await client.connect()
        answer = await client.read_holding_registers(0, count=4)
        assert not answer.isError()
        assert list(answer.registers) == [7]
        client.close()


async def test_cancelled_error_passes_through() -> None:
    """3.12 to 3.15 turned it into their own exception. What we measure ourselves against must not."""
    assert tuple(int(part) for part in version("pymodbus").split(".")[:3]) >= (3, 16, 1)
    async with raw_plc(lambda _: None) as plc:
        client = AsyncModbusTcpClient("127.0.0.1", port=plc.port, timeout=5, retries=0, reconnect_delay=0)
        await client.connect()
        request = asyncio.ensure_future(client.read_holding_registers(0, count=1))
        await until(lambda: plc.requests, "the request arrived")
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        client.close()
