"""The third level of failure: a ticket an action, messages to whoever takes tickets, and how tickets are closed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import ActionState, Step
from appliance.contracts.store import Transaction
from appliance.contracts.tool import (
    AccessLevel,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.delivery.settings import WebhookSettings
from appliance.execution.fields import Fields
from appliance.execution.runner import Runner
from appliance.execution.tickets.settings import TicketSettings
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.notify import Notify
from appliance.execution.tools.say import Say
from appliance.execution.tools.write_tag import WriteTag
from appliance.store import deliveries, effects, tickets
from tests.support.group_robots import DingTalkRobot, WeComRobot
from tests.support.ledger import open_bench
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import runner_ports
from tests.support.ticket_office import FAILED, SETTINGS, Office
from tests.support.waiting import until
from tests.support.web_server import web_server
from tests.support.webhook_desk import Desk


class PressArguments(Fields):
    """What ``press`` takes."""

    pin: str
    force: int


class PressResult(Fields):
    """Nothing."""


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with open_bench(tmp_path) as bench:
        yield Office(bench)


@pytest.mark.req("T5", "X4", "Y1")
async def test_a_ticket_holds_tool_redacted_input_error_and_state_and_is_handed_over_with_a_link(office: Office) -> None:
    """``notify`` declares its text as not to be logged: the ticket does not hold it either."""
    office.takers, office.public_url = ("shift", "managers"), "https://hand-1.site.example/"
    text = "the password is hunter2"
    said = await office.fail({"text": text, "webhook": "shift"}, tool=Notify)
    assert said == "I have opened a ticket and am sending it to shift and managers."
    row = await office.bench.one("SELECT * FROM ticket")
    assert (row["tool"], json.loads(row["input"])) == ("notify", {"text": "redacted", "webhook": "shift"})
    assert (row["error_code"], row["error"], row["status"]) == ("unavailable", "line_3 does not answer", "open")
    assert len(row["state_hash"]) == 64
    messages = await office.messages()
    assert [message["to"] for message in messages] == ["shift", "managers"]
    told = messages[0]
    assert (told["event"], told["change"], told["ticket"], told["turn"]) == ("ticket", "opened", row["id"], "tr_1")
    assert (told["tool"], told["input"], told["error"]) == ("notify", {"text": "redacted", "webhook": "shift"}, row["error"])
    assert (told["state_hash"], told["context"]) == (row["state_hash"], "floorhand turns show tr_1")
    assert told["link"] == "https://hand-1.site.example/v1/turns/tr_1"
    assert told["text"] == (
        "notify: That cannot be done now. Line_3 does not answer.\nMore, on line-3: floorhand turns show tr_1"
    )
    assert "ticket.opened" in await office.bench.kinds(OperationLane.P2)
    everything = json.dumps([await office.bench.rows(f"SELECT * FROM {t}") for t in ("ticket", "delivery", "operation")])
    assert "hunter2" not in everything


@pytest.mark.req("T5")
async def test_one_ticket_an_action_whatever_is_asked_again(office: Office) -> None:
    turn, action, call = await office.call(ActionState.FAILED)
    said = [await office.escalate(turn, action, call, WriteTag.contract, FAILED) for _ in range(2)]
    assert said[0] == said[1]
    assert (len(await office.statuses()), len(await office.messages())) == (1, 1)


@pytest.mark.req("T5")
@pytest.mark.parametrize(
    ("language", "sentence"),
    [("en", "I have opened a ticket: somebody should look."), ("zh", "我已开了一张求助单，请派人查看。")],
)
async def test_without_anybody_who_takes_tickets_it_is_said_that_one_is_open(
    office: Office, language: str, sentence: str
) -> None:
    office.takers = ()
    assert await office.fail(language=language) == sentence
    assert (await office.statuses(), await office.messages()) == (["open"], [])


@pytest.mark.req("T5")
async def test_a_long_input_is_cut_so_that_the_ticket_always_fits(office: Office) -> None:
    await office.fail({"key": "k", "what": "温" * 200_000, "value": 1})
    (told,) = await office.messages()
    assert (told["input"]["truncated"], len(told["input"]["preview"]) <= 1_500) == (True, True)


@pytest.mark.req("T5", "R5")
@pytest.mark.parametrize("kind", ["wecom", "dingtalk", "generic"])
async def test_a_ticket_reaches_each_kind_of_webhook_and_the_receipt_is_kept(office: Office, kind: str) -> None:
    robot: Any = WeComRobot() if kind == "wecom" else DingTalkRobot(secret="SECabcdef")
    robot.now_ms = int(office.bench.clock.utc().timestamp() * 1000)
    office.public_url = "https://hand-1.site.example"
    with web_server() as server:
        url = f"http://127.0.0.1:{server.port}"
        if kind == "generic":
            settings = WebhookSettings(url=f"{url}/hook")
        else:
            server.answer = robot.answer
            path = f"/cgi-bin/webhook/send?key={robot.key}" if kind == "wecom" else f"/robot/send?access_token={robot.token}"
            secret = {} if kind == "wecom" else {"secret": robot.secret}
            settings = WebhookSettings(url=url + path, **{"format": kind, **secret})
        await office.fail()
        task = asyncio.create_task(Desk(office.bench).sender(shift=settings).run())
        await Desk(office.bench).until_statuses("delivered")
        task.cancel()
        await asyncio.wait({task})
        bodies = server.bodies
    if kind == "generic":
        assert (bodies[0]["event"], bodies[0]["tool"], bodies[0]["link"]) == (
            "ticket", "write_tag", "https://hand-1.site.example/v1/turns/tr_1",
        )  # fmt: skip
    else:
        (text,) = robot.texts
        ticket = (await office.bench.one("SELECT id FROM ticket"))["id"]
        assert text == (
            f"[line-3] Ticket {ticket}: somebody should look.\n"
            "write_tag: That cannot be done now. Line_3 does not answer.\nMore, on line-3: floorhand turns show tr_1\n"
            "https://hand-1.site.example/v1/turns/tr_1"
        )


class Press:
    """A tool of the field that is away for good. What it is given must not be logged."""

    contract = ToolContract(
        name="press", description="Press", sla=SlaContract(1_000, 1),
        schema=SchemaContract(PressArguments, PressResult, required_fields=("pin", "force")),
        security=SecurityContract(AccessLevel.OPERATOR, "field"),
        telemetry=TelemetryContract("press.started", "press.done", "press.failed", redact=("pin",)), has_effect=False,
    )  # fmt: skip

    async def run(self, call: ToolCall, arguments: PressArguments) -> dict[str, Any]:
        raise Unavailable(f"the press does not answer to {arguments.pin}")


@pytest.mark.req("T5", "X4", "R5")
async def test_what_fails_for_good_in_a_turn_is_handed_over_in_the_commit_that_ends_its_action(
    office: Office, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At no commit is the action failed without its ticket, its message and its sentence, or the other way round."""
    caplog.set_level(logging.DEBUG)
    bench = office.bench
    steps = [Step("press", "press", {"pin": "8765-4321", "force": 7}), Step("say", "say", {"text": "done"})]
    turn = await open_turn(bench.database, bench.clock, bench.ids, steps)
    ports = runner_ports(tmp_path, bench.clock) | {"escalator": office.escalation}
    runner = Runner(
        bench.database, Toolbox([Press(), Say(bench.clock, bench.ids)]), bench.clock, bench.ids, bench.epoch, phrasing(),
        retry_waits=lambda: iter([0.0] * 9), **ports,
    )  # fmt: skip
    seen: set[tuple[int, int, int, int]] = set()
    counting = """SELECT (SELECT count(*) FROM action WHERE state = 'failed'), (SELECT count(*) FROM ticket),
        (SELECT count(*) FROM delivery WHERE channel = 'webhook'), (SELECT count(*) FROM delivery WHERE channel = 'speech')"""
    looking = sqlite3.connect(f"file:{tmp_path / 'ledger.db'}?mode=ro", uri=True, isolation_level=None)
    bench.database.on_commit(lambda: seen.add(looking.execute(counting).fetchone()))
    outcome = await runner.run(turn)
    looking.close()
    assert (outcome.kind, outcome.failure) == ("failed", "press: unavailable: the press does not answer to 8765-4321")
    assert seen <= {(0, 0, 0, 0), (1, 1, 1, 1)} and (1, 1, 1, 1) in seen
    (said,) = await bench.rows("SELECT text FROM delivery WHERE channel = 'speech'")
    assert said["text"].startswith("That cannot be done now. ") and said["text"].endswith(
        " I have opened a ticket and am sending it to shift."
    )
    (told,) = await office.messages()
    assert told["input"] == {"pin": "redacted", "force": 7}
    assert "8765-4321" not in json.dumps(await office.messages()) + caplog.text
    row = await bench.one("SELECT input, error FROM ticket")
    assert ("8765-4321" in row["input"], row["error"]) == (False, "the press does not answer to redacted")


