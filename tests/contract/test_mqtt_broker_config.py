"""The shipped broker configuration, each file of it in a real mosquitto: rights, what survives, what a bridge carries."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused
from appliance.foundation.supervisor import Degraded
from drivers.sim.broker import Broker, filled
from tests.contract.test_mqtt_session import ALARMS, Store, numbered
from tests.support.broker import USERS, publisher, running_broker, running_session, settings_for, settings_of, why_not
from tests.support.waiting import until

CONFIG = Path(__file__).parents[2] / "config"
PLUGIN = next(Path("/usr/lib").rglob("mosquitto_dynamic_security.so"))
COMMANDS = "floorhand/hand/command"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path) as running:
        yield running


@pytest.mark.req("F5")
async def test_a_gateway_publishes_below_plant_and_nowhere_else(broker: Broker) -> None:
    async with publisher(broker) as gateway:
        await gateway.publish(ALARMS, b"1")
        for topic in ("floorhand/hand/alarms", f"{COMMANDS}/stop", "spBv1.0/works/NDATA/edge_1", "other"):
            with pytest.raises(Refused, match=f"the broker refuses a message on {topic}: Not authorized"):
                await gateway.publish(topic, b"1")


@pytest.mark.req("F5")
async def test_the_appliance_cannot_be_its_own_gateway_and_gives_itself_no_commands(broker: Broker) -> None:
    async with running_session(settings_for(broker), Store()) as session:
        await session.publish("floorhand/hand/alarms", b"1")
        await session.publish("spBv1.0/works/NCMD/edge_1", b"1")
        for topic in (ALARMS, "spBv1.0/works/NDATA/edge_1"):
            with pytest.raises(Refused, match="Not authorized"):
                await session.publish(topic, b"1")


@pytest.mark.req("F5")
async def test_nobody_reads_what_is_not_for_him(broker: Broker) -> None:
    """mosquitto 2.0 grants such a subscription and sends nothing."""
    seen = {user: Store() for user in ("plc", "site", "edge")}
    async with (
        publisher(broker) as gateway,
        running_session(settings_for(broker), Store()) as session,
        running_session(settings_of(broker, "plc", "spy", alarm_topics=["#"], state_prefix="plant"), seen["plc"]),
        running_session(settings_of(broker, "edge", "node", alarm_topics=["#"], state_prefix="spBv1.0/states"), seen["edge"]),
        running_session(
            settings_of(broker, "site", "eye", alarm_topics=["#"], state_prefix="floorhand/site/command"), seen["site"]
        ),
    ):
        await gateway.publish(ALARMS, b"from the plant")
        await session.publish("spBv1.0/works/NCMD/edge_1", b"to the node")
        await session.publish("floorhand/hand/alarms", b"for the site")
        await until(lambda: b"for the site" in seen["site"].payloads and seen["edge"].payloads, "what each may read")
    assert b"from the plant" not in seen["site"].payloads
    assert seen["plc"].payloads == []
    assert seen["edge"].payloads == [b"to the node"]


@pytest.mark.req("F5")
async def test_a_broker_that_forbids_our_state_topic_is_named_and_listened_to(broker: Broker) -> None:
    store, degraded = Store(), Degraded()
    settings = settings_for(broker, state_prefix="elsewhere")
    async with publisher(broker) as gateway, running_session(settings, store, degraded):
        await until(lambda: degraded.reasons, "said")
        assert degraded.reasons == {"mqtt-state": "the broker refuses a message on elsewhere/hand/state: Not authorized"}
        await gateway.publish(ALARMS, b"1")
        await until(lambda: store.payloads == [b"1"], "alarms come all the same")


def dynamic_security(user: str, password: str) -> dict[str, Any]:
    """Configuration of mosquitto's dynamic security plugin: ``user`` may connect and publish, and subscribe to nothing."""
    salt = b"twelve bytes"
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    client = {
        "username": user, "password": base64.b64encode(digest).decode(), "salt": base64.b64encode(salt).decode(),
        "iterations": 101, "roles": [],
    }  # fmt: skip
    access = {"publishClientSend": True, "publishClientReceive": True, "subscribe": False, "unsubscribe": True}
    return {"defaultACLAccess": access, "clients": [client], "groups": [], "roles": []}


@pytest.mark.req("F5")
async def test_a_refused_subscription_is_named(tmp_path: Path) -> None:
    """The ACL file of mosquitto 2.0 refuses no subscription; its dynamic security plugin does."""
    (tmp_path / "security.json").write_text(json.dumps(dynamic_security("floorhand", USERS["floorhand"])), encoding="utf-8")
    template = tmp_path / "dynamic.conf.in"
    shipped = (CONFIG / "mosquitto.conf.in").read_text(encoding="utf-8").replace("acl_file @ACL_FILE@\n", "")
    shipped = shipped.replace("password_file @PASSWORD_FILE@\n", "")
    template.write_text(f"{shipped}plugin {PLUGIN}\nplugin_opt_config_file {tmp_path}/security.json\n", encoding="utf-8")
    async with running_broker(tmp_path, template=template) as broker:
        why = await why_not(settings_for(broker))
    assert why == "the broker refuses the subscription to plant/+/alarms: Not authorized"


