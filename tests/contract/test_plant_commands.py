"""``floorhand plant`` as an engineer uses it: typed orders, Ctrl-C, several links, a broker, what is said of mistakes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from drivers.mqtt.topics import IncomingMessage, parse_alarm
from drivers.sim.plant_file import load_plant
from tests.support.broker import USERS, running_broker, running_session, settings_for
from tests.support.plant import PLANT_FILE, running_line
from tests.support.raw_client import connected, mbap, words
from tests.support.waiting import until

pytestmark = [pytest.mark.req("F9")]

COMMAND = [sys.executable, "-m", "appliance", "plant"]


async def start(*arguments: str, stdin: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def run(*arguments: str) -> tuple[int, str, str]:
    process = await start(*arguments, stdin=asyncio.subprocess.DEVNULL)
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def line_with(process: asyncio.subprocess.Process, text: str) -> str:
    """Return the next line that holds ``text``."""
    assert process.stdout is not None
    async with asyncio.timeout(20):
        while line := (await process.stdout.readline()).decode():
            if text in line:
                return line
    raise AssertionError(f"ended without saying {text}")


async def test_people_read_sentences_type_words_at_a_terminal_and_press_ctrl_c() -> None:
    keyboard, terminal = os.openpty()
    try:
        process = await start("run", "--port", "0", stdin=terminal)
        listening = await line_with(process, "tcp at 127.0.0.1:")
        port = int(listening.partition("127.0.0.1:")[2].partition(",")[0])
        await line_with(process, "Type orders")
        os.write(keyboard, b"set motor_3.fan_speed 42\nset motor_3.fan_sped 42\n")
        await line_with(process, "done: set")
        assert "motor_3.fan_sped is not a tag" in await line_with(process, "not done")
        async with connected(port) as client:
            assert await client.ask(words(3, 0, 1)) == mbap(b"\x03\x02\x00\x2a")
            assert await client.ask(words(6, 1, 80)) == mbap(words(6, 1, 80))
        assert "conveyor_3.speed = 80" in await line_with(process, "written:")
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            assert await process.wait() == 0
    finally:
        os.close(keyboard)
        os.close(terminal)


async def test_it_plays_on_without_anybody_at_its_input() -> None:
    process = await start("run", "--port", "0", "--json", stdin=asyncio.subprocess.DEVNULL)
    ready = json.loads(await line_with(process, "ready"))
    async with connected(ready["port"]) as client:
        assert len(await client.ask(words(4, 0, 2))) == len(mbap(b"\x04\x04\0\0\0\0"))
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        assert await process.wait() == 0


async def test_a_port_that_is_taken_is_named_with_a_cure(tmp_path: Path) -> None:
    async with running_line(tmp_path) as line:
        code, _, err = await run("run", "--port", str(line.port))
    assert code == 1
    assert f"cannot listen at 127.0.0.1:{line.port}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "--scenario", "over-temprature"), "Did you mean 'over-temperature'?"),
        (("run", "--plant", "nowhere.yaml"), "nowhere.yaml"),
        (("run", "--link", "line_9"), "line_3"),
        (("run", "--protocol", "tls"), "--cert"),
        (("check", "--scenario", "dead-slave", "--plant", str(PLANT_FILE)), "drive_*.speed"),
        (("replay", str(PLANT_FILE)), "is not a recording"),
        (("generate", "-o", str(PLANT_FILE)), "Name another file"),
    ],
)
async def test_a_mistake_is_named_with_its_cure_and_ends_with_78(arguments: tuple[str, ...], says: str) -> None:
    code, out, err = await run(*arguments)
    assert (code, out) == (78, "")
    assert says in err
    assert "Traceback" not in err


async def test_the_shipped_scenarios_are_listed() -> None:
    code, out, _ = await run("scenarios", "--json")
    assert code == 0
    assert {"network-trouble", "alarm-burst"} <= {row["name"] for row in json.loads(out)}
    code, out, _ = await run("vocabulary", "--json")
    assert code == 0
    shown = {(row["kind"], row["name"]): row for row in json.loads(out)}
    assert {("order", "misbehave"), ("signal", "lag")} <= shown.keys()
    assert all(row["about"] for row in shown.values())


async def test_a_scenario_plays_by_its_timeline_and_tells(tmp_path: Path) -> None:
    story: dict[str, Any] = {
        "speed": 20,
        "events": [{"at_s": 4, "do": "set", "tag": "pump_3.pressure", "to": 1.5}, {"at_s": 20, "do": "recover"}],
    }
    async with running_line(tmp_path, scenario=story) as line:
        await line.process.report(lambda r: r.get("event") == "alarm" and r.get("state") == "cleared", within_s=10)
        assert [(each["do"], each["at_s"]) for each in line.reports("happened")] == [("set", 4.0), ("recover", 20.0)]
        raised = line.reports("alarm")[0]
        assert (raised["id"], raised["state"], raised["value"]) == ("pump_3_low_pressure", "raised", 1.5)


@pytest.mark.req("F1")
async def test_tls_is_served_with_the_certificate_it_is_given(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = await asyncio.create_subprocess_exec(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=plc", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await made.wait() == 0
    async with running_line(tmp_path, "--protocol", "tls", "--cert", str(cert), "--key", str(key)) as line:
        trust = ssl.create_default_context(cafile=str(cert))
        reader, writer = await asyncio.open_connection("127.0.0.1", line.port, ssl=trust)
        writer.write(mbap(words(3, 0, 1)))
        async with asyncio.timeout(5):
            assert await reader.readexactly(11) == mbap(b"\x03\x02\x00\x3c")
        writer.close()
        await writer.wait_closed()


@pytest.mark.req("F6", "F9")
async def test_a_generated_plant_of_500_alarms_is_sound_and_bursts_over_the_broker(tmp_path: Path) -> None:
    config = tmp_path / "config"
    shutil.copytree(PLANT_FILE.parent, config)
    (config / "plant.yaml").unlink()
    code, _, err = await run("generate", "--assets", "125", "--tags-per-asset", "8", "-o", str(config / "plant.yaml"))
    assert code == 0, err
    plant = load_plant(config / "plant.yaml")
    checked = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "appliance", "config", "check", "--config", str(config),
        env={**os.environ, "FLOORHAND_MQTT_PASSWORD_FILE": os.devnull}, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, complaint = await checked.communicate()
    assert checked.returncode == 0, complaint.decode()
    heard: list[AlarmEvent] = []

    async def take(message: IncomingMessage) -> None:
        heard.append(parse_alarm(message, plant))

    secret = tmp_path / "plc.password"
    secret.write_text(USERS["plc"], encoding="ascii")
    async with running_broker(tmp_path) as broker, running_session(settings_for(broker), take):
        arguments = ["--mqtt-port", str(broker.port), "--mqtt-user", "plc", "--mqtt-password-file", str(secret)]
        async with running_line(tmp_path, *arguments, plant=config / "plant.yaml") as line:
            await line.do("burst", count=500, over_s=1)
            await until(lambda: len(heard) == 500, "500 alarms", within_s=30)
            counts = await line.counts()
            assert (counts["raised"], counts["cleared"]) == (500, 0)
    assert len({event.alarm_id for event in heard}) == 500
    assert {event.change for event in heard} == {AlarmChange.RAISED}