# closing ----------------------------------------------------------------------------------------------------------------
@pytest.mark.req("T5", "Y1")
async def test_a_ticket_nobody_resolves_expires_after_its_time_and_that_is_told(office: Office) -> None:
    await office.fail()
    watch = office.watch()
    office.bench.clock.advance(86_399)
    office.bench.clock.now = office.bench.clock.now.replace(year=1990)  # wall time was set: the monotonic clock counts
    assert (await watch.look(), await office.statuses()) == (1.0, ["open"])
    office.bench.clock.advance(1)
    assert (await watch.look(), await office.statuses()) == (None, ["expired"])
    assert "ticket.expired" in await office.bench.kinds(OperationLane.P2)
    assert [(m["change"], m["text"]) for m in (await office.messages())[1:]] == [
        ("expired", "write_tag. floorhand: nobody resolved it in 86400 s")
    ]
    assert office.queued == 1


@pytest.mark.req("T5")
async def test_a_ticket_is_resolved_by_itself_once_the_same_call_has_worked_since(office: Office) -> None:
    await office.call(ActionState.DONE)  # before it failed: tells nothing
    await office.fail()
    await office.fail({"key": "motor_3.fan_speed", "value": 20})  # about something else
    watch, clock = office.watch(), office.bench.clock
    assert await watch.look() == 3_600
    await office.call(ActionState.DONE)
    assert (await watch.look(), await office.statuses()) == (3_600, ["open", "open"]), "not before its time"
    clock.advance(3_600)
    assert (await watch.look(), await office.statuses()) == (3_600, ["auto_resolved", "open"])
    clock.advance(1_800)
    assert await watch.look() == 1_800, "it is asked once each time"
    rows = await office.bench.rows("SELECT closed_by, note FROM ticket WHERE status = 'auto_resolved'")
    assert rows == [{"closed_by": "floorhand", "note": "the same call has worked since"}]
    assert (await office.messages())[-1]["title"].endswith("it works again.")


