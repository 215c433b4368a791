"""The doctor and the vital signs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import shutil
import socket
import sqlite3
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.console.api import LocalApi
from appliance.contracts.errors import ConfigError
from appliance.contracts.link import LinkTls
from appliance.health.doctor import Finding, Subject, examine
from appliance.health.link_checks import Endpoint
from appliance.health.vitals import read_vitals
from appliance.settings_subject import subject_of
from appliance.store.database import Database
from tests.support.clock import ManualClock
from tests.support.command_line import SHIPPED
from tests.support.core import StandInCore

pytestmark = pytest.mark.req("O1")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """A machine at rest on which nothing is wrong but that the service does not run."""
    wav = tmp_path / "in"
    wav.mkdir()
    return Subject(
        config_faults=(),
        data_dir=tmp_path,
        socket=tmp_path / "api.sock",
        database=tmp_path / "ledger.sqlite",
        microphone=str(wav),
        speaker="none",
    )


@pytest.fixture
def listening_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def problems(subject: Subject, clock: ManualClock | None = None) -> dict[str, Finding]:
    found = examine(subject, clock or ManualClock())
    assert all(finding.ok == (finding.cure == "") for finding in found), "a problem has a cure, health has none"
    return {finding.check: finding for finding in found if not finding.ok}


@pytest.mark.field("FC-O01")
def test_each_fault_is_named_with_its_cure(subject: Subject, tmp_path: Path, listening_port: int) -> None:
    assert set(problems(subject)) == {"service"}
    clock = ManualClock()
    clock.is_synced = False
    ill = replace(
        subject,
        config_faults=[ConfigError("unknown key", file="appliance.yaml", key="x", cure="Remove it.")],
        links=[Endpoint("broker", "the broker", "127.0.0.1", 1), Endpoint("plc.a", "PLC a", "127.0.0.1", listening_port)],
        coordinator_url="http://127.0.0.1:1",
        microphone=str(tmp_path / "no" / "where"),
        speaker="card",
        speech=[("recogniser", False, "vosk")],
    )
    found = problems(ill, clock)
    assert set(found) - {"speaker"} == {"service", "config", "broker", "coordinator", "microphone", "recogniser", "clock"}
    assert "Connection refused" in found["broker"].detail
    assert found["config"].cure == "Remove it."
    assert found["config"].detail == "appliance.yaml: x: unknown key."


def found_at(subject: Subject, link: Endpoint) -> Finding:
    (finding,) = (each for each in examine(replace(subject, links=[link]), ManualClock()) if each.check == link.check)
    return finding


@pytest.mark.field("FC-O01")
@pytest.mark.req("T3", "X4")
def test_a_secret_that_others_can_read_is_named_and_one_that_is_not_there_if_it_has_to_be(
    subject: Subject, tmp_path: Path
) -> None:
    key = tmp_path / "session-tokens.pem"
    assert set(problems(replace(subject, secrets=[("the key", key, False)]))) == {"service"}, "it is made at first need"
    (lost,) = problems(replace(subject, secrets=[("a key of m", key, True)])).keys() - {"service"}
    assert lost == "secrets"
    key.write_text("key")
    key.chmod(0o640)
    found = problems(replace(subject, secrets=[("the key", key, False)]))["secrets"]
    assert found.detail == f"the key, {key}, can be read by others (mode 0640)"
    assert found.cure.startswith(f"Run: chmod 600 {key}.")
    key.chmod(0o600)
    assert "secrets" not in problems(replace(subject, secrets=[("the key", key, False)]))


@pytest.mark.req("A4")
def test_keys_and_language_models_of_the_configuration_are_looked_at(tmp_path: Path) -> None:
    """A model is a link, and its keys are secrets; the key of session tokens is one in any case."""
    config = tmp_path / "config"
    shutil.copytree(SHIPPED, config)
    told = "language_models: [{name: near, url: 'http://127.0.0.1:1/v1', key_files: [%s]}]" % (tmp_path / "key")
    with (config / "appliance.yaml").open("a") as file:
        file.write(f"\n{told}\n")
    found = subject_of(config, {"FLOORHAND_DATA": str(tmp_path)})
    assert found.config_faults == ()
    assert [each.check for each in found.links if "model" in each.check] == ["language_model.near"]
    assert [(file.name, needed) for _, file, needed in found.secrets] == [("session-tokens.pem", False), ("key", True)]
    ill = problems(found)
    assert "Connection refused" in ill["language_model.near"].detail and "secrets" in ill


def test_a_udp_link_is_not_tested_by_a_tcp_connection(subject: Subject) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        finding = found_at(subject, Endpoint("plc.u", "PLC u", "127.0.0.1", server.getsockname()[1], "udp"))
        assert finding.ok
        assert "shows only by asking" in finding.detail
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(1)  # and nothing was asked
    assert not found_at(subject, Endpoint("plc.u", "PLC u", "no-such-host.invalid", 502, "udp")).ok


@pytest.mark.field("FC-O01")
def test_a_serial_line_is_looked_for(subject: Subject, tmp_path: Path) -> None:
    missing = found_at(subject, Endpoint("plc.r", "the line of PLC r", str(tmp_path / "ttyUSB0"), transport="serial"))
    assert "No such file" in missing.detail
    assert "/dev/serial/by-id" in missing.cure
    assert "no serial device" in found_at(subject, Endpoint("plc.r", "the line", str(tmp_path), transport="serial")).detail
    ours, theirs = pty.openpty()
    try:
        assert found_at(subject, Endpoint("plc.r", "the line", os.ttyname(theirs), transport="serial")).ok
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=plc", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.mark.field("FC-O01")
def test_a_tls_link_is_well_when_the_certificate_is(subject: Subject, certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def look(tls: LinkTls) -> Finding:
            answering = threading.Thread(target=_answer_in_tls, args=(server, context))
            answering.start()
            finding = found_at(subject, Endpoint("plc.t", "PLC t", "127.0.0.1", port, "tls", tls))
            answering.join(10)
            return finding

        good = look(LinkTls(ca=cert))
        assert good.ok
        assert "certificate is good" in good.detail
        stranger = look(LinkTls(ca=cert, server_name="other"))
        assert "Hostname mismatch" in stranger.detail
        assert "server_name" in stranger.cure
        assert "certificates cannot be used" in look(LinkTls(ca=tmp_path / "no.pem")).detail


def _answer_in_tls(server: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
        secured.recv(1)


def test_a_missing_tool_is_named_with_its_package(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert {problems(subject)[name].cure for name in ("git", "espeak-ng")} == {"apt-get install git", "apt-get install espeak-ng"}


async def test_a_database_at_rest_is_checked_and_left_as_it_was(subject: Subject) -> None:
    database = await Database.open(subject.database, ManualClock())
    await database.close()
    before = sorted(path.name for path in subject.data_dir.iterdir())
    assert "database" not in problems(subject)
    assert sorted(path.name for path in subject.data_dir.iterdir()) == before
    content = bytearray(subject.database.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    subject.database.write_bytes(content)
    assert "Copy" in problems(subject)["database"].cure


def test_rows_that_point_nowhere_are_found(subject: Subject) -> None:
    with contextlib.closing(sqlite3.connect(subject.database)) as made:
        made.executescript("CREATE TABLE a (x INTEGER PRIMARY KEY); CREATE TABLE b (a REFERENCES a); INSERT INTO b VALUES (7);")
    assert "missing a" in problems(subject)["database"].detail


@pytest.mark.field("FC-R06")
async def test_beside_a_running_service_the_database_is_not_touched(subject: Subject) -> None:
    subject.database.write_bytes(b"not a database at all")
    ledger = await Database.open(subject.data_dir / "other.sqlite", ManualClock())
    core = StandInCore()
    core.degraded = {"voice": "no microphone", "tool:count": "the tool count is left out: no", "playbook:x": "it is left out"}
    core.degraded["model:cloud"] = "it does not take the key (answered 401)"
    api = LocalApi(core, ledger, dict, path=subject.socket, language="en")
    running = asyncio.create_task(api.run())
    async with asyncio.timeout(10):
        await api.serving.wait()
    found = await asyncio.to_thread(problems, subject)
    assert set(found) == {"service.voice", "service.tool:count", "service.playbook:x", "service.model:cloud"}
    assert "at cloud below language_models:" in found["service.model:cloud"].cure
    assert found["service.tool:count"].cure.endswith("list it in appliance.yaml below tools: `disabled: [count]`.")
    assert "`floorhand playbooks reload`" in found["service.playbook:x"].cure
    assert found["service.voice"].detail == "no microphone"
    core.ready = False
    assert "service" in await asyncio.to_thread(problems, subject)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await ledger.close()
    assert "database" in problems(subject)


@pytest.mark.field("FC-O01")
def test_a_service_that_is_frozen_is_said_not_to_answer(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel accepts for a stopped process is not read by anybody."""
    monkeypatch.setattr("appliance.health.doctor._ANSWER_S", 0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as frozen:
        frozen.bind(str(subject.socket))
        frozen.listen(8)
        found = problems(subject)
    assert "does not answer" in found["service"].detail and "restart floorhand" in found["service"].cure
    assert "does not answer" in found["database"].detail


def test_vitals_of_a_pi(tmp_path: Path) -> None:
    zone = tmp_path / "class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "temp").write_text("61234\n")
    firmware = tmp_path / "devices/platform/soc/soc:firmware"
    firmware.mkdir(parents=True)
    (firmware / "get_throttled").write_text("50005\n")
    vitals = read_vitals(tmp_path, sys_root=tmp_path)
    assert vitals.cpu_temperature_degc == 61.234
    assert vitals.throttling == ("under_voltage", "throttled", "under_voltage_since_boot", "throttled_since_boot")
    (firmware / "get_throttled").unlink()
    hwmon = tmp_path / "class/hwmon/hwmon1"
    hwmon.mkdir(parents=True)
    (hwmon / "name").write_text("rpi_volt\n")
    (hwmon / "in0_lcrit_alarm").write_text("1\n")
    assert read_vitals(tmp_path, sys_root=tmp_path).throttling == ("under_voltage",)


def test_vitals_of_this_machine_are_plausible(tmp_path: Path) -> None:
    vitals = read_vitals(tmp_path)
    assert vitals.memory_total_bytes is not None
    assert vitals.own_memory_bytes is not None
    assert 0 < vitals.own_memory_bytes < vitals.memory_total_bytes
    assert vitals.data_free_bytes is not None
    assert vitals.data_free_bytes > 0
    bare = read_vitals(tmp_path / "gone", sys_root=tmp_path, proc_root=tmp_path)
    assert (bare.throttling, bare.cpu_temperature_degc, bare.memory_total_bytes, bare.data_free_bytes) == (None, None, None, None)
