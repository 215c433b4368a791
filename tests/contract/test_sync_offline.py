"""Losing the coordinator and finding it again: what is logged, what is shown, what never counts as an answer."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.store import work_orders
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.settings import SyncSettings
from tests.support.clock import CountingIds, ManualClock
from tests.support.coordinator import (
    QUICK,
    CoordinatorProcess,
    Network,
    appliance_side,
    arrived,
    eventually,
    running_coordinator,
)

P1, P2 = OperationLane.P1, OperationLane.P2


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    with running_coordinator(tmp_path_factory.mktemp("coordinator")) as process:
        yield process


@pytest.mark.req("C9", "C10")
async def test_a_loss_is_logged_once_and_what_happened_offline_arrives_after_it(
    coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    network, said = Network(), list[bool]()
    token = coordinator.enrol("offline")
    async with appliance_side(tmp_path, coordinator.url, token, device="offline", network=network) as side:
        side.availability.listeners.append(lambda online, _: said.append(online))
        assert await side.uplink.drain(10)
        assert side.availability.is_online
        network.is_cut = True
        await eventually(lambda: not side.availability.is_online)
        assert "coordinator" in side.degraded.reasons
        tries = len(network.seen)
        await side.write(P1, 20, "test.offline")
        await eventually(lambda: len(network.seen) > tries + 3)  # more failures are no further loss
        assert (await side.uplink.progress())["lanes"]["P1"]["pending"] == 21
        network.is_cut = False
        await eventually(lambda: side.availability.is_online)
        assert await side.uplink.drain(10)
        assert said == [False, True]
        assert "coordinator" not in side.degraded.reasons
        assert await side.bench.kinds(P1) == ["link.lost", *["test.offline"] * 20, "link.back"]
        assert arrived(coordinator, "offline") == await side.log()


@pytest.mark.req("C9")
async def test_a_restart_while_offline_is_the_same_loss(coordinator: CoordinatorProcess, tmp_path: Path) -> None:
    clock, ids, said = ManualClock(), CountingIds(), list[bool]()
    token = coordinator.enrol("restarted-offline")
    for _ in range(2):
        network = Network()
        network.is_cut = True
        async with appliance_side(
            tmp_path, coordinator.url, token, device="restarted-offline", network=network, clock=clock, ids=ids
        ) as side:
            side.availability.listeners.append(lambda online, _: said.append(online))
            await eventually(lambda net=network: len(net.seen) >= 3)  # type: ignore[misc]
            assert not side.availability.is_online
            assert await side.kinds("link.lost", "link.back") == ["link.lost"]
    async with appliance_side(tmp_path, coordinator.url, token, device="restarted-offline", clock=clock, ids=ids) as side:
        side.availability.listeners.append(lambda online, _: said.append(online))
        assert await side.uplink.drain(10)
        assert await side.kinds("link.lost", "link.back") == ["link.lost", "link.back"]
    assert said == [False, True]


@pytest.mark.req("Y2")
async def test_a_work_order_hears_its_number_and_its_status(coordinator: CoordinatorProcess, tmp_path: Path) -> None:
    token = coordinator.enrol("orders")
    async with appliance_side(tmp_path, coordinator.url, token, device="orders") as side:
        bench = side.bench
        await bench.database.transaction(
            lambda tx: work_orders.create(
                tx, bench.clock, order_id="wo_7", turn_id=None, asset="motor_3", title="Check the fan", detail="bearing"
            )
        )
        side.uplink.notify()

        async def holds(number: str | None, status: str) -> bool:
            row = await bench.one("SELECT number, status FROM work_order WHERE id = 'wo_7'")
            return (row["number"], row["status"]) == (number, status)

        (listed,) = await orders(coordinator, token)
        assert (listed["id"], listed["asset"], listed["detail"], listed["status"]) == ("wo_7", "motor_3", "bearing", "open")
        await eventually(lambda: holds(listed["number"], "open"))
        changed = coordinator.admin("PATCH", "/v1/work-orders/wo_7", json={"status": "done"}, headers={"If-Match": '"1"'})
        assert changed.status_code == 200, changed.text
        await eventually(lambda: holds(listed["number"], "done"))


async def orders(coordinator: CoordinatorProcess, token: str) -> list[dict[str, str]]:
    def listed() -> list[dict[str, str]]:
        found: list[dict[str, str]] = coordinator.ask(token, "GET", "/v1/work-orders").json()["work_orders"]
        return found

    await eventually(lambda: bool(listed()))
    return listed()


async def test_a_revoked_device_is_away_and_comes_back_with_a_new_token(coordinator: CoordinatorProcess, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(coordinator.enrol("revoked"))
    async with appliance_side(tmp_path, coordinator.url, "", device="revoked", token_file=token_file) as side:
        await side.write(P2, 5)
        assert await side.uplink.drain(10)
        assert coordinator.admin("DELETE", "/v1/devices/revoked").status_code == 204
        await eventually(lambda: not side.availability.is_online)
        assert "revoked" in side.degraded.reasons["coordinator"]
        await side.write(P2, 5)
        token_file.write_text(coordinator.enrol("revoked"))
        await eventually(lambda: side.availability.is_online)
        assert await side.uplink.drain(10)
        assert arrived(coordinator, "revoked") == await side.log()


@asynccontextmanager
async def answering(reply: bytes) -> AsyncIterator[str]:
    """A server that is not a coordinator: it gives everybody the same answer."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.field("FC-Y04")
