"""Tools whose whole effect is rows: work orders, alarms listed and acknowledged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import AlarmAction, AlarmChange, AlarmEvent, AlarmState
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Step
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.acknowledge_alarm import AcknowledgeAlarm
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.list_alarms import ListAlarms
from appliance.execution.tools.reset_alarm import ResetAlarm
from appliance.execution.tools.say import Say
from appliance.execution.tools.shelve_alarm import ShelveAlarm
from appliance.execution.tools.unshelve_alarm import UnshelveAlarm
from appliance.store import actions, alarms, work_orders
from drivers.alarms.states import advance_alarm
from tests.support.alarms import rooms_of
from tests.support.ledger import Bench, open_bench
from tests.support.plans import PLANT, open_turn, phrasing
from tests.support.runner_ports import runner_ports


class Desk:
    """A bench on which plans are run one after another."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.rooms = rooms_of(bench, PLANT)
        self.turns = 0

    async def run(self, *steps: Step, language: str = "en", by: str = "voice") -> tuple[RunOutcome, dict[str, Any]]:
        bench = self.bench
        self.turns += 1
        context = {"by": by}
        turn = await open_turn(
            bench.database, bench.clock, bench.ids, steps, turn_id=f"tr_{self.turns}", language=language, context=context
        )
        wording = phrasing()
        box = Toolbox(
            [
                Say(bench.clock, bench.ids), CreateWorkOrder(bench.clock), ListAlarms(PLANT, wording, bench.clock),
                AcknowledgeAlarm(self.rooms.handling, PLANT, wording), ResetAlarm(self.rooms.handling, PLANT, wording),
                ShelveAlarm(self.rooms.inhibitions), UnshelveAlarm(self.rooms.inhibitions),
            ]
        )  # fmt: skip
        ports = runner_ports(bench.database.path.parent, bench.clock)
        outcome = await Runner(bench.database, box, bench.clock, bench.ids, bench.epoch, wording, **ports).run(turn)
        found = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
        return outcome, {a.step_id: a.result for a in found}

    async def raise_alarm(
        self, alarm_id: str, value: float | None = None, change: AlarmChange = AlarmChange.RAISED, activation: str = "1"
    ) -> str:
        unit = "degC" if value is not None else ""
        event = AlarmEvent("plc", alarm_id, activation, change, value, unit, None)
        state = AlarmState.UNACKNOWLEDGED
        if change is AlarmChange.CLEARED:
            known = await self.bench.database.transaction(lambda tx: alarms.by_activation(tx, event.activation_id))
            assert known is not None
            state = advance_alarm(known.state, AlarmAction.CLEAR)
        definition = PLANT.alarm_by_id[alarm_id]
        await self.bench.database.transaction(lambda tx: alarms.apply(tx, self.bench.clock, definition, event, state))
        return event.activation_id


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_bench(tmp_path) as bench:
        yield Desk(bench)


LIST = Step("alarms", "list_alarms", {})
SAY_LIST = Step("answer", "say", {"text": "{steps.alarms.sentence}"})
ACKNOWLEDGE = Step("ack", "acknowledge_alarm", {})


@pytest.mark.req("P4", "Y1")
async def test_a_work_order_and_its_operation_come_with_the_action(desk: Desk) -> None:
    order = {"asset": "motor_3", "title": "Check the fan", "detail": "It was slow."}
    outcome, results = await desk.run(Step("order", "create_work_order", order), Step("say", "say", {"text": "{steps.order.id}"}))
    assert outcome.kind == "finished"
    row = await desk.bench.one("SELECT * FROM work_order")
    action = await desk.bench.one("SELECT id FROM action WHERE step_id = 'order'")
    assert results["order"]["id"] == row["id"] == "wo_" + action["id"].rpartition("_")[2]
    assert (row["asset"], row["title"], row["number"], row["status"]) == ("motor_3", "Check the fan", None, "open")
    assert await desk.bench.kinds(OperationLane.P2) == ["work_order.created"]
    operation = await desk.bench.one("SELECT * FROM operation WHERE lane = 'P2'")
    assert operation["entity"] == row["id"]
    assert json.loads(operation["payload"]) == {
        "id": row["id"], "turn_id": "tr_1", "created_utc": row["created_utc"], **order,
    }  # fmt: skip