FILLED = {"key": "motor_3.fan_speed", "value": "{steps.read.value}"}


@pytest.mark.req("T5")
@pytest.mark.parametrize(("sent", "status"), [(80, "auto_resolved"), (30, "open"), (None, "open")])
async def test_calls_are_the_same_when_what_was_filled_in_is(office: Office, sent: int | None, status: str) -> None:
    turn, failed, call = await office.call(ActionState.FAILED, FILLED)
    await office.escalate(turn, failed, call, WriteTag.contract, FAILED)
    _, later, _ = await office.call(ActionState.DONE, FILLED)
    made = [] if sent is None else [(failed, 80), (later, sent)]  # None: calls without effect, of which that is not recorded
    bench = office.bench

    def work(tx: Transaction) -> None:
        for action, value in made:
            arguments = {"key": "motor_3.fan_speed", "value": value}
            effects.intend(
                tx, bench.clock, action_id=action.id, turn_id=action.turn_id, tool=action.tool, arguments=arguments, epoch=1
            )

    await bench.database.transaction(work)
    bench.clock.advance(3_600)
    await office.watch().look()
    assert await office.statuses() == [status]


@pytest.mark.req("T5")
async def test_a_filled_in_call_that_was_settled_as_done_resolves_its_own_ticket(office: Office) -> None:
    turn, action, call = await office.call(ActionState.UNKNOWN, FILLED)
    await office.escalate(turn, action, call, WriteTag.contract, FAILED)
    await office.bench.database.transaction(lambda tx: tx.execute("UPDATE action SET state = 'done'"))
    office.bench.clock.advance(3_600)
    await office.watch().look()
    assert await office.statuses() == ["auto_resolved"]


