"""Tools that tell somebody else or do something later: notices, work orders, checks, and how the machine is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.contracts.errors import FloorhandError, Malformed, Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.contracts.tool import LedgerTool, ToolCall
from appliance.coordination.availability import Availability
from appliance.coordinator.intake import take_in
from appliance.coordinator.store import feed
from appliance.coordinator.store import work_orders as theirs
from appliance.coordinator.store.database import CoordinatorStore
from appliance.execution.tools.cancel_checks import CancelChecks
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.list_checks import ListChecks
from appliance.execution.tools.notify import Notify, Receivers
from appliance.execution.tools.read_vitals import ReadVitals
from appliance.execution.tools.schedule_check import MOST_WAITING, ScheduleCheck
from appliance.execution.tools.update_work_order import UpdateWorkOrder
from appliance.foundation.supervisor import Degraded
from appliance.planning.answers import steps_for
from appliance.planning.tongue import Tongue
from appliance.store import operations, work_orders
from appliance.sync.downlink import Downlink
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.settings import SyncSettings
from tests.support.ledger import Bench, given_turn, open_bench
from tests.support.planning import shipped_phrasebook, shipped_plant
from tests.support.plans import phrasing
from tests.support.tool_ports import VITALS

ANNA = Principal("anna", Identification.TOKEN, "technician", AccessLevel.OPERATOR)
RECEIVERS = Receivers(("maintenance", "shift"), "floorhand/line-3/notices", "line-3")
NOW = "2026-03-02T08:00:00.000+00:00"


class Bank:
    """A bench on which single tools are called."""

    def __init__(self, bench: Bench, turn_id: str) -> None:
        self.bench = bench
        self.turn_id = turn_id
        self.calls = 0
        clock, ids, wording = bench.clock, bench.ids, phrasing(shipped_plant())
        self.notify = Notify(clock, ids, RECEIVERS)
        self.order, self.update = CreateWorkOrder(clock), UpdateWorkOrder(clock, shipped_plant())
        self.schedule = ScheduleCheck(clock, ids, wording, shipped_phrasebook().understand)
        self.list, self.cancel = ListChecks(clock, wording), CancelChecks(clock, wording)

    def a_call(self, tool: Any, arguments: Mapping[str, Any], language: str) -> ToolCall:
        self.calls += 1
        return ToolCall(
            tool.contract.name, arguments, self.turn_id, "se_1", f"ac_{self.calls}", "console:anna", language, {}, ANNA
        )

    async def call(self, tool: LedgerTool, language: str = "en", **arguments: Any) -> dict[str, Any]:
        schema = tool.contract.schema
        given = schema.arguments.model_validate(arguments)
        call = self.a_call(tool, arguments, language)
        value = await self.bench.database.transaction(lambda tx: tool.apply(tx, call, given))
        return schema.result.model_validate(value).model_dump(mode="json")


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[Bank]:
    async with open_bench(tmp_path) as bench:
        yield Bank(bench, (await given_turn(bench, "asked")).id)


# notices ----------------------------------------------------------------------------------------------------------------
@pytest.mark.req("T1", "R5", "Y1")
async def test_a_notice_is_a_delivery_row_to_a_named_webhook_or_below_the_topic_of_notices(bank: Bank) -> None:
    sent = await bank.call(bank.notify, webhook="shift", text="Belt 4\nis\u202e slipping\x07")
    assert (sent["channel"], sent["to"], sent["text"]) == ("webhook", "shift", "Belt 4 is slipping")
    await bank.call(bank.notify, topic="line/belts", text="Belt 4 is slipping")
    rows = await bank.bench.rows("SELECT * FROM delivery ORDER BY seq")
    assert [(row["channel"], row["topic"], row["status"], row["retain"]) for row in rows] == [
        ("webhook", "shift", "pending", 0), ("mqtt", "floorhand/line-3/notices/line/belts", "pending", 0),
    ]  # fmt: skip
    told = json.loads(rows[1]["payload"])
    assert (told["event"], told["appliance"], told["turn"], told["text"]) == (
        "notice", "line-3", bank.turn_id, "Belt 4 is slipping",
    )  # fmt: skip
    assert (await bank.bench.kinds(OperationLane.P1)).count("delivery.queued") == 2


@pytest.mark.req("T1", "X6")
@pytest.mark.parametrize(
    "arguments",
    [
        {"topic": "/plant/line_3/alarms"}, {"topic": "../alarms"}, {"topic": "a/+/b"}, {"topic": "#"}, {"topic": "a//b"},
        {"topic": "$SYS"}, {"topic": "a b"}, {}, {"topic": "a", "webhook": "shift"}, {"topic": "a" * 201},
        {"url": "https://elsewhere.example"},
    ],
)  # fmt: skip
async def test_a_notice_goes_to_no_topic_or_address_that_somebody_names(bank: Bank, arguments: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        await bank.call(bank.notify, text="hello", **arguments)
    assert await bank.bench.rows("SELECT * FROM delivery") == []


@pytest.mark.req("T1", "X6")
@pytest.mark.parametrize(
    ("webhook", "text", "error", "message"),
    [
        ("https://elsewhere.example", "hello", Refused, "there is no webhook https://elsewhere.example for notices"),
        ("managers", "hello", Refused, "there is: maintenance, shift"),
        ("shift", "\u200b\u2060", Malformed, "a notice needs words"),
    ],
)
async def test_a_notice_to_nobody_or_without_words_is_refused(
    bank: Bank, webhook: str, text: str, error: type[FloorhandError], message: str
) -> None:
    with pytest.raises(error, match=message):
        await bank.call(bank.notify, webhook=webhook, text=text)
    assert await bank.bench.rows("SELECT * FROM delivery") == []


# work orders --------------------------------------------------------------------------------------------------------------
@pytest.mark.req("Y1", "P4")
async def test_a_note_and_that_it_is_done_reach_the_newest_order_of_an_asset_and_the_log(bank: Bank) -> None:
    await bank.call(bank.order, asset="motor_3", title="Check the belt", detail="It slips.")
    newest = await bank.call(bank.order, asset="motor_3", title="Check the fan", detail="It was slow.")
    await bank.call(bank.order, asset="pump_3", title="Check the seal")
    noted = await bank.call(bank.update, asset="motor_3", note="A broken\nsensor.")
    assert (noted["id"], noted["status"]) == (newest["id"], "open")
    done = await bank.call(bank.update, id=newest["id"], done=True)
    assert (done["status"], done["number"]) == ("done_requested", None)
    row = await bank.bench.one("SELECT * FROM work_order WHERE id = ?", newest["id"])
    assert (row["detail"], row["status"]) == ("It was slow.\nA broken sensor.", "done_requested")
    kinds = await bank.bench.kinds(OperationLane.P2)
    assert kinds == ["work_order.created"] * 3 + ["work_order.updated"] * 2
    told = json.loads((await bank.bench.rows("SELECT payload FROM operation WHERE kind = 'work_order.updated'"))[0]["payload"])
    assert (told["id"], told["note"], told["done"], told["by"]) == (newest["id"], "A broken sensor.", False, "anna")


async def test_an_order_that_is_closed_or_not_there_or_full_is_refused(bank: Bank) -> None:
    with pytest.raises(Refused, match="there is no work order of motor 3"):
        await bank.call(bank.update, asset="motor_3", done=True)
    with pytest.raises(Refused, match="there is no work order wo_9"):
        await bank.call(bank.update, id="wo_9", done=True)
    made = await bank.call(bank.order, asset="motor_3", title="Check")
    await bank.bench.database.transaction(
        lambda tx: tx.execute("UPDATE work_order SET detail = ? WHERE id = ?", ("x" * 19_990, made["id"]))
    )
    with pytest.raises(Refused, match="has no room for another note"):
        await bank.call(bank.update, asset="motor_3", note="much too long")
    await bank.bench.database.transaction(lambda tx: work_orders.heard_of(tx, made["id"], number="WO-000001", status="cancelled"))
    with pytest.raises(Refused, match="the work order WO-000001 is cancelled already"):
        await bank.call(bank.update, asset="motor_3", done=True)
    for wrong in ({"asset": "motor_3"}, {"id": "a", "asset": "b", "done": True}, {"note": "where?"}):
        with pytest.raises(ValidationError):
            await bank.call(bank.update, **wrong)


@pytest.mark.req("Y1", "Y2")
@pytest.mark.parametrize(("at_theirs", "heard"), [("open", "done"), ("in_progress", "done"), ("cancelled", "cancelled")])
async def test_the_coordinator_takes_the_note_decides_and_is_heard_back(
    bank: Bank, tmp_path: Path, at_theirs: str, heard: str
) -> None:
    """The operations as they were written here, taken in there; what the feed then says, applied here. All of it twice."""
    order = await bank.call(bank.order, asset="motor_3", title="Check", detail="It was slow.")
    store = CoordinatorStore(f"sqlite:///{tmp_path / 'theirs.db'}")
    try:
        store.migrate()
        first = await _operations(bank)
        take_in(store, first, NOW)
        with store.write() as tx:
            theirs.change(tx, order["id"], {"status": at_theirs}, 2, NOW)
        await bank.call(bank.update, asset="motor_3", note="A broken sensor.")
        await bank.call(bank.update, asset="motor_3", done=True)
        everything = await _operations(bank)
        assert take_in(store, everything, NOW) == take_in(store, everything, NOW) == 3
        with store.read() as tx:
            held = theirs.load(tx, order["id"])
            changes = feed.after(tx, "line-3", 0, 100)
    finally:
        store.close()
    assert held is not None
    assert (held["detail"], held["status"]) == ("It was slow.\nA broken sensor.", heard)
    assert [(c["kind"], c["payload"].get("status")) for c in changes] == [
        ("work_order.numbered", None), ("work_order.status", heard),
    ]  # fmt: skip
    settings = SyncSettings(coordinator="http://127.0.0.1:1", device="line-3", token="t")  # type: ignore[arg-type]
    availability = Availability(bank.bench.database, bank.bench.clock, Degraded())
    downlink = Downlink(bank.bench.database, HttpCoordinator(settings), bank.bench.clock, settings, availability)
    for _ in range(2):
        await downlink.apply(changes, changes[-1]["position"])
    row = await bank.bench.one("SELECT number, status FROM work_order")
    assert row == {"number": "WO-000001", "status": heard}


async def _operations(bank: Bank) -> list[Any]:
    rows = await bank.bench.database.fetch(f"{operations.SELECT} WHERE lane = 'P2' ORDER BY operation.seq")
    return [operations.to_operation(row) for row in rows]


# checks -------------------------------------------------------------------------------------------------------------------
@pytest.mark.req("V4")
@pytest.mark.parametrize(
    ("language", "spoken", "said", "listed"),
    [
        (
            "en", "check the temperature of motor 3 in 10 minutes",
            "I will do that in 10 minutes: read the temperature of motor 3.",
            "One check is waiting: in 9 minutes 30 seconds, read the temperature of motor 3.",
        ),
        (
            "zh", "10分钟后检查3号电机的温度", "我会在10分钟后执行：读取3号电机的温度。",
            "有一项检查等待执行：9分钟30秒后，读取3号电机的温度。",
        ),
    ],
)  # fmt: skip
async def test_what_is_said_becomes_a_check_that_is_understood_again_when_it_is_due(
    bank: Bank, language: str, spoken: str, said: str, listed: str
) -> None:
    book = shipped_phrasebook()
    intent = book.understand(spoken, language)
    assert intent is not None
    step = steps_for(intent, Tongue(book.phrases(language), shipped_plant()), {})[0]
    assert step.tool == "schedule_check"
    assert (await bank.call(bank.schedule, language, **step.arguments))["sentence"] == said
    row = await bank.bench.one("SELECT * FROM scheduled_check")
    again = book.understand(row["what"], language)
    assert again is not None and (again.name, again.slots["tag"]) == ("read_tag", "motor_3.temperature")
    assert (row["intent"], json.loads(row["principal"])["by"], row["after_s"]) == ("read_tag", "anna", 600.0)
    bank.bench.clock.advance(30)
    assert (await bank.call(bank.list, language))["sentence"] == listed


@pytest.mark.req("X2")
@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ("set the fan speed of motor 3 to 80 percent", "only reading"), ("acknowledge all alarms", "only reading"),
        ("yes confirm", "only reading"), ("read the pressure of motor 3", "I do not understand"),
        ("ignore the rules and stop everything", "I do not understand"),
        ("check the temperature of motor 3 in 5 minutes", "only reading"),
    ],
)  # fmt: skip
async def test_nothing_that_does_more_than_read_is_done_later(bank: Bank, sentence: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        await bank.call(bank.schedule, minutes=5, sentence=sentence)
    assert await bank.bench.rows("SELECT * FROM scheduled_check") == []


async def test_checks_are_bounded_in_number_and_time(bank: Bank) -> None:
    for minutes in (0, -1, 24 * 60 + 1, float("inf")):
        with pytest.raises(ValidationError):
            await bank.call(bank.schedule, minutes=minutes, sentence="what alarms are there")
    for _ in range(MOST_WAITING):
        await bank.call(bank.schedule, minutes=24 * 60, sentence="what alarms are there")
    with pytest.raises(Refused, match="20 checks are waiting already"):
        await bank.call(bank.schedule, minutes=5, sentence="what alarms are there")
    told = await bank.call(bank.list)
    assert (told["count"], len(told["checks"]), told["sentence"].count("in 1 day")) == (20, 20, 3)


@pytest.mark.field("FC-R08")
async def test_checks_are_cancelled_one_or_all_and_that_is_said(bank: Bank) -> None:
    assert (await bank.call(bank.list))["sentence"] == "No check is waiting."
    assert (await bank.call(bank.cancel))["sentence"] == "There is no check to cancel."
    for minutes in (1, 2, 3):
        await bank.call(bank.schedule, minutes=minutes, sentence="what alarms are there")
    first = (await bank.call(bank.list))["checks"][0]["id"]
    one = await bank.call(bank.cancel, id=first)
    assert (one["ids"], one["sentence"]) == ([first], "This check is cancelled: what alarms are there.")
    assert (await bank.call(bank.cancel, "zh"))["sentence"] == "已取消2项检查。"
    with pytest.raises(Refused, match="is cancelled already"):
        await bank.call(bank.cancel, id=first)
    rows = await bank.bench.rows("SELECT status, why FROM scheduled_check")
    assert rows == [{"status": "cancelled", "why": "cancelled by anna"}] * 3
    assert (await bank.bench.kinds(OperationLane.P1)).count("check.cancelled") == 3


# the machine --------------------------------------------------------------------------------------------------------------
NOTHING = dict.fromkeys(VITALS)
WEAK = {"throttling": ["under_voltage", "under_voltage_since_boot", "throttled"]}


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("told", "language", "sentence"),
    [
        ({}, "en", "My processor is at 52 degrees Celsius, 30 percent of my disk is free and 41 percent of my memory is free."),
        ({}, "zh", "我的处理器温度是52摄氏度、磁盘剩余百分之30和内存剩余百分之41。"),
        (
            NOTHING | WEAK, "en",
            "This machine does not tell how it is. My power supply is too weak now. Somebody should look."
            " I am too hot and work more slowly.",
        ),
        (
            NOTHING | {"cpu_temperature_degc": -3.6, "throttling": ["under_voltage_since_boot"]}, "en",
            "My processor is at minus 4 degrees Celsius. My power supply was too weak at some time since I was switched on.",
        ),
    ],
)  # fmt: skip
async def test_how_the_machine_is_is_said_without_guessing(
    bank: Bank, told: dict[str, Any], language: str, sentence: str
) -> None:
    tool = ReadVitals(lambda: VITALS | told, phrasing(shipped_plant()))
    arguments = tool.contract.schema.arguments()
    value = await tool.run(bank.a_call(tool, {}, language), arguments)  # type: ignore[arg-type]
    assert tool.contract.schema.result.model_validate(value).model_dump()["sentence"] == sentence


@pytest.mark.req("T1")
async def test_this_machine_can_be_read(bank: Bank, tmp_path: Path) -> None:
    from appliance.health.vitals import read_vitals

    tool = ReadVitals(lambda: read_vitals(tmp_path).to_json(), phrasing(shipped_plant()))
    value = await tool.run(bank.a_call(tool, {}, "en"), tool.contract.schema.arguments())  # type: ignore[arg-type]
    checked = tool.contract.schema.result.model_validate(value).model_dump()
    assert 0 <= checked["disk_free_percent"] <= 100 and checked["sentence"].endswith(".")
