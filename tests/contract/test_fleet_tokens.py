"""Session tokens of the coordinator: made over HTTP in a process of its own, verified on a device that cannot reach it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from appliance.access.keys import KeyRing
from appliance.contracts.errors import Malformed, NotPermitted, Unidentified
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.coordination.availability import Availability
from appliance.foundation.supervisor import Degraded
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.key_refresh import KeyRefresh
from appliance.sync.settings import SyncSettings
from tests.support.clock import ManualClock
from tests.support.coordinator import QUICK, CoordinatorProcess, Network, eventually, running_coordinator
from tests.support.ledger import open_bench
from tests.support.tokens import Desk, desk_of, header_of

pytestmark = pytest.mark.req("T3")


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    with running_coordinator(tmp_path_factory.mktemp("coordinator"), "--fleet", "north") as process:
        process.enrol("line-3")
        yield process


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """One that a test may end."""
    with running_coordinator(tmp_path, "--fleet", "north") as process:
        process.enrol("line-3")
        yield process


def key_file_of(coordinator: CoordinatorProcess) -> Path:
    return coordinator.token_file.with_name("coordinator-signing-key.pem")


def clock_of_now(coordinator: CoordinatorProcess) -> ManualClock:
    """A clock that agrees with the coordinator's, which is the machine's."""
    from appliance.foundation.system_clock import SystemClock

    return ManualClock(SystemClock().utc())


@contextlib.asynccontextmanager
async def device(
    folder: Path, coordinator: CoordinatorProcess, network: Network, *, every_s: float = 3600.0
) -> AsyncIterator[tuple[Desk, Availability]]:
    """A device that hears the coordinator's keys; leaving is its end, not that of what it keeps."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    settings = SyncSettings(coordinator=coordinator.url, device="line-3", token="t", **QUICK)
    async with open_bench(folder, clock=clock_of_now(coordinator)) as bench:
        desk = desk_of(bench, folder, coordinator=coordinator.url)
        link = HttpCoordinator(settings, transport=network)
        availability = Availability(bench.database, bench.clock, Degraded())
        assert desk.keys.of_coordinator is not None
        refresh = KeyRefresh(link, availability, settings, desk.keys.of_coordinator.replace, every_s=every_s)
        availability.listeners.append(refresh.changed)
        running = asyncio.create_task(refresh.run())
        try:
            yield desk, availability
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await link.close()


def knows(desk: Desk) -> bool:
    """Whether it has heard of the coordinator's keys."""
    assert desk.keys.of_coordinator is not None
    return desk.keys.of_coordinator.keys() is not None


def make(coordinator: CoordinatorProcess, **wanted: Any) -> str:
    answer = coordinator.admin("POST", "/v1/session-tokens", json={"person": "ana", "role": "engineer", "hours": 2} | wanted)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def heard(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "keys" / "coordinator.json").read_text(encoding="utf-8"))
    return told


async def test_a_token_of_the_coordinator_verifies_when_it_is_dead_and_after_a_restart(
    tmp_path: Path, mortal: CoordinatorProcess
) -> None:
    folder, network = tmp_path / "device", Network()
    one, all_of_them = make(mortal, device="line-3"), make(mortal, fleet=True, role="operator")
    async with device(folder, mortal, network) as (desk, _):
        await eventually(lambda: knows(desk))
        mortal.kill()
        found = await desk.tokens.verify(one)
        token_id = found.principal.token_id
        assert found.principal == Principal("ana", Identification.TOKEN, "engineer", AccessLevel.CRITICAL, token_id)
        assert (await desk.tokens.verify(all_of_them)).principal.level is AccessLevel.OPERATOR
        own = await desk.make()
        desk.key_file.chmod(0o644)
        assert (await desk.tokens.verify(one)).principal.by == "ana", "what is wrong with the own key is no matter of theirs"
        with pytest.raises(Unidentified, match="that line-3 signed is taken"):
            await desk.tokens.verify(own)
    asked = len(network.seen)
    async with open_bench(folder, clock=clock_of_now(mortal)) as bench:
        again = desk_of(bench, folder, coordinator=mortal.url)
        assert (await again.tokens.verify(one)).principal.by == "ana"
        await again.tokens.revoke(token_id, by="bo", note="lost")
        with pytest.raises(Unidentified, match="revoked by bo"):
            await again.tokens.verify(one)
    assert len(network.seen) == asked == 1, "verifying asks nobody"


async def test_keys_are_asked_for_when_it_comes_back_and_not_in_between(tmp_path: Path, coordinator: CoordinatorProcess) -> None:
    network = Network()
    async with device(tmp_path / "device", coordinator, network) as (_, availability):
        await eventually(lambda: len(network.seen) == 1)
        await availability.missed("gone")
        await availability.missed("gone")
        assert not availability.is_online
        await availability.reached()
        await eventually(lambda: len(network.seen) == 2)
        await availability.reached()
        assert [path for _, path, _ in network.seen] == ["/v1/keys"] * 2
    async with device(tmp_path / "other", coordinator, Network(), every_s=0.01) as (desk, _):
        await eventually(lambda: knows(desk))