@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n<html>Welcome!</html>",
        b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status":"ok"}',
        b'HTTP/1.1 403 Forbidden\r\nContent-Length: 17\r\n\r\n{"error":"proxy"}',
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
async def test_what_is_no_coordinator_never_acknowledges(tmp_path: Path, reply: bytes) -> None:
    async with answering(reply) as url, appliance_side(tmp_path, url, "token") as side:
        await side.write(P2, 3)
        await eventually(lambda: not side.availability.is_online)
        assert (await side.uplink.progress())["lanes"]["P2"]["pending"] == 3


@pytest.mark.req("X6")
async def test_a_redirect_does_not_carry_the_token_elsewhere(coordinator: CoordinatorProcess) -> None:
    reply = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {coordinator.url}/v1/heads\r\nContent-Length: 0\r\n\r\n"
    async with answering(reply.encode()) as url:
        link = HttpCoordinator(SyncSettings(coordinator=url, device="elsewhere", token=coordinator.enrol("elsewhere"), **QUICK))
        with pytest.raises(Unavailable, match="not a coordinator"):
            await link.heads()
        await link.close()
    devices = coordinator.admin("GET", "/v1/devices").json()["devices"]
    assert [row["last_seen_utc"] for row in devices if row["name"] == "elsewhere"] == [None]


async def test_a_silent_server_is_given_up_in_bounded_time() -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        settings = SyncSettings(coordinator=url, device="line-3", token="t", **QUICK | {"total_timeout_s": 0.2})
        link = HttpCoordinator(settings)
        with pytest.raises(Unavailable, match="no answer"):
            await asyncio.wait_for(link.heads(), 5)
        await link.close()


@pytest.mark.req("X6")
async def test_tls_is_verified_and_a_private_authority_can_be_trusted(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate of this test; install the package openssl")
    cert, key = make_certificate(tmp_path)
    with running_coordinator(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as coordinator:
        assert coordinator.url.startswith("https://")
        settings = SyncSettings(coordinator=coordinator.url, device="line-3", token=coordinator.enrol("line-3"), ca_file=cert)
        trusting = HttpCoordinator(settings)
        assert await trusting.heads() == {}
        await trusting.close()
        wary = HttpCoordinator(settings.model_copy(update={"ca_file": None}))
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await wary.heads()
        await wary.close()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=coordinator", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*command, *subject, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


@pytest.mark.req("X4")
async def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("secret")
    token_file.chmod(0o644)
    link = HttpCoordinator(SyncSettings(coordinator="https://coordinator.site", device="line-3", token_file=token_file))
    with pytest.raises(Refused, match="chmod 600"):
        await link.heads()


@pytest.mark.req("X4")
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\0" * 64, "geheim ä".encode(), b"two\nlines"])
async def test_a_damaged_token_file_is_named_and_no_fault(tmp_path: Path, content: bytes) -> None:
    token_file = tmp_path / "token"
    token_file.touch(mode=0o600)
    token_file.write_bytes(content)
    link = HttpCoordinator(SyncSettings(coordinator="https://coordinator.site", device="line-3", token_file=token_file))
    with pytest.raises(Refused, match="does not hold a token"):
        await link.heads()
