"""Webhooks against a real HTTP server: order, receipts, repeats, TLS, and where nothing is ever posted to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.admission.gate import Gate
from appliance.alarm_rooms import AlarmRooms
from appliance.alarms.settings import AlarmSettings
from appliance.contracts.alarm import Alarm, AlarmState
from appliance.contracts.delivery import Channel
from appliance.contracts.errors import Refused, Unavailable
from appliance.delivery.alarm_messages import alarm_messages, each_of
from appliance.delivery.alarm_webhooks import alarm_webhooks
from appliance.delivery.settings import WebhookSettings
from appliance.delivery.webhooks import WebhookSender
from appliance.foundation.outbound import addresses_of
from appliance.store import views
from drivers.alarms.states import advance_alarm
from tests.support.alarms import event, small_plant
from tests.support.certificates import self_signed, signed_by
from tests.support.ledger import open_bench
from tests.support.waiting import until
from tests.support.web_server import Posted, WebServer, web_server
from tests.support.webhook_desk import Desk

ROOT = Path(__file__).parents[2]
LINK_LOCAL = "169.254.169.254"
AS_A_NUMBER = "2852039166"  # the same, as resolvers read it


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_bench(tmp_path) as bench:
        yield Desk(bench)


@pytest.fixture
def site() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


@asynccontextmanager
async def running(sender: WebhookSender) -> AsyncIterator[WebhookSender]:
    task = asyncio.create_task(sender.run())
    try:
        yield sender
        assert not task.done(), "it ended"
    finally:
        task.cancel()
        await asyncio.wait({task})


def answering(*statuses: int, then: int = 204, **headers: str) -> Callable[[Posted], tuple[int, dict[str, str]]]:
    left = list(statuses)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: (left.pop(0), named) if left else (then, {})


@pytest.mark.req("R5")
async def test_what_was_queued_is_posted_in_order_with_its_id_and_the_receipt_is_kept(desk: Desk, site: WebServer) -> None:
    for n in range(3):
        await desk.queue(n)
    async with running(desk.sender(site=WebhookSettings(url=site.url, token="t0ken"))) as sender:  # type: ignore[arg-type]
        rows = await desk.until_statuses(*["delivered"] * 3)
        await desk.queue(3)
        sender.notify()
        rows = await desk.until_statuses(*["delivered"] * 4)
    assert site.bodies == [{"n": n} for n in range(4)]
    assert [each.headers["idempotency-key"] for each in site.posted] == [row["id"] for row in rows]
    assert {(each.path, each.headers["content-type"], each.headers["authorization"]) for each in site.posted} == {
        ("/hook?site=1", "application/json", "Bearer t0ken")
    }
    assert {each.headers["host"] for each in site.posted} == {f"127.0.0.1:{site.port}"}
    shown = await views.deliveries(desk.bench.database, status=None, channel=Channel.WEBHOOK, limit=1)
    assert [(row["channel"], row["topic"], row["status"], row["payload"]) for row in shown] == [
        ("webhook", "site", "delivered", {"n": 3})
    ]


@pytest.mark.req("R5")
@pytest.mark.parametrize("status", [400, 401, 404, 410])
async def test_what_is_refused_has_failed_and_blocks_nothing(desk: Desk, site: WebServer, status: int) -> None:
    site.answer = answering(status)
    await desk.queue(1)
    await desk.queue(2)
    async with running(desk.sender(site=site.url)):
        rows = await desk.until_statuses("failed", "delivered")
    assert rows[0]["failure"] == f"answered {status}"
    assert desk.changes == [("webhook:site", f"answered {status}"), ("webhook:site", "")]


@pytest.mark.req("R5")
@pytest.mark.parametrize("status", [301, 408, 425, 429, 503])
async def test_what_was_not_taken_waits_and_no_try_is_counted(desk: Desk, site: WebServer, status: int) -> None:
    with web_server() as elsewhere:
        site.answer = answering(*[status] * 5, Location=elsewhere.url)
        await desk.queue(1)
        async with running(desk.sender(site=site.url)):
            (row,) = await desk.until_statuses("delivered")
        assert elsewhere.posted == [], "a redirect is not followed"
    assert (row["attempts"], row["may_be_repeat"]) == (1, 0)
    assert site.bodies == [{"n": 1}] * 6


@pytest.mark.req("R5")
@pytest.mark.parametrize("status", [500, 502, 504])
async def test_what_may_have_arrived_says_so_and_is_given_up_after_three_tries(desk: Desk, site: WebServer, status: int) -> None:
    site.answer = answering(status, 204, *[status] * 3)
    for n in range(3):
        await desk.queue(n)
    async with running(desk.sender(site=site.url)):
        rows = await desk.until_statuses("delivered", "abandoned", "delivered")
    marked = {"may_be_repeat": True}
    assert site.bodies == [{"n": 0}, {"n": 0} | marked, {"n": 1}, {"n": 1} | marked, {"n": 1} | marked, {"n": 2}]
    assert [each.headers["idempotency-key"] for each in site.posted] == [rows[n]["id"] for n in (0, 0, 1, 1, 1, 2)]
    assert (rows[1]["attempts"], rows[1]["failure"]) == (3, f"answered {status}")


@pytest.mark.req("R5")
async def test_who_asks_for_time_gets_it(desk: Desk, site: WebServer) -> None:
    site.answer = answering(429, Retry_After="1")
    await desk.queue(1)
    clock = asyncio.get_running_loop().time
    async with running(desk.sender(site=site.url)):
        began_s = clock()
        await desk.until_statuses("delivered")
    assert clock() - began_s >= 1.0


@pytest.mark.req("R5")
async def test_no_answer_in_time_may_have_arrived(desk: Desk, site: WebServer) -> None:
    answered = threading.Event()

    def slow(posted: Posted) -> tuple[int, dict[str, str]]:
        if "may_be_repeat" not in posted.body:
            answered.wait(10)
        return 204, {}

    site.answer = slow
    await desk.queue(1)
    async with running(desk.sender(site=WebhookSettings(url=site.url, timeout_s=0.3))):
        (row,) = await desk.until_statuses("delivered")
    answered.set()
    assert (row["attempts"], row["may_be_repeat"]) == (2, 1)


@pytest.mark.req("R5")
@pytest.mark.field("FC-F14")
async def test_while_nobody_is_there_it_waits_uncounted_and_goes_in_order_when_somebody_is(desk: Desk) -> None:
    with web_server() as server:
        port, url = server.port, server.url
    for n in range(3):
        await desk.queue(n)
    async with running(desk.sender(site=url)):
        await until(lambda: desk.changes, "said to be away")
        assert {(row["status"] in ("pending", "attempting"), row["may_be_repeat"]) for row in await desk.rows()} == {(True, 0)}
        with web_server(port=port) as server:
            rows = await desk.until_statuses(*["delivered"] * 3)
            assert server.bodies == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert {row["attempts"] for row in rows} == {1}
    assert [part for part, why in desk.changes if why] == ["webhook:site"], "said once"


@pytest.mark.req("R5")
async def test_a_slow_webhook_keeps_no_other_waiting(desk: Desk, site: WebServer) -> None:
    answered = threading.Event()
    with web_server() as slow:
        slow.answer = lambda _: (204, {}) if answered.wait(10) else (500, {})
        await desk.queue(1, "slow")
        for n in range(2, 5):
            await desk.queue(n)
        async with running(desk.sender(site=site.url, slow=slow.url)) as sender:
            await desk.until_statuses("attempting", *["delivered"] * 3)
            await sender.finish(0.05)  # waits for the one under way, and not for ever
            answered.set()
            await desk.until_statuses(*["delivered"] * 4)


@pytest.mark.req("R5")
@pytest.mark.field("FC-F14")
async def test_a_process_killed_between_sending_and_receipt_leaves_a_marked_repeat(tmp_path: Path, site: WebServer) -> None:
    """The server has it, the ledger does not know: it is sent again under the same id, and says that it may be a repeat."""
    killed = threading.Event()
    async with open_bench(tmp_path) as bench:
        await Desk(bench).queue(1)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.webhook_child", str(tmp_path), site.url, cwd=ROOT, env=environment
    )

    def kill(_: Posted) -> tuple[int, dict[str, str]]:
        child.send_signal(signal.SIGKILL)
        killed.wait(10)
        return 204, {}

    site.answer = kill
    assert await asyncio.wait_for(child.wait(), 20) == -signal.SIGKILL
    killed.set()
    site.answer = answering()
    async with open_bench(tmp_path) as bench:
        desk = Desk(bench)
        async with running(desk.sender(site=site.url)):
            (row,) = await desk.until_statuses("delivered")
    assert site.bodies == [{"n": 1}, {"n": 1, "may_be_repeat": True}]
    assert {each.headers["idempotency-key"] for each in site.posted} == {row["id"]}


@pytest.mark.req("R5")
async def test_what_waits_for_a_webhook_that_is_gone_is_abandoned(desk: Desk, site: WebServer) -> None:
    await desk.queue(1, "old")
    await desk.queue(2)
    async with running(desk.sender(site=site.url)):
        rows = await desk.until_statuses("abandoned", "delivered")
    assert rows[0]["failure"] == "there is no webhook old any more"


@pytest.mark.req("R5")
async def test_a_message_that_waited_a_day_is_abandoned(desk: Desk, site: WebServer) -> None:
    await desk.queue(1)
    desk.bench.clock.advance(24 * 3600 + 1)
    await desk.queue(2)
    async with running(desk.sender(site=site.url)):
        await desk.until_statuses("abandoned", "delivered")
    assert site.bodies == [{"n": 2}]


# TLS and addresses ----------------------------------------------------------------------------------------------------
@pytest.mark.req("X6")
async def test_a_sites_own_authority_is_trusted_and_no_other(desk: Desk, tmp_path: Path) -> None:
    authority, stranger = await self_signed(tmp_path, "site-ca"), await self_signed(tmp_path, "stranger")
    certificate = await signed_by(authority, tmp_path, "hook")
    with web_server(certificate=certificate) as server:
        await desk.queue(1)
        for ca in (None, stranger[0]):
            async with running(desk.sender(site=WebhookSettings(url=server.url, ca_file=ca))):
                await until(lambda: "CERTIFICATE_VERIFY_FAILED" in desk.degraded.reasons.get("webhook:site", ""), "refused")
            desk.degraded.clear("webhook:site")
        assert server.posted == []
        async with running(desk.sender(site=WebhookSettings(url=server.url, ca_file=authority[0]))):
            await desk.until_statuses("delivered")
        assert len(server.posted) == 1


@pytest.mark.req("X6")
@pytest.mark.parametrize("host", [LINK_LOCAL, f"[::ffff:{LINK_LOCAL}]", "[fe80::1]", "[fd00:ec2::254]", "0.0.0.0", "224.0.0.1"])
def test_an_address_of_no_service_is_refused_in_the_settings(host: str) -> None:
    with pytest.raises(ValidationError, match="no address of a service"):
        WebhookSettings(url=f"https://{host}/x")
    assert WebhookSettings(url=f"https://{LINK_LOCAL}/x", allow_addresses=[LINK_LOCAL]).host == LINK_LOCAL  # type: ignore[arg-type]


@pytest.mark.req("X6")
@pytest.mark.parametrize("url", ["http://example.test/x", "ftp://example.test", "https://", "https://user:pw@example.test/x"])
def test_only_tls_leaves_this_machine_unless_that_is_wanted(url: str) -> None:
    with pytest.raises(ValidationError):
        WebhookSettings(url=url)
    assert WebhookSettings(url="http://example.test/x", allow_plain=True).allow_plain
    assert WebhookSettings(url="http://127.0.0.1:1/x").host == "127.0.0.1"


@pytest.mark.req("X6")
async def test_a_name_that_leads_to_such_an_address_is_never_posted_to(desk: Desk) -> None:
    """What a name leads to is looked at when it is posted to: a resolver may say something else each time."""
    with pytest.raises(Refused, match=LINK_LOCAL):
        await addresses_of(AS_A_NUMBER, 80)
    assert await addresses_of(AS_A_NUMBER, 80, allowed=[LINK_LOCAL]) == [LINK_LOCAL]
    assert await addresses_of("localhost", 80, is_plain=True)
    with pytest.raises(Refused):
        await addresses_of("10.1.2.3", 80, is_plain=True)
    with pytest.raises(Unavailable):
        await addresses_of("no-such-host.invalid", 80)
    await desk.queue(1)
    async with running(desk.sender(site=WebhookSettings(url=f"https://{AS_A_NUMBER}/latest"))):
        await until(lambda: LINK_LOCAL in desk.degraded.reasons.get("webhook:site", ""), "refused")
    assert [(row["may_be_repeat"], row["channel"]) for row in await desk.rows()] == [(0, "webhook")]


@pytest.mark.req("X6")
async def test_a_token_that_others_can_read_is_not_sent(desk: Desk, site: WebServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n", encoding="ascii")
    file.chmod(0o644)
    await desk.queue(1)
    async with running(desk.sender(site=WebhookSettings(url=site.url, token_file=file))):
        await until(lambda: "can be read by others" in desk.degraded.reasons.get("webhook:site", ""), "said")
        assert site.posted == []
        file.chmod(0o600)
        await desk.until_statuses("delivered")
    assert site.posted[0].headers["authorization"] == "Bearer s3cret"


@pytest.mark.req("X6")
async def test_a_name_with_several_addresses_is_tried_at_each(
    desk: Desk, site: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many names lead to an address of IPv6 first, and the service listens on the other."""
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def both(host: Any, port: Any, **how: Any) -> Any:
        assert host == "localhost"
        return [*await real("127.0.0.2", port, **how), *await real("127.0.0.1", port, **how)]

    monkeypatch.setattr(loop, "getaddrinfo", both)
    await desk.queue(1)
    async with running(desk.sender(site=f"http://localhost:{site.port}/")):
        (row,) = await desk.until_statuses("delivered")
    assert (row["attempts"], site.posted[0].headers["host"]) == (1, f"localhost:{site.port}")