async def test_a_lost_coordinator_is_asked_again_and_what_is_known_stays(tmp_path: Path, coordinator: CoordinatorProcess) -> None:
    folder, network = tmp_path / "device", Network()
    network.is_cut = True
    async with device(folder, coordinator, network) as (desk, _):
        await eventually(lambda: network.lost >= 3)
        token = make(coordinator, device="line-3")
        with pytest.raises(Unidentified) as caught:
            await desk.tokens.verify(token)
        assert "has reached it and heard its keys" in caught.value.cure
        network.is_cut = False
        await eventually(lambda: knows(desk))
        await desk.tokens.verify(token)


async def test_a_replaced_key_is_heard_of_and_the_old_ones_tokens_end(tmp_path: Path, mortal: CoordinatorProcess) -> None:
    folder, old = tmp_path / "device", make(mortal, device="line-3")
    async with device(folder, mortal, Network()) as (desk, availability):
        await eventually(lambda: knows(desk))
        await desk.tokens.verify(old)
        mortal.stop()
        key_file_of(mortal).unlink()
        mortal.start()
        new = make(mortal, device="line-3")
        with pytest.raises(Unidentified, match="not known here"):
            await desk.tokens.verify(new)
        for _ in range(2):
            await availability.missed("restarted")
        await availability.reached()
        kid = header_of(new)["kid"]
        await eventually(lambda: heard(folder)["keys"][0]["kid"] == kid)
        await desk.tokens.verify(new)
        with pytest.raises(Unidentified, match="not known here"):
            await desk.tokens.verify(old)


async def test_a_token_for_another_device_or_fleet_is_refused(tmp_path: Path, coordinator: CoordinatorProcess) -> None:
    coordinator.enrol("line-4")
    other = make(coordinator, device="line-4")
    folder = tmp_path / "device"
    async with device(folder, coordinator, Network()) as (desk, _):
        await eventually(lambda: knows(desk))
        with pytest.raises(NotPermitted, match="this token is for line-4, and this is line-3"):
            await desk.tokens.verify(other)
        south = heard(folder) | {"fleet": "south"}
        token = make(coordinator, fleet=True)
        desk.keys.of_coordinator.replace(south)  # type: ignore[union-attr]  # one is configured
        with pytest.raises(NotPermitted, match="this token is for the fleet north, and this is line-3"):
            await desk.tokens.verify(token)
        own = desk.keys.signing_key().sign(desk.claims(aud="fleet:south"))
        with pytest.raises(NotPermitted, match="fleet south"):
            await desk.tokens.verify(own)  # a device speaks for itself alone


async def test_the_coordinators_key_does_not_speak_for_a_device(tmp_path: Path, coordinator: CoordinatorProcess) -> None:
    from appliance.foundation.signed_tokens import SigningKey

    folder = tmp_path / "device"
    async with device(folder, coordinator, Network()) as (desk, _):
        await eventually(lambda: knows(desk))
        stolen = SigningKey.load(key_file_of(coordinator), key="x")
        with pytest.raises(Unidentified, match="says it is from device:line-3, but the key is that of coordinator"):
            await desk.tokens.verify(stolen.sign(desk.claims()))


async def test_a_key_set_is_never_replaced_by_junk(tmp_path: Path, coordinator: CoordinatorProcess) -> None:
    told = coordinator.ask(None, "GET", "/v1/keys").json()
    ring = KeyRing(tmp_path / "device", "line-3", coordinator.url)
    cache = ring.of_coordinator
    assert cache is not None and cache.replace(told) and not cache.replace(told), "the same again is not written again"
    (good,) = told["keys"]
    secret = {"kty": "oct", "k": "AAAA", "kid": good["kid"], "alg": "HS256"}
    others: list[Any] = [
        [], None, {}, [7], [secret], [good] * 17, [good | {"kid": "mine"}], [good | {"x": good["x"][:-2]}], [good | {"x": 7}],
        [good | {"d": good["x"]}], [good | {"crv": "Ed448"}], [good, {"kty": "RSA"}],
    ]  # fmt: skip
    junk = [
        {},
        {"status": "ok"},
        *(told | {"fleet": each} for each in ("", "a\nb", 7)),
        *(told | {"keys": keys} for keys in others),
    ]
    for each in junk:
        with pytest.raises(Malformed):
            cache.replace(each)
        assert cache.keys() is not None and heard(tmp_path / "device")["keys"] == told["keys"], each
    assert not list((tmp_path / "device" / "keys").glob(".*")), "no draft is left"


