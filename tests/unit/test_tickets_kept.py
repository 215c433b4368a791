"""What is said of tickets that nobody took, and how many of those that are over are kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.approval import Decision, Rule
from appliance.contracts.principal import NOBODY
from appliance.contracts.store import Transaction
from appliance.delivery.settings import WebhookFormat, WebhookSettings
from appliance.store import approvals, scheduled_checks, tickets
from tests.support.ledger import open_bench
from tests.support.ticket_office import Office
from tests.support.web_server import web_server
from tests.support.webhook_desk import Desk


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with open_bench(tmp_path) as bench:
        yield Office(bench)


@pytest.mark.req("T5", "R5")
async def test_when_every_webhook_refused_a_ticket_for_good_it_is_said_once_that_nobody_got_it(office: Office) -> None:
    """WeCom's 93000 and DingTalk's 310000 are final: the same again would be refused again."""
    office.takers = ("shift", "managers")
    no: dict[str, dict[str, Any]] = {
        "/wecom": {"errcode": 93000, "errmsg": "key"},
        "/ding": {"errcode": 310000, "errmsg": "sign"},
    }
    with web_server() as server:
        server.answer = lambda posted: (200, {}, json.dumps(no[posted.path.partition("?")[0]]).encode())
        url = f"http://127.0.0.1:{server.port}"
        robots = {
            "shift": WebhookSettings(url=f"{url}/wecom?key=abcdefgh", format=WebhookFormat.WECOM),
            "managers": WebhookSettings(url=f"{url}/ding?access_token=abcdefgh", format=WebhookFormat.DINGTALK),
        }
        watch, sender = office.watch(), Desk(office.bench).sender(**robots)
        sender.listeners.append(watch.notify)
        for _ in range(2):
            assert (await office.fail()) == "I have opened a ticket and am sending it to shift and managers."
        tasks = [asyncio.create_task(sender.run()), asyncio.create_task(watch.run())]

        async def said() -> list[str]:
            rows = await office.bench.rows("SELECT text FROM delivery WHERE channel = 'speech'")
            return [row["text"] for row in rows]

        async with asyncio.timeout(10):
            while len(await office.bench.rows("SELECT 1 FROM ticket WHERE untold_utc IS NOT NULL")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    sentence = "Nobody has got a ticket that I opened: it could not be sent to anybody. Somebody should look."
    assert await said() == [sentence], "one for both: it waits to be said already"
    await office.watch().look()
    assert await said() == [sentence]


@pytest.mark.req("T5", "R5")
@pytest.mark.parametrize("other", ["pending", "delivered"])
async def test_a_ticket_that_one_webhook_took_or_may_still_take_is_not_said_to_be_lost(office: Office, other: str) -> None:
    office.takers = ("shift", "managers")
    await office.fail()
    bench = office.bench

    def end(tx: Transaction) -> None:
        for name, status in (("shift", "failed"), ("managers", other)):
            tx.execute("UPDATE delivery SET status = ? WHERE topic = ?", (status, name))

    await bench.database.transaction(end)
    await office.watch().look()
    assert await bench.rows("SELECT text FROM delivery WHERE channel = 'speech'") == []


@pytest.mark.req("T5")
async def test_tickets_and_checks_and_decisions_that_are_over_are_bounded(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is open stays however old it is."""
    bench = office.bench
    monkeypatch.setattr(tickets, "MOST_CLOSED", 2)
    monkeypatch.setattr(scheduled_checks, "MOST_ENDED", 2)
    monkeypatch.setattr(approvals, "MOST_KEPT", 2)
    await office.fail()
    for _ in range(5):
        await office.fail()
        ticket = (await bench.rows("SELECT id FROM ticket ORDER BY seq DESC LIMIT 1"))[0]["id"]
        await office.watch().resolve(ticket, "done", "anna")

    def more(tx: Transaction) -> None:
        for n in range(6):
            check = scheduled_checks.schedule(
                tx, bench.clock, bench.ids, turn_id="tr_1", lane="console:anna", language="en", principal=NOBODY,
                intent="list_alarms", slots={}, what="what alarms are there", after_s=60.0,
            )  # fmt: skip
            if n:
                scheduled_checks.cancel(tx, bench.clock, check.id, "anna")
            decided = approvals.Decided(f"ac_{n}", "tr_1", "se_1", "say", "", Decision.ALLOW, Rule.ALLOW, "", NOBODY)
            approvals.note(tx, bench.clock, decided)

    await bench.database.transaction(more)
    assert await office.statuses() == ["open", "resolved", "resolved"]
    checks = await bench.rows("SELECT status FROM scheduled_check ORDER BY seq")
    assert [row["status"] for row in checks] == ["waiting", "cancelled", "cancelled"]
    assert [row["action_id"] for row in await bench.rows("SELECT action_id FROM approval ORDER BY seq")] == ["ac_4", "ac_5"]
    loose = "SELECT * FROM ticket_message WHERE ticket_id NOT IN (SELECT id FROM ticket)"
    assert await bench.rows(loose) == []
