"""What only one transport has: certificates, lost datagrams, serial ports that are not there, host names that move."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Unavailable, Uncertain
from appliance.contracts.link import Link
from appliance.contracts.tag import RegisterKind
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.link import ModbusLink
from tests.support.modbus_servers import certificate, field_server, open_handles, serial_line
from tests.support.raw_plc import raw_plc, registers
from tests.support.waiting import pause, until

HOLDING = RegisterKind.HOLDING_REGISTER


def opened(link: Link, changes: list[tuple[int | None, str]] | None = None) -> ModbusLink:
    return ModbusLink(link, SystemClock(), lambda *change: None if changes is None else changes.append(change))


async def cannot_connect(link: Link, why: str) -> None:
    it = opened(link)
    with pytest.raises(Unavailable, match=why):
        await it.read(1, HOLDING, 0, 1)
    it.close()


@pytest.mark.req("F1")
async def test_tls_takes_the_device_its_certificate_names_and_no_other(tmp_path: Path) -> None:
    stranger, _ = certificate(tmp_path, "stranger")
    with field_server("pymodbus in TLS", tmp_path) as server:
        tls = server.link().model_dump()["tls"]
        good = opened(server.link())
        assert await good.read(1, HOLDING, 0, 2) == (1, 8)
        good.close()
        await cannot_connect(server.link(tls=tls | {"ca": stranger}), "cannot connect: self.signed certificate")
        await cannot_connect(server.link(tls=tls | {"server_name": "other.test"}), "cannot connect: Hostname mismatch")
        await cannot_connect(server.link(tls=tls | {"server_name": None}), "cannot connect: IP address mismatch")
        await cannot_connect(server.link(tls=tls | {"ca": tmp_path / "absent.pem"}), "cannot connect: No such file")
        nameless = opened(server.link(tls=tls | {"cert": None, "key": None}))
        with pytest.raises(Unavailable):  # TLS 1.3 lets us believe for a moment that we are connected
            await nameless.read(1, HOLDING, 0, 1)
        nameless.close()
        await until(lambda: server.sockets() == 0, "nothing stays open")


@pytest.mark.req("F1")
async def test_a_port_that_speaks_no_tls_is_unavailable() -> None:
    async with raw_plc(lambda _: registers(1)) as plc:
        tls = {"ca": Path(__file__)}
        await cannot_connect(_link(plc.port, protocol="tls", tls=tls), "cannot connect")


@pytest.mark.req("F1", "F4")
async def test_a_lost_datagram_is_asked_for_again_but_never_written_again(tmp_path: Path) -> None:
    with field_server("pymodbus over UDP", tmp_path) as server:
        it = opened(server.link(retries=2, timeout_s=0.2))
        assert await it.read(1, HOLDING, 5, 1) == (36,)
        server.do("silent", seconds=0.15)
        assert await it.read(1, HOLDING, 6, 1) == (43,), "the second datagram arrived"
        before = server.counts()["requests"]
        server.do("silent", seconds=0.3)
        with pytest.raises(Uncertain, match="no answer within"):
            await it.write(1, HOLDING, 7, (1,))
        assert server.counts()["requests"] - before == 1
        it.close()


@pytest.mark.req("F1")
async def test_nobody_at_a_udp_port_is_known_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    it = opened(_link(port, protocol="udp", timeout_s=60))
    async with asyncio.timeout(30):
        with pytest.raises(Unavailable, match="nobody listens"):
            await it.read(1, HOLDING, 0, 1)
    it.close()


@pytest.mark.req("F1")
async def test_a_serial_port_that_is_not_there_or_cannot_do_it_is_said(tmp_path: Path) -> None:
    await cannot_connect(_serial(tmp_path / "absent"), r"cannot connect: .*No such file")
    with serial_line(tmp_path) as (ours, _):
        await cannot_connect(_serial(ours, parity="E"), "cannot connect: Invalid argument")  # a pseudo-terminal has no parity
        first, second = opened(_serial(ours)), opened(_serial(ours))
        reading = asyncio.create_task(first.read(1, HOLDING, 0, 1))
        await until(lambda: open_handles(ours) == 1, "opened")
        with pytest.raises(Unavailable, match=r"cannot connect: .*lock"):
            await second.read(1, HOLDING, 0, 1)  # a line has one master
        await asyncio.gather(reading, return_exceptions=True)
        first.close()


@pytest.mark.req("F1")
@pytest.mark.field("FC-F07")
async def test_a_serial_adapter_that_is_pulled_and_plugged_is_used_again(tmp_path: Path) -> None:
    changes: list[tuple[int | None, str]] = []
    with serial_line(tmp_path) as (ours, _):
        link = opened(_serial(ours, timeout_s=60), changes)
        reading = asyncio.create_task(link.read(1, HOLDING, 0, 1))
        await until(lambda: open_handles(ours) == 1, "opened")
    async with asyncio.timeout(30):
        with pytest.raises(Unavailable, match="connection was lost"):
            await reading  # at once, not after the time-out
    with pytest.raises(Unavailable) as away:
        await link.read(1, HOLDING, 0, 1)
    await pause(away.value.retry_after_s)
    with serial_line(tmp_path) as (_, its), its.open("r+b", buffering=0) as device:
        reading = asyncio.create_task(link.read(1, HOLDING, 3, 1))
        request = await asyncio.to_thread(device.read, 8)
        assert request[:6] == b"\x01\x03\0\x03\0\x01"
        device.write(b"\x01\x03\x02\0\x2a\x39\x9b")
        assert await reading == (42,)
        link.close()
    assert [bool(why) for _, why in changes] == [True, False]


@pytest.mark.req("F1")
@pytest.mark.field("FC-F07")
async def test_a_plc_that_moved_to_another_address_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name service is a table here; all else, sockets included, is real."""
    address = {"plc.test": "127.0.0.1"}
    loop = asyncio.get_running_loop()
    ask = loop.getaddrinfo

    async def resolve(host: Any, port: Any, **kind: Any) -> Any:
        return await ask(address.get(host, host), port, **kind)

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    async with raw_plc(lambda _: registers(1)) as old:
        link = opened(_link(old.port, host="plc.test"))
        assert await link.read(1, HOLDING, 0, 1) == (1,)
        old.answer = lambda _: None  # the cable is pulled: no reset, only silence
        async with raw_plc(lambda _: registers(2), host="127.0.0.2", port=old.port) as new:
            address["plc.test"] = "127.0.0.2"
            with pytest.raises(Unavailable) as away:
                await link.read(1, HOLDING, 0, 1)
            await pause(away.value.retry_after_s)
            assert await link.read(1, HOLDING, 0, 1) == (2,)
            assert (old.connections, new.connections) == (1, 1)
            await until(lambda: old.open == 0, "the old socket is closed")
            link.close()


def _link(port: int, **changes: Any) -> Link:
    return Link.model_validate({"id": "l", "host": "127.0.0.1", "port": port, "timeout_s": 0.3, "retries": 0} | changes)


def _serial(device: Path, **changes: Any) -> Link:
    serial = {"device": str(device), "parity": changes.pop("parity", "N")}
    return Link.model_validate({"id": "l", "protocol": "rtu", "serial": serial, "timeout_s": 0.3, "retries": 0} | changes)