async def test_what_the_coordinator_says_of_an_order_is_noted_once(desk: Desk) -> None:
    _, results = await desk.run(Step("order", "create_work_order", {"asset": "motor_3", "title": "Check"}))
    order_id = results["order"]["id"]

    async def heard(identity: str, number: str, status: str) -> bool:
        return await desk.bench.database.transaction(lambda tx: work_orders.heard_of(tx, identity, number=number, status=status))

    assert [
        await heard(order_id, "WO-7", "open"),
        await heard(order_id, "WO-7", "open"),
        await heard(order_id, "WO-7", "closed"),
    ] == [
        True,
        False,
        True,
    ]
    assert not await heard("wo_nobodys", "WO-8", "open")
    order = await desk.bench.database.transaction(lambda tx: work_orders.load(tx, order_id))
    assert order is not None and (order.number, order.status, order.created_utc) == ("WO-7", "closed", desk.bench.clock.now)
    assert await desk.bench.database.transaction(lambda tx: work_orders.load(tx, "wo_nobodys")) is None


@pytest.mark.req("F6")
async def test_alarms_are_told_most_urgent_first_with_their_value_and_state(desk: Desk) -> None:
    _, results = await desk.run(LIST)
    assert (results["alarms"]["count"], results["alarms"]["sentence"]) == (0, "There is no alarm.")
    await desk.raise_alarm("motor_3_hot", 94.2)
    _, results = await desk.run(LIST)
    assert results["alarms"]["sentence"] == "One alarm: Motor 3 is too hot, 94.2 degrees Celsius, not acknowledged."
    await desk.raise_alarm("motor_3_trip")
    _, results = await desk.run(LIST)
    assert [a["alarm"] for a in results["alarms"]["alarms"]] == ["motor_3_trip", "motor_3_hot"]
    assert "Motor 3 tripped, not acknowledged and Motor 3 is too hot" in results["alarms"]["sentence"]
    _, results = await desk.run(LIST, language="zh")
    assert "3号电机跳闸，未确认和3号电机过热，94.2摄氏度，未确认" in results["alarms"]["sentence"]


@pytest.mark.req("F6", "T9")
async def test_hundreds_of_alarms_are_listed_acknowledged_and_reset_by_number(desk: Desk) -> None:
    for number in range(600):
        await desk.raise_alarm("motor_3_hot", 94.2, activation=str(number))
    urgent = await desk.raise_alarm("motor_3_trip")
    _, results = await desk.run(LIST, SAY_LIST)
    listed = results["alarms"]
    assert (listed["count"], len(listed["alarms"]), listed["alarms"][0]["activation"]) == (601, 20, urgent)
    (spoken,) = await desk.bench.rows("SELECT text FROM delivery")
    assert spoken["text"].startswith("601 alarms: Motor 3 tripped, not acknowledged, ")
    _, results = await desk.run(ACKNOWLEDGE)
    done = results["ack"]
    assert (done["count"], done["sentence"], len(done["activations"])) == (601, "601 alarms acknowledged.", 20)
    assert await desk.bench.rows("SELECT 1 FROM alarm WHERE state <> 'acknowledged'") == []
    await desk.bench.database.transaction(lambda tx: tx.execute("UPDATE alarm SET state = 'latched'"))
    _, results = await desk.run(Step("reset", "reset_alarm", {}))
    assert (results["reset"]["count"], len(results["reset"]["activations"])) == (601, 20)


