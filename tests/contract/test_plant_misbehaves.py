"""Every way in which the simulated PLC misbehaves, seen byte by byte from a raw socket; and the same PLC on every transport."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from time import monotonic
from typing import Any

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.link import LinkProtocol
from appliance.contracts.plant import Plant
from appliance.foundation.system_clock import SystemClock
from drivers.sim.framing import Frame, RtuFraming
from drivers.sim.listening import Endpoint
from drivers.sim.orders import ORDERS, Misbehave
from drivers.sim.plc import Plc
from drivers.sim.registers import Registers
from tests.support.raw_client import RawClient, connected, mbap, words
from tests.support.waiting import until, within

pytestmark = [pytest.mark.req("F9")]

READ = words(3, 0, 3)
VALUES = b"\x03\x06\x00\x0a\x00\x0b\x00\x0c"
GOOD = mbap(VALUES)


def a_plant() -> Plant:
    tags: list[dict[str, Any]] = [
        {"name": f"t{device}_{n}", "asset": "a", "link": "plc", "device_id": device, "kind": "holding_register", "address": n,
         "type": "uint16", "spoken": {}}
        for device in (1, 2) for n in range(3)
    ]  # fmt: skip
    coils: list[dict[str, Any]] = [
        {"name": f"c{n}", "asset": "a", "link": "plc", "device_id": 1, "kind": "coil", "address": n, "type": "bool", "spoken": {}}
        for n in range(10)
    ]
    return Plant.model_validate(
        {"site": "s", "links": [{"id": "plc", "host": "127.0.0.1"}], "assets": [{"id": "a", "area": "x", "spoken": {}}],
         "tags": tags + coils, "alarms": []}
    )  # fmt: skip


class Served:
    """A PLC in this process, and where it listens."""

    def __init__(self, plc: Plc, registers: Registers, endpoint: Endpoint, told: list[dict[str, Any]]) -> None:
        self.plc = plc
        self.registers = registers
        self.endpoint = endpoint
        self.told = told

    def misbehave(self, mode: str, **details: Any) -> None:
        order = ORDERS.validate_python({"do": "misbehave", "mode": mode, **details})
        assert isinstance(order, Misbehave)
        self.plc.misbehave(order)


@asynccontextmanager
async def served(endpoint: Endpoint | None = None) -> AsyncIterator[Served]:
    registers = Registers(a_plant(), "plc")
    for device in (1, 2):
        registers.put_raw(device, a_plant().tags[0].kind, 0, [10, 11, 12])
    told: list[dict[str, Any]] = []
    plc = Plc(registers, SystemClock(), lambda **fields: told.append(fields))
    listening = await plc.start(endpoint or Endpoint())
    try:
        yield Served(plc, registers, listening, told)
    finally:
        await plc.stop()


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Served, RawClient]]:
    async with served() as it, connected(it.endpoint.port) as client:
        yield it, client


async def silence(client: RawClient, for_s: float = 0.15) -> None:
    with pytest.raises(TimeoutError):
        await client.receive(for_s)


async def test_it_answers_well_when_nothing_is_wrong() -> None:
    async with asking() as (it, client):
        assert await client.ask(READ) == GOOD
        assert await client.ask(READ, device_id=2, transaction=77) == mbap(VALUES, device_id=2, transaction=77)
        await client.send(mbap(READ, device_id=9))  # nobody of that number: no answer, as on a bus
        await silence(client)
        assert it.plc.requests == 2


@pytest.mark.parametrize(
    ("mode", "answer"),
    [
        ("short_reply", mbap(b"\x03\x04\x00\x0a\x00\x0b")),
        ("wrong_function", mbap(b"\x04" + VALUES[1:])),
        ("wrong_transaction", mbap(VALUES, transaction=2)),
        ("wrong_unit", mbap(VALUES, device_id=2)),
        ("truncated", GOOD[: len(GOOD) // 2]),
    ],
)
async def test_an_answer_that_is_spoilt_once(mode: str, answer: bytes) -> None:
    async with asking() as (it, client):
        it.misbehave(mode, times=1)
        assert await client.ask(READ) == answer
        if mode == "truncated":
            await silence(client)
        assert await client.ask(READ) == GOOD


@pytest.mark.parametrize("code", range(1, 12))
async def test_every_exception_code_and_nothing_is_done(code: int) -> None:
    async with asking() as (it, client):
        it.misbehave("exception", code=code, times=1)
        assert await client.ask(words(6, 0, 99)) == mbap(bytes([0x86, code]))
        assert await client.ask(READ) == GOOD
        assert it.told == []


async def test_a_short_reply_of_bits_has_eight_less() -> None:
    async with asking() as (it, client):
        it.misbehave("short_reply", times=1)
        assert await client.ask(words(1, 0, 10)) == mbap(b"\x01\x01\x00")


async def test_a_short_reply_leaves_writes_alone() -> None:
    async with asking() as (it, client):
        it.misbehave("short_reply", times=1)
        assert await client.ask(words(6, 0, 99)) == mbap(words(6, 0, 99))
        assert await client.ask(words(3, 0, 1)) == mbap(b"\x03\x00")


async def test_silence_takes_the_request_and_does_nothing() -> None:
    async with asking() as (it, client):
        it.misbehave("silent", for_s=0.2)
        await client.send(mbap(words(6, 0, 99)))
        await silence(client, 0.3)
        assert await client.ask(READ) == GOOD
        assert it.told == []


async def test_only_the_device_that_was_meant_and_only_writes() -> None:
    async with asking() as (it, client):
        it.misbehave("silent", device_id=2, on="write")
        assert await client.ask(READ, device_id=2) == mbap(VALUES, device_id=2)
        await client.send(mbap(words(6, 0, 99), device_id=2))
        await silence(client)
        assert await client.ask(words(6, 0, 99)) == mbap(words(6, 0, 99))
        it.plc.behave(2)
        assert await client.ask(words(6, 0, 99), device_id=2) == mbap(words(6, 0, 99), device_id=2)


async def test_a_slow_answer_holds_up_the_next_one_and_the_write_is_done_before_it() -> None:
    async with asking() as (it, client):
        it.misbehave("slow", delay_s=0.6, times=1)
        began = monotonic()
        await client.send(mbap(words(6, 0, 99), transaction=1) + mbap(READ, transaction=2))
        with within(0.5):
            await until(lambda: it.told, "the write")
        first = await client.receive(30)
        assert first.startswith(mbap(words(6, 0, 99), transaction=1))
        assert monotonic() - began >= 0.6


async def test_a_late_reply_comes_after_the_next_answer() -> None:
    async with asking() as (it, client):
        it.misbehave("late_reply", delay_s=0.6, times=1)
        await client.send(mbap(READ, transaction=1))
        await silence(client, 0.1)
        assert await client.ask(words(3, 2, 1), transaction=2) == mbap(b"\x03\x02\x00\x0c", transaction=2)
        assert await client.receive(30) == mbap(VALUES, transaction=1)


async def test_garbage_is_as_long_as_the_answer_and_is_not_it() -> None:
    async with asking() as (it, client):
        it.misbehave("garbage", times=1)
        answer = await client.ask(READ)
        assert len(answer) == len(GOOD)
        assert answer != GOOD


async def test_a_reset_comes_in_the_middle_of_an_answer_and_the_write_was_done() -> None:
    async with asking() as (it, client):
        it.misbehave("reset", times=1)
        await client.send(mbap(words(6, 0, 99)))
        with pytest.raises(ConnectionResetError):
            while await client.receive(2):
                pass
        assert [each["value"] for each in it.told] == [99]
        async with connected(it.endpoint.port) as again:
            assert await again.ask(words(3, 0, 1)) == mbap(b"\x03\x02\x00\x63")


async def test_it_closes_after_so_many_requests_and_again() -> None:
    async with served() as it:
        it.misbehave("close", after=2)
        for _ in range(2):
            async with connected(it.endpoint.port) as client:
                assert [await client.ask(READ) for _ in range(3)] == [GOOD, GOOD, b""]


async def test_refused_connections_end_open_ones_and_come_back_at_the_same_port() -> None:
    async with asking() as (it, client):
        it.misbehave("refuse_connections", for_s=0.6)
        with pytest.raises(ConnectionResetError):
            await client.receive(2)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", it.endpoint.port)
        began = monotonic()
        while True:
            try:
                async with connected(it.endpoint.port) as again:
                    assert await again.ask(READ) == GOOD
                    break
            except ConnectionRefusedError:
                assert monotonic() - began < 30
                await asyncio.sleep(0.02)


async def test_it_behaves_when_it_is_told_to() -> None:
    async with asking() as (it, client):
        it.misbehave("silent")
        it.misbehave("refuse_connections")
        with pytest.raises(ConnectionResetError):
            await client.receive(2)
        it.plc.behave(None)
        await asyncio.sleep(0)
        await until(lambda: it.plc.is_listening, "listening again", 2)
        async with connected(it.endpoint.port) as again:
            assert await again.ask(READ) == GOOD


async def test_what_is_no_modbus_ends_the_connection() -> None:
    async with asking() as (_, client):
        await client.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await client.receive(2) == b""


async def test_a_port_in_use_is_refused_with_a_cure() -> None:
    async with served() as it:
        with pytest.raises(Refused, match="cannot listen") as refusal:
            async with served(it.endpoint):
                pass
        assert refusal.value.cure


RTU_READ = RtuFraming().pack(Frame(1, READ))
RTU_GOOD = RtuFraming().pack(Frame(1, VALUES))


async def test_rtu_over_tcp_answers_and_spoils_its_checksum() -> None:
    async with served(Endpoint(LinkProtocol.RTU_OVER_TCP)) as it, connected(it.endpoint.port) as client:
        await client.send(RTU_READ)
        assert await client.receive(2) == RTU_GOOD
        it.misbehave("bad_crc", times=1)
        await client.send(RTU_READ)
        assert await client.receive(2) == RTU_GOOD[:-1] + bytes([RTU_GOOD[-1] ^ 0xFF])
        with pytest.raises(Refused, match="no such part"):
            it.misbehave("wrong_transaction")


async def test_udp_answers_each_datagram() -> None:
    class Heard(asyncio.DatagramProtocol):
        def __init__(self) -> None:
            self.all: asyncio.Queue[bytes] = asyncio.Queue()

        def datagram_received(self, data: bytes, address: object) -> None:
            self.all.put_nowait(data)

    async with served(Endpoint(LinkProtocol.UDP)) as it:
        transport, heard = await asyncio.get_running_loop().create_datagram_endpoint(
            Heard, remote_addr=("127.0.0.1", it.endpoint.port)
        )
        with closing(transport):
            transport.sendto(GOOD[:3])
            transport.sendto(mbap(READ))
            assert await asyncio.wait_for(heard.all.get(), 2) == GOOD
            it.misbehave("short_reply", times=1)
            transport.sendto(mbap(READ))
            assert await asyncio.wait_for(heard.all.get(), 2) == mbap(b"\x03\x04\x00\x0a\x00\x0b")
            with pytest.raises(Refused, match="no connections"):
                it.misbehave("reset")


async def test_a_serial_line_needs_no_hardware() -> None:
    async with served(Endpoint(LinkProtocol.RTU)) as it:
        assert it.endpoint.device is not None
        line = os.open(it.endpoint.device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        arrived = bytearray()
        loop = asyncio.get_running_loop()
        try:
            tty.setraw(line)
            loop.add_reader(line, lambda: arrived.extend(os.read(line, 256)))
            os.write(line, RTU_READ[:3])
            os.write(line, RTU_READ[3:])
            await until(lambda: bytes(arrived) == RTU_GOOD, "the answer", 2)
        finally:
            loop.remove_reader(line)
            os.close(line)


async def test_a_request_that_touches_a_forbidden_range_is_told() -> None:
    plant = a_plant().model_copy(update={"tags": a_plant().tags[:3]})
    device = {"id": 1, "forbidden": [{"kind": "holding_register", "first": 3, "last": 9}]}
    link = plant.links[0].model_validate(plant.links[0].model_dump(exclude_unset=True) | {"devices": [device]})
    told: list[dict[str, Any]] = []
    plc = Plc(Registers(plant.model_copy(update={"links": [link]}), "plc"), SystemClock(), lambda **fields: told.append(fields))
    endpoint = await plc.start(Endpoint())
    try:
        async with connected(endpoint.port) as client:
            assert len(await client.ask(READ)) == len(GOOD)
            assert told == []
            assert await client.ask(words(3, 2, 2)) == mbap(b"\x83\x02")
            assert [(each["event"], each["address"], each["count"]) for each in told] == [("forbidden", 2, 2)]
    finally:
        await plc.stop()