@pytest.mark.req("F5")
@pytest.mark.field("FC-F18")
async def test_what_was_acknowledged_before_the_last_round_survives_a_kill(tmp_path: Path) -> None:
    """mosquitto acknowledges and then saves, in one round of its loop: what is surely kept is what was acknowledged before
    something that was answered later. Only the newest message, if any, may be lost."""
    store = Store()
    async with running_broker(tmp_path) as broker:
        async with running_session(settings_for(broker), Store()):
            pass
        async with publisher(broker) as gateway:
            for payload in numbered(20):
                await gateway.publish(ALARMS, payload)
            await broker.kill()  # at once: the acknowledgement of the last one has just come
        await broker.start()
        async with publisher(broker) as gateway, running_session(settings_for(broker), store):
            await gateway.publish(ALARMS, b"after")
            await until(lambda: b"after" in store.payloads, "the queue is empty")
    assert store.payloads[:19] == numbered(19)
    assert store.payloads[19:] in ([b"19", b"after"], [b"after"])


async def overflow(folder: Path, template: Path, burst: int) -> list[bytes]:
    """Let a burst of acknowledged messages wait for a client that is away; return those it gets."""
    store = Store()
    async with running_broker(folder, template=template) as broker:
        async with running_session(settings_for(broker), Store()):
            pass
        async with publisher(broker) as gateway:
            await asyncio.gather(*(gateway.publish(ALARMS, payload) for payload in numbered(burst)))
            async with running_session(settings_for(broker), store):
                await gateway.publish(ALARMS, b"after")
                await until(lambda: b"after" in store.payloads, "the queue is empty", within_s=20)
    return store.payloads[:-1]


@pytest.mark.req("F5")
@pytest.mark.field("FC-F18")
async def test_the_same_burst_loses_by_default_and_not_with_the_shipped_limit(tmp_path: Path) -> None:
    burst = 1_300
    text = (CONFIG / "mosquitto.conf.in").read_text(encoding="utf-8")
    assert "\nautosave_on_changes true\n" in text and "\nmax_queued_messages 100000\n" in text
    text = text.replace("autosave_on_changes true", "autosave_on_changes false")  # as quick as need be: nobody is killed here
    ours, default = tmp_path / "ours.conf.in", tmp_path / "default.conf.in"
    ours.write_text(text, encoding="utf-8")
    default.write_text(text.replace("max_queued_messages 100000\n", ""), encoding="utf-8")
    assert await overflow(tmp_path / "1", default, burst) == numbered(1_000), "the rest was acknowledged and dropped"
    assert await overflow(tmp_path / "2", ours, burst) == numbered(burst)


def bridge_to(site: Broker) -> str:
    names = {
        "CLIENT_ID": "hand", "SITE_ADDRESS": f"127.0.0.1:{site.port}", "SITE_USER": "site", "SITE_PASSWORD": USERS["site"],
    }  # fmt: skip
    return filled(CONFIG / "mosquitto" / "site-bridge.conf.in", names).replace("restart_timeout 1 30", "restart_timeout 1 1")


@pytest.mark.req("F5", "R5")
@pytest.mark.field("FC-F15")
async def test_a_bridge_carries_alarms_out_and_commands_in_across_an_outage(tmp_path: Path) -> None:
    open_acl = tmp_path / "site.conf.in"  # the site's broker is not ours: there the bridge's user may publish what it carries
    shipped = (CONFIG / "mosquitto.conf.in").read_text(encoding="utf-8")
    open_acl.write_text(shipped.replace("acl_file @ACL_FILE@\n", ""), encoding="utf-8")
    seen, commands = Store(), Store()
    async with running_broker(tmp_path / "site", template=open_acl) as site:
        watching = settings_of(
            site, "site", "watch", alarm_topics=["floorhand/+/alarms", "floorhand/+/state"], state_prefix="site"
        )
        async with (
            running_session(watching, seen) as control_room,
            running_broker(tmp_path / "hall", extras={"site": bridge_to(site)}) as hall,
            running_session(settings_for(hall, command_prefix=COMMANDS), commands) as session,
        ):
            # What is retained comes twice when the session connects while the bridge does; mosquitto tries again after 5 to 30 s.
            await until(lambda: b"online" in seen.payloads, "the bridge is up", within_s=40)
            await session.publish("floorhand/hand/alarms", b"0")
            await session.publish("floorhand/hand/other", b"secret")
            await control_room.publish(f"{COMMANDS}/hold", b"hold")
            await until(lambda: commands.payloads == [b"hold"], "a command")
            await site.kill()
            for payload in numbered(5)[1:]:
                await session.publish("floorhand/hand/alarms", payload)
            await site.start()
            await until(lambda: b"4" in seen.payloads, "what was said meanwhile", within_s=15)
            told = [message.payload for message in seen.messages if message.topic == "floorhand/hand/alarms"]
            assert list(dict.fromkeys(told)) == numbered(5)
            await control_room.wait_connected()
            await control_room.publish(f"{COMMANDS}/hold", b"kept", retain=True)
            await until(lambda: session.counts.ignored == 1, "a retained command is ignored behind a bridge too")
            await control_room.publish(f"{COMMANDS}/hold", b"go")
            await until(lambda: commands.payloads == [b"hold", b"go"], "and the next one is followed")
        assert b"secret" not in seen.payloads