async def test_junk_from_something_in_between_changes_nothing(tmp_path: Path, coordinator: CoordinatorProcess) -> None:
    older = b'{"code": "http_404", "message": "Not Found"}'
    told = [(200, b"<html>log in</html>"), (200, b'{"keys": []}'), (200, b"[]"), (404, older), (302, b""), (503, b"{}")]
    folder, answers = tmp_path / "device", iter(told)

    class Portal(Network):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            self.seen.append((request.method, request.url.path, {}))
            answer = next(answers, None)
            if answer is None:
                return await super().handle_async_request(request)
            return httpx.Response(answer[0], content=answer[1], headers={"Location": "http://127.0.0.1:9/"})

    portal = Portal()
    async with device(folder, coordinator, portal, every_s=0.01) as (desk, _):
        token = make(coordinator, device="line-3")
        await eventually(lambda: knows(desk))
        await desk.tokens.verify(token)
    assert len(portal.seen) > len(told) and {path for _, path, _ in portal.seen} == {"/v1/keys"}


async def test_keys_of_another_coordinator_or_a_spoilt_file_count_for_nothing(
    tmp_path: Path, coordinator: CoordinatorProcess
) -> None:
    told = coordinator.ask(None, "GET", "/v1/keys").json()
    folder = tmp_path / "device"
    cache = KeyRing(folder, "line-3", coordinator.url).of_coordinator
    assert cache is not None and cache.replace(told)
    other = KeyRing(folder, "line-3", "https://elsewhere").of_coordinator
    assert other is not None and other.keys() is None
    assert KeyRing(folder, "line-3").of_coordinator is None, "with no coordinator there are none"
    for content in (b"", b"{", b"[]", b"null", b"x" * 100_000, b"[" * 50_000):
        (folder / "keys" / "coordinator.json").write_bytes(content)
        spoilt = KeyRing(folder, "line-3", coordinator.url).of_coordinator
        assert spoilt is not None and spoilt.keys() is None
        assert spoilt.replace(told) and spoilt.keys() is not None, "and is mended at the next contact"


# the coordinator itself -----------------------------------------------------------------------------------------------
def test_only_the_administrator_makes_tokens_and_only_for_whom_there_is(coordinator: CoordinatorProcess) -> None:
    of_device = coordinator.enrol("line-5")
    body = {"person": "ana", "role": "engineer", "device": "line-3"}
    assert coordinator.ask(of_device, "POST", "/v1/session-tokens", json=body).status_code == 403
    assert coordinator.ask(None, "POST", "/v1/session-tokens", json=body).status_code == 401
    coordinator.admin("DELETE", "/v1/devices/line-5")
    for changes, status, says in (
        ({"device": "line-9"}, 404, "there is no device line-9"),
        ({"device": "line-5"}, 404, "there is no device line-5"),
        ({"fleet": True}, 422, "name the one device"),
        ({"device": None}, 422, "name the one device"),
        ({"hours": 169}, 422, "168"),
        ({"hours": 0}, 422, "hours"),
        ({"role": "Engineer"}, 422, "role"),
        ({"person": "a\nb"}, 422, "the person's name has characters that cannot be shown"),
        ({"person": " "}, 422, "the person's name is empty"),
        ({"person": " ana"}, 422, "the person's name begins or ends with a space"),
        ({"level": "critical"}, 422, "level"),
    ):
        answer = coordinator.admin("POST", "/v1/session-tokens", json=body | changes)
        assert (answer.status_code, says in answer.json()["message"]) == (status, True), answer.text
        assert "body" not in answer.text and "Value error" not in answer.text


def test_its_keys_are_public_its_key_is_not(coordinator: CoordinatorProcess) -> None:
    answer = coordinator.ask(None, "GET", "/v1/keys")
    assert answer.status_code == 200 and answer.headers["Cache-Control"] == "public, max-age=3600"
    (key,) = answer.json()["keys"]
    assert set(key) == {"kty", "crv", "x", "kid", "use", "alg"} and answer.json()["fleet"] == "north"
    assert stat.S_IMODE(key_file_of(coordinator).stat().st_mode) == 0o600


def test_a_key_that_is_not_private_or_none_keeps_it_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    for content, mode, says in ((b"junk", 0o600, "holds no Ed25519 private key"), (b"junk", 0o640, "can be read by others")):
        file.write_bytes(content)
        file.chmod(mode)
        places = ["--database", str(tmp_path / "c.db"), "--admin-token-file", str(tmp_path / "t"), "--port", "0"]
        command = [sys.executable, "-m", "appliance.coordinator", *places, "--signing-key-file", str(file)]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=30, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}
        )
        assert ended.returncode == 78 and says in ended.stderr


def test_the_command_takes_the_fleets_name_and_names_a_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from appliance.__main__ import main

    assert main(["coordinator", "--fleet", "North Plant", "--admin-token-file", str(tmp_path / "t"), "--port", "0"]) == 78
    assert "fleet" in capsys.readouterr().err and not (tmp_path / "t").exists()
