"""``floorhand tickets`` and ``floorhand checks`` as the shell sees them, over a real local API and ledger."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.admission.gate import Gate
from appliance.cli import exit_codes
from appliance.console.acts import Acts
from appliance.console.api import LocalApi
from appliance.contracts.delivery import Channel
from appliance.contracts.principal import NOBODY
from appliance.contracts.store import Transaction
from appliance.execution.tickets.escalation import Escalation
from appliance.later_rooms import LaterRooms
from appliance.settings import load_settings
from appliance.store import deliveries, scheduled_checks, tickets
from tests.support.command_line import SHIPPED, Run, command_line
from tests.support.core import StandInCore
from tests.support.ledger import Bench, open_bench
from tests.support.plans import phrasing

ME = getpass.getuser()


@dataclass
class Shop:
    """A local API with tickets and checks behind it."""

    bench: Bench
    escalation: Escalation

    async def ticket(self, error: str = "line_3 does not answer") -> str:
        bench = self.bench

        def work(tx: Transaction) -> str:
            ticket = tickets.open_in(
                tx, bench.clock, bench.ids, turn_id="tr_1", action_id=bench.ids.mint("ac"), tool="write_tag",
                input={"key": "motor_3.fan_speed"}, error_code="unavailable", error=error, state_hash="ab" * 32,
                told=("shift",),
            )  # fmt: skip
            self.escalation.tell(tx, ticket, "opened", error)
            return ticket.id

        return await bench.database.transaction(work)

    async def check(self, after_s: float = 600.0) -> str:
        bench = self.bench
        made = await bench.database.transaction(
            lambda tx: scheduled_checks.schedule(
                tx, bench.clock, bench.ids, turn_id="tr_1", lane="console:anna", language="en", principal=NOBODY,
                intent="list_alarms", slots={}, what="what alarms are there", after_s=after_s,
            )
        )  # fmt: skip
        return made.id


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_bench(tmp_path) as bench:
        later = LaterRooms(
            load_settings(SHIPPED, {}), bench.database, bench.clock, bench.ids,
            Gate(bench.database, bench.clock, bench.ids), phrasing(),
            origin="line-3", takers=("shift",), said=lambda: None, posted=lambda: None,
        )  # fmt: skip
        api = LocalApi(
            StandInCore(), bench.database, dict, path=tmp_path / "run" / "api.sock", language="en",
            acts=Acts(tickets=later.tickets, checks=later.schedule),
        )  # fmt: skip
        running = asyncio.create_task(api.run())
        try:
            async with asyncio.timeout(10):
                await api.serving.wait()
            yield Shop(bench, later.escalation)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.req("T5", "O2")
async def test_tickets_are_listed_shown_and_resolved_in_a_persons_name(shop: Shop, run: Run) -> None:
    assert (await run("tickets", "list"))[:2] == (0, "no ticket is open\n")
    ticket = await shop.ticket()
    code, out, _ = await run("tickets", "list")
    assert (code, ticket in out, "write_tag" in out, "line_3 does not answer" in out) == (0, True, True, True)
    code, out, _ = await run("tickets", "show", ticket)
    assert (code, "context: floorhand turns show tr_1" in out, f"state_hash: {'ab' * 32}" in out) == (0, True, True)
    assert "shift" in out.partition("messages:")[2] and "pending" in out
    assert (await run("tickets", "resolve", ticket))[0] == exit_codes.USAGE, "without a note nobody knows later what was done"
    assert (await run("tickets", "resolve", ticket, "--note", "cable plugged in"))[:2] == (0, f"{ticket} is resolved\n")
    code, _, err = await run("tickets", "resolve", ticket, "--note", "again")
    assert (code, err.splitlines()) == (
        exit_codes.PROBLEM,
        [f"the ticket {ticket} is resolved already", "`floorhand tickets list` shows those that are open."],
    )
    assert (await run("tickets", "list"))[1] == "no ticket is open\n"
    code, out, _ = await run("tickets", "list", "--all", "--json")
    (row,) = json.loads(out)
    assert (row["status"], row["closed_by"], row["note"], row["told"]) == ("resolved", ME, "cable plugged in", ["shift"])
    code, out, _ = await run("tickets", "show", ticket, "--json")
    assert [sent["topic"] for sent in json.loads(out)["deliveries"]] == ["shift", "shift"], "opened, and resolved"
    code, _, err = await run("tickets", "show", "tk_none")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, "there is no ticket tk_none")


@pytest.mark.req("T5", "R5", "O2")
async def test_what_became_of_a_ticket_at_each_webhook_is_listed_with_every_try(shop: Shop, run: Run) -> None:
    """It is not said to be handed over while it waits, nor after it was refused."""
    ticket = await shop.ticket()
    bench = shop.bench
    assert "shift: waiting, 0 tries" in (await run("tickets", "list"))[1]

    def busy(tx: Transaction) -> None:
        taken = deliveries.begin_next(tx, bench.clock, Channel.WEBHOOK)
        assert taken is not None
        deliveries.give_back(tx, bench.clock, taken.id, may_have_been_heard=False, why="answered 503")

    await bench.database.transaction(busy)
    assert "shift: waiting, 1 try: answered 503" in (await run("tickets", "list"))[1]

    def refused(tx: Transaction) -> None:
        taken = deliveries.begin_next(tx, bench.clock, Channel.WEBHOOK)
        assert taken is not None
        deliveries.fail(tx, bench.clock, taken.id, why="errcode 93000")

    await bench.database.transaction(refused)
    assert "shift: failed, 2 tries: errcode 93000" in (await run("tickets", "list"))[1]
    assert "sent to: shift: failed, 2 tries: errcode 93000" in (await run("tickets", "show", ticket))[1]
    (row,) = json.loads((await run("tickets", "list", "--json"))[1])
    assert row["messages"] == {"shift": {"status": "failed", "tries": 2, "why": "errcode 93000"}}


@pytest.mark.req("T5", "O2")
async def test_a_ticket_is_not_resolved_with_a_note_without_words(shop: Shop, run: Run) -> None:
    ticket = await shop.ticket()
    code, out, err = await run("tickets", "resolve", ticket, "--note", "  ")
    assert (code, out, err.splitlines()[0]) == (exit_codes.USAGE, "", "the note has no words")
    assert ticket in (await run("tickets", "list"))[1]


@pytest.mark.field("FC-R08")
@pytest.mark.req("O2")
async def test_checks_are_listed_and_cancelled_in_a_persons_name(shop: Shop, run: Run) -> None:
    assert (await run("checks", "list"))[:2] == (0, "no check waits\n")
    check = await shop.check()
    code, out, _ = await run("checks", "list")
    assert (code, check in out, "what alarms are there" in out, "600 s" in out) == (0, True, True, True)
    assert (await run("checks", "cancel", check))[:2] == (0, f"{check} is cancelled: what alarms are there\n")
    code, _, err = await run("checks", "cancel", check)
    assert (code, err.splitlines()) == (
        exit_codes.PROBLEM,
        [f"the check {check} is cancelled already", "`floorhand checks list` shows those that wait."],
    )
    code, out, _ = await run("checks", "list", "--all", "--json")
    (row,) = json.loads(out)
    assert (row["id"], row["status"], row["why"], row["left_s"]) == (check, "cancelled", f"cancelled by {ME}", None)


@pytest.mark.field("FC-R08")
async def test_why_a_check_waits_without_a_time_is_in_the_list(shop: Shop, run: Run) -> None:
    await shop.check()
    clock = shop.bench.clock
    clock.boot_id, clock.is_synced = "boot-2", False
    code, out, _ = await run("checks", "list")
    assert (code, "waits until something sets the clock" in out) == (0, True)