# what is sent ---------------------------------------------------------------------------------------------------------
@pytest.mark.req("R5")
async def test_alarm_changes_are_queued_for_who_wants_them_with_the_change(desk: Desk, site: WebServer) -> None:
    raised = datetime(2026, 3, 2, 8, tzinfo=UTC)

    def alarm(priority: str) -> Alarm:
        return Alarm(
            activation_id=f"plc:{priority}:7", alarm_id=priority, source="plc", asset="press_1", priority=priority,
            state=AlarmState.UNACKNOWLEDGED, value=94.2, unit="degC", session_id=None, raised_utc=raised, cleared_utc=None,
            acknowledged_utc=None, acknowledged_by=None, revision=1,
        )  # fmt: skip

    webhooks = {name: WebhookSettings(url=site.url, priority=least) for name, least in (("all", "low"), ("urgent", "high"))}  # type: ignore[arg-type]
    publish = alarm_webhooks(desk.bench.clock, desk.bench.ids, webhooks, "line-3", lambda alarm: f"{alarm.asset} is hot")
    for priority in ("low", "medium", "high", "critical"):
        await desk.bench.database.transaction(lambda tx, priority=priority: publish(tx, alarm(priority), "raised"))
    queued = [(row["topic"], row["payload"]) for row in await views.deliveries(desk.bench.database, status=None, limit=9)]
    assert [(name, payload["priority"]) for name, payload in reversed(queued)] == [
        ("all", "low"), ("all", "medium"), ("all", "high"), ("urgent", "high"), ("all", "critical"), ("urgent", "critical"),
    ]  # fmt: skip
    told = queued[0][1]
    assert (told["event"], told["appliance"], told["alarm"], told["change"]) == ("alarm", "line-3", "critical", "raised")
    assert (told["at"], told["text"]) == ("2026-03-02T08:00:00.000+00:00", "press_1 is hot")


