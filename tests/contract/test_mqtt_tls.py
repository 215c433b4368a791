"""MQTT over TLS against a real mosquitto with the shipped TLS listener, and certificates made for the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drivers.mqtt.settings import MqttSettings
from drivers.sim.broker import Broker, filled, free_port
from tests.contract.test_mqtt_session import ALARMS, Store
from tests.support.broker import running_broker, running_session, settings_for, why_not
from tests.support.certificates import self_signed, signed_by
from tests.support.waiting import until

CONFIG = Path(__file__).parents[2] / "config"


@dataclass(frozen=True)
class TlsSite:
    """A broker with both listeners, and who vouches for whom."""

    broker: Broker
    folder: Path
    port: int
    authority: tuple[Path, Path]

    async def settings(self, user: str, **changes: Any) -> MqttSettings:
        """Settings of a client that is ``user`` by its certificate alone."""
        cert, key = await signed_by(self.authority, self.folder, user)
        tls = {"ca": self.authority[0], "cert": cert, "key": key}
        told = {"port": self.port, "username": None, "password": None, "client_id": user, "tls": tls}
        return settings_for(self.broker, **(told | changes))


@asynccontextmanager
async def tls_site(folder: Path) -> AsyncIterator[TlsSite]:
    authority = await self_signed(folder, "authority")
    cert, key = await signed_by(authority, folder, "broker")
    port = free_port()
    names = {
        "TLS_PORT": str(port), "TLS_ADDRESS": "127.0.0.1", "CA_FILE": str(authority[0]), "CERT_FILE": str(cert),
        "KEY_FILE": str(key),
    }  # fmt: skip
    listener = filled(CONFIG / "mosquitto" / "tls-listener.conf.in", names)
    async with running_broker(folder, extras={"tls": listener}) as broker:
        yield TlsSite(broker, folder, port, authority)


@pytest.mark.req("F5")
async def test_both_sides_are_known_by_their_certificates(tmp_path: Path) -> None:
    async with tls_site(tmp_path) as site:
        store = Store()
        gateway_settings = await site.settings("plc", alarm_topics=(), state_prefix="plant")
        async with (
            running_session(gateway_settings, Store()) as gateway,
            running_session(await site.settings("floorhand", receive_maximum=3), store) as session,
        ):
            large = [b"%d" % n + b"x" * 60_000 for n in range(10)]  # several TLS records each
            await asyncio.gather(*(gateway.publish(ALARMS, payload) for payload in large))
            await until(lambda: session.counts.acknowledged == 10, "all")
            assert store.payloads == large


@pytest.mark.req("F5")
async def test_whoever_has_no_certificate_or_trusts_another_authority_stays_out(tmp_path: Path) -> None:
    async with tls_site(tmp_path) as site:
        stranger = await self_signed(tmp_path, "stranger")
        anonymous = {"ca": site.authority[0]}
        forged = {"ca": site.authority[0], "cert": stranger[0], "key": stranger[1]}
        distrustful = {"ca": stranger[0]}
        unknown, mistrusted = "cannot be reached", "CERTIFICATE_VERIFY_FAILED"
        for tls, why in ((anonymous, unknown), (forged, unknown), (distrustful, mistrusted)):
            assert why in await why_not(await site.settings("floorhand", tls=tls))
        async with running_session(settings_for(site.broker), Store()) as session:  # the loopback listener, with its password
            assert session.is_connected


@pytest.mark.req("F5")
async def test_a_password_file_is_read_at_each_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        password = tmp_path / "password"
        password.write_text("wrong\n", encoding="utf-8")
        settings = settings_for(broker, password=None, password_file=password)
        assert "Not authorized" in await why_not(settings)
        password.write_text("floorhand-pw\n", encoding="utf-8")
        async with running_session(settings, Store()) as session:
            assert session.is_connected
        password.unlink()
        assert str(password) in await why_not(settings)