@pytest.mark.req("F7")
async def test_the_alarm_is_one_alarm_and_the_reply_names_it(desk: Desk) -> None:
    hot = await desk.raise_alarm("motor_3_hot", 94.2)
    trip = await desk.raise_alarm("motor_3_trip")
    last = Step("ack", "acknowledge_alarm", {"only_last": True})
    _, results = await desk.run(last)
    assert (results["ack"]["activations"], results["ack"]["sentence"]) == ([trip], "Acknowledged: Motor 3 tripped.")
    _, results = await desk.run(last, language="zh")
    assert (results["ack"]["activations"], results["ack"]["sentence"]) == ([hot], "已确认：3号电机过热，94.2摄氏度。")
    _, results = await desk.run(last)
    assert results["ack"]["sentence"] == "There is nothing to acknowledge."
    await desk.bench.database.transaction(lambda tx: tx.execute("UPDATE alarm SET state = 'latched'"))
    _, results = await desk.run(Step("reset", "reset_alarm", {"only_last": True}))
    assert (results["reset"]["activations"], results["reset"]["sentence"]) == ([trip], "Reset: Motor 3 tripped.")


@pytest.mark.req("F6", "F7")
async def test_acknowledging_is_bound_to_activation_and_person(desk: Desk) -> None:
    _, results = await desk.run(ACKNOWLEDGE)
    assert (results["ack"]["count"], results["ack"]["sentence"]) == (0, "There is nothing to acknowledge.")
    hot = await desk.raise_alarm("motor_3_hot", 94.2)
    trip = await desk.raise_alarm("motor_3_trip")
    await desk.raise_alarm("motor_3_trip", change=AlarmChange.CLEARED)
    _, results = await desk.run(ACKNOWLEDGE, by="anna")
    assert (results["ack"]["count"], results["ack"]["activations"], results["ack"]["by"]) == (2, [hot, trip], "anna")
    assert results["ack"]["sentence"] == "2 alarms acknowledged."
    rows = await desk.bench.rows("SELECT state, acknowledged_by FROM alarm ORDER BY seq")
    assert [(r["state"], r["acknowledged_by"]) for r in rows] == [("acknowledged", "anna"), ("normal", "anna")]
    assert (await desk.bench.kinds(OperationLane.P0))[-2:] == ["alarm.acknowledged", "alarm.acknowledged"]


@pytest.mark.req("F7")
async def test_one_activation_is_acknowledged_or_refused_with_a_reason(desk: Desk) -> None:
    hot = await desk.raise_alarm("motor_3_hot", 94.2)
    await desk.raise_alarm("motor_3_trip")
    one = Step("ack", "acknowledge_alarm", {"activation": hot})
    _, results = await desk.run(one)
    assert results["ack"]["activations"] == [hot]
    outcome, _ = await desk.run(one)
    assert outcome.failure == "ack: refused: the alarm is acknowledged already"
    outcome, _ = await desk.run(Step("ack", "acknowledge_alarm", {"activation": "plc:nothing:1"}))
    assert outcome.failure == "ack: refused: there is no alarm plc:nothing:1"
    assert len(await desk.bench.rows("SELECT 1 FROM alarm WHERE state = 'unacknowledged'")) == 1


@pytest.mark.req("F7")
async def test_only_what_had_been_raised_when_the_person_spoke_is_acknowledged(desk: Desk) -> None:
    hot = await desk.raise_alarm("motor_3_hot", 94.2)
    spoken = await open_turn(
        desk.bench.database, desk.bench.clock, desk.bench.ids, [ACKNOWLEDGE], turn_id="tr_said", context={"by": "anna"}
    )
    trip = await desk.raise_alarm("motor_3_trip")  # raised while the sentence was on its way
    box = Toolbox([AcknowledgeAlarm(desk.rooms.handling, PLANT, phrasing())])
    bench = desk.bench
    ports = runner_ports(bench.database.path.parent, bench.clock)
    await Runner(bench.database, box, bench.clock, bench.ids, bench.epoch, phrasing(), **ports).run(spoken)
    rows = await bench.rows("SELECT activation_id, state FROM alarm ORDER BY seq")
    assert [(r["activation_id"], r["state"]) for r in rows] == [(hot, "acknowledged"), (trip, "unacknowledged")]