@pytest.mark.req("T5")
async def test_an_unknown_that_was_settled_as_done_resolves_its_ticket(office: Office) -> None:
    turn, action, call = await office.call(ActionState.UNKNOWN)
    await office.escalate(turn, action, call, WriteTag.contract, FAILED)
    office.bench.clock.advance(3_600)
    await office.watch().look()
    assert await office.statuses() == ["open"]
    await office.bench.database.transaction(lambda tx: tx.execute("UPDATE action SET state = 'done'"))
    await office.watch().look()
    assert await office.statuses() == ["auto_resolved"]


@pytest.mark.req("T5")
async def test_what_failed_again_after_it_had_worked_is_not_resolved_by_itself(office: Office) -> None:
    await office.fail()
    await office.call(ActionState.DONE)
    await office.call(ActionState.FAILED)
    office.bench.clock.advance(3_600)
    await office.watch().look()
    assert await office.statuses() == ["open"]
    await office.call(ActionState.DONE)
    await office.watch(SETTINGS.model_copy(update={"auto_resolve_after_s": None})).look()
    assert await office.statuses() == ["open"], "only people resolve tickets, if the site wants it so"


@pytest.mark.req("T5")
@pytest.mark.parametrize(("was_synced", "is_synced", "expires"), [(True, True, True), (True, False, False), (False, True, False)])
async def test_across_a_reboot_wall_time_counts_only_if_it_was_set_at_both_ends(
    office: Office, was_synced: bool, is_synced: bool, expires: bool
) -> None:
    clock = office.bench.clock
    clock.is_synced = was_synced
    await office.fail()
    clock.advance(86_401)
    clock.boot_id, clock.mono_ns, clock.is_synced = "boot-2", 5_000_000_000, is_synced
    watch = office.watch()
    await watch.look()
    assert await office.statuses() == ["expired" if expires else "open"]
    clock.advance(86_400)
    await watch.look()
    assert await office.statuses() == ["expired"], "the time since this start counts in any case"


@pytest.mark.req("T5")
async def test_the_service_sleeps_until_told_and_a_person_may_be_quicker(office: Office) -> None:
    watch = office.watch(TicketSettings(ticket_ttl_s=86_400, auto_resolve_after_s=None))
    task = asyncio.create_task(watch.run())
    try:
        await office.fail()
        office.bench.clock.advance(86_400)
        watch.notify()
        async with asyncio.timeout(10):
            while await office.statuses() != ["expired"]:  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.005)
        await office.fail()
        ticket = (await office.bench.rows("SELECT id FROM ticket ORDER BY seq DESC LIMIT 1"))[0]["id"]
        resolved = await watch.resolve(ticket, "cable plugged in", "anna")
        assert resolved == {"id": ticket, "status": "resolved", "closed_by": "anna", "note": "cable plugged in"}
        with pytest.raises(Exception, match="is resolved already"):
            await watch.resolve(ticket, "again", "bert")
        with pytest.raises(Exception, match="there is no ticket tk_none"):
            await watch.resolve("tk_none", "again", "bert")
        await until(lambda: not task.done(), "it runs")
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_who_does_not_take_tickets_any_more_is_told_nothing(office: Office) -> None:
    office.takers = ("shift", "managers")
    await office.fail()
    office.takers = ("managers",)
    ticket = (await office.bench.one("SELECT id FROM ticket"))["id"]
    await office.watch().resolve(ticket, "done", "anna")
    assert [(m["to"], m["change"]) for m in await office.messages()][2:] == [("managers", "resolved")]
    assert await office.bench.database.transaction(lambda tx: tickets.load(tx, ticket).told) == ("shift", "managers")
    assert await office.bench.database.transaction(deliveries.open_count) == 3