@pytest.mark.req("R5", "F7")
async def test_an_alarm_reaches_broker_and_webhook_through_one_transaction(desk: Desk, site: WebServer) -> None:
    bench, plant = desk.bench, small_plant()
    database, clock, ids = bench.database, bench.clock, bench.ids
    tell = each_of(
        alarm_messages(clock, ids, "hand"),
        alarm_webhooks(clock, ids, {"site": WebhookSettings(url=site.url)}, "line-3", lambda alarm: alarm.alarm_id),
    )
    rooms = AlarmRooms(
        database, clock, ids, plant, AlarmSettings(), Gate(database, clock, ids), desk.degraded, advance_alarm,
        epoch=bench.epoch, publish=tell,
    )  # fmt: skip
    await rooms.door.admit(event(bench))
    await rooms.door.admit(event(bench, cleared=True))
    while await rooms.changes.follow():
        pass
    async with running(desk.sender(site=site.url)):
        rows = await desk.until(lambda rows: sum(row["status"] == "delivered" for row in rows) == 2)
    assert [(body["change"], body["alarm"], body["appliance"]) for body in site.bodies] == [
        ("raised", "hot", "line-3"), ("cleared", "hot", "line-3"),
    ]  # fmt: skip
    assert [(row["channel"], row["status"]) for row in rows] == [("mqtt", "pending"), ("webhook", "delivered")] * 2