@pytest.mark.req("F7")
async def test_an_acknowledgement_of_what_has_changed_meanwhile_is_refused(desk: Desk) -> None:
    hot = await desk.raise_alarm("motor_3_hot", 94.2)
    _, shown = await desk.run(LIST)
    revision = shown["alarms"]["alarms"][0]["revision"]
    await desk.raise_alarm("motor_3_hot", change=AlarmChange.CLEARED)
    late = Step("ack", "acknowledge_alarm", {"activation": hot, "revision": revision})
    outcome, _ = await desk.run(late)
    assert outcome.failure == "ack: refused: the alarm changed meanwhile: it is returned unacknowledged now"
    assert (await desk.bench.one("SELECT acknowledged_by FROM alarm"))["acknowledged_by"] is None


@pytest.mark.req("F6")
async def test_shelving_by_voice_is_in_the_speakers_name_and_said_in_the_list(desk: Desk) -> None:
    await desk.raise_alarm("motor_3_hot", 94.2)
    shelve = {"alarm": "motor_3_hot", "minutes": 30, "reason": "cleaning"}
    outcome, results = await desk.run(Step("shelve", "shelve_alarm", shelve), by="anna")
    assert outcome.kind == "finished" and (results["shelve"]["alarm"], results["shelve"]["by"]) == ("motor_3_hot", "anna")
    await desk.raise_alarm("motor_3_trip")
    _, results = await desk.run(LIST)
    assert results["alarms"]["sentence"] == (
        "2 alarms: Motor 3 tripped, not acknowledged and Motor 3 is too hot, 94.2 degrees Celsius, shelved."
    )
    outcome, results = await desk.run(Step("unshelve", "unshelve_alarm", {"alarm": "motor_3_hot"}))
    assert results["unshelve"]["announced"] == 0  # it had been told before it was shelved
    outcome, _ = await desk.run(Step("unshelve", "unshelve_alarm", {"alarm": "motor_3_hot"}))
    assert outcome.failure == "unshelve: refused: motor_3_hot is not shelved"
    outcome, _ = await desk.run(Step("shelve", "shelve_alarm", shelve | {"minutes": 1000}))
    assert outcome.failure == "shelve: refused: an alarm may be shelved for 480 minutes at most"


@pytest.mark.req("F6")
async def test_what_is_out_of_service_is_not_listed(desk: Desk) -> None:
    await desk.raise_alarm("motor_3_hot", 94.2)
    await desk.rooms.inhibitions.take_out("motor_3_hot", by="anna", reason="sensor is broken")
    _, results = await desk.run(LIST)
    assert results["alarms"]["sentence"] == "There is no alarm."


@pytest.mark.req("F6")
async def test_latched_alarms_are_reset_by_whoever_says_so(desk: Desk) -> None:
    hot = await desk.raise_alarm("motor_3_hot", 94.2)
    await desk.raise_alarm("motor_3_trip")
    await desk.run(ACKNOWLEDGE)
    latch = AlarmEvent("plc", "motor_3_hot", "1", AlarmChange.CLEARED, None, "", None)
    bench, definition = desk.bench, PLANT.alarm_by_id["motor_3_hot"]
    await bench.database.transaction(lambda tx: alarms.apply(tx, bench.clock, definition, latch, AlarmState.LATCHED))
    _, results = await desk.run(LIST)
    assert "Motor 3 is too hot, 94.2 degrees Celsius, gone but latched" in results["alarms"]["sentence"]
    reset = Step("reset", "reset_alarm", {})
    _, results = await desk.run(reset, by="anna")
    assert (results["reset"]["activations"], results["reset"]["sentence"]) == (
        [hot],
        "Reset: Motor 3 is too hot, 94.2 degrees Celsius.",
    )
    payload = json.loads((await bench.one("SELECT payload FROM operation WHERE kind = 'alarm.reset'"))["payload"])
    assert (payload["by"], payload["state"]) == ("anna", "normal")
    _, results = await desk.run(reset)
    assert results["reset"]["sentence"] == "There is nothing to reset."
