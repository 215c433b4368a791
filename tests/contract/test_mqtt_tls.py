"""MQTT over TLS against a real mosquitto, with certificates made for the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.mqtt.session import MqttSession
from drivers.sim.broker import Broker
from tests.contract.test_mqtt_session import ALARMS, Store
from tests.support.broker import USERS, running_session, settings_for
from tests.support.waiting import until

TEMPLATE = Path(__file__).parents[2] / "config" / "mosquitto.conf.in"


async def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a self-signed certificate for 127.0.0.1."""
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    making = await asyncio.create_subprocess_exec(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await making.wait() == 0
    return cert, key


@pytest.mark.req("F5")
async def test_a_verified_broker_is_used_and_another_is_not(tmp_path: Path) -> None:
    cert, key = await certificate(tmp_path, "broker")
    stranger, _ = await certificate(tmp_path, "stranger")
    template = tmp_path / "tls.conf.in"
    tls = f"certfile {cert}\nkeyfile {key}\n"
    template.write_text(TEMPLATE.read_text(encoding="utf-8").replace("@ADDRESS@\n", f"@ADDRESS@\n{tls}"), encoding="utf-8")
    broker = Broker(tmp_path / "broker", users=USERS, template=template)
    await broker.start()
    try:
        store = Store()
        async with running_session(settings_for(broker, tls={"ca": str(cert)}, receive_maximum=3), store) as session:
            large = [b"%d" % n + b"x" * 60_000 for n in range(10)]  # several TLS records each
            await asyncio.gather(*(session.publish(ALARMS, payload) for payload in large))
            await until(lambda: session.counts.acknowledged == 10, "all")
            assert store.payloads == large
        degraded = Degraded()
        distrustful = MqttSession(settings_for(broker, tls={"ca": str(stranger)}), SystemClock(), degraded, store)
        running = asyncio.create_task(distrustful.run())
        await until(lambda: degraded.reasons, "said")
        assert degraded.reasons["mqtt"].endswith("cannot be reached: CERTIFICATE_VERIFY_FAILED")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        await broker.kill()
