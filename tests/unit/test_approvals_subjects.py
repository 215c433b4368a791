"""Rules about subjects hold for every call that is about one, also where its arguments do not name it (X2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plan import Step
from appliance.execution.toolbox.toolbox import AnyTool
from appliance.execution.tools.notify import Notify, Receivers
from appliance.execution.tools.update_work_order import UpdateWorkOrder
from appliance.store import work_orders
from tests.support.gate import Gate, open_gate, principal, rules
from tests.support.hall import LOW_PRESSURE, Hall, open_hall
from tests.support.ledger import Bench
from tests.support.planning import shipped_plant

pytestmark = pytest.mark.req("X2")

NO = "That is not permitted here."
DENY_MOTOR = rules(deny=[{"subjects": ["motor_3*"], "why": {"en": NO}}])
ANA = principal()


def more(bench: Bench) -> Sequence[AnyTool]:
    receivers = Receivers(("shift", "boss"), "notices", "line-3")
    return UpdateWorkOrder(bench.clock, shipped_plant()), Notify(bench.clock, bench.ids, receivers)


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    settings = rules(
        deny=[{"subjects": ["motor_3", "boss", "office/*"], "why": {"en": NO}}], allow=["notify", "update_work_order"]
    )
    async with open_gate(tmp_path, settings, more=more) as gate:
        for asset in ("motor_3", "pump_3"):
            await gate.bench.database.transaction(
                lambda tx, asset=asset: work_orders.create(
                    tx, gate.bench.clock, order_id=f"wo_{asset}", turn_id=None, asset=asset, title="Check", detail=""
                )
            )
        yield gate


CALLS: list[tuple[str, dict[str, Any], bool]] = [
    ("update_work_order", {"id": "wo_motor_3", "done": True}, False),
    ("update_work_order", {"id": "wo_pump_3", "done": True}, True),
    ("update_work_order", {"asset": "motor_3", "done": True}, False),
    ("notify", {"text": "hot", "webhook": "boss"}, False),
    ("notify", {"text": "hot", "webhook": "shift"}, True),
    ("notify", {"text": "hot", "topic": "office/anna"}, False),
    ("notify", {"text": "hot", "topic": "shift"}, True),
]


@pytest.mark.parametrize(("tool", "arguments", "is_made"), CALLS)
async def test_a_call_is_about_what_it_names_by_a_number_too(
    gate: Gate, tool: str, arguments: dict[str, Any], is_made: bool
) -> None:
    turn = await gate.unprepared([Step("a", tool, arguments)], ANA)
    outcome = await gate.run(turn)
    assert (outcome.kind == "finished") is is_made, outcome
    assert is_made or NO in outcome.failure


async def acknowledged(hall: Hall) -> list[str]:
    rows = await hall.bench.rows("SELECT alarm_id FROM alarm WHERE state = 'acknowledged' ORDER BY alarm_id")
    return [row["alarm_id"] for row in rows]


async def told(hall: Hall, text: str) -> str:
    return " ".join(await hall.said((await hall.say(text)).turn_id))


async def test_acknowledging_all_is_denied_while_one_of_them_is_named_by_a_rule(tmp_path: Path) -> None:
    async with open_hall(tmp_path, rules=DENY_MOTOR) as hall:
        await hall.alarm()
        await hall.speak_all()
        assert await told(hall, "acknowledge all alarms") == f"I cannot do that. {NO}"
        assert await told(hall, "acknowledge the alarm") == f"I cannot do that. {NO}"
        assert await acknowledged(hall) == []
        row = await hall.bench.one("SELECT subject, decision, rule FROM approval WHERE tool = 'acknowledge_alarm' LIMIT 1")
        assert row == {"subject": "motor_3_over_temperature", "decision": "deny", "rule": "deny"}


async def test_an_alarm_that_no_rule_names_is_acknowledged_beside_one_that_is(tmp_path: Path) -> None:
    async with open_hall(tmp_path, rules=DENY_MOTOR) as hall:
        await hall.alarm()
        await hall.alarm(**LOW_PRESSURE)
        await hall.speak_all()
        await told(hall, "acknowledge the alarm")  # the one told of last
        assert await acknowledged(hall) == ["pump_3_low_pressure"]
        assert NO in await told(hall, "acknowledge all alarms")
        assert await acknowledged(hall) == ["pump_3_low_pressure"]


async def test_what_is_allowed_for_one_machine_is_asked_for_when_it_is_about_another_too(tmp_path: Path) -> None:
    allowed = rules(allow=[{"tools": ["acknowledge_alarm"], "subjects": ["pump_3"]}])
    async with open_hall(tmp_path, rules=allowed) as hall:
        await hall.alarm()
        await hall.alarm(**LOW_PRESSURE)
        await hall.speak_all()
        before = len(await hall.questions())
        await told(hall, "acknowledge all alarms")
        assert await acknowledged(hall) == [] and len(await hall.questions()) == before + 1
        await hall.say("stop everything")
