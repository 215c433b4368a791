"""A yes is to one call, as it was said, at that moment: one of days ago, of another boot, or to a changed tag is none."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from appliance.admission.recovery import take_over
from appliance.contracts.admission import Door, RequestKind
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.plan import ActionState, Step
from appliance.contracts.plant import Plant
from appliance.contracts.principal import NOBODY, AccessLevel, Identification
from appliance.contracts.tool import SchemaContract, SecurityContract, SlaContract, TelemetryContract, ToolContract
from appliance.contracts.turn import Turn
from appliance.execution.approval.consent import CONSENT_S
from appliance.execution.fields import Fields
from appliance.store import admissions
from tests.support.gate import FAN, SET_FAN, Gate, open_gate, plan_of, principal, rules, write_step
from tests.support.ledger import given_admission
from tests.support.planning import shipped_plant

ANA, VOICE = principal(), principal(by="voice", identified=Identification.VOICE)
BEFORE_OFF = "You agreed to that before I was off, so I have not done it. Please ask again."
TOO_OLD = "You agreed to that too long ago, so I have not done it. Please ask again."
CHANGED = "What you agreed to has been set up differently since, so I have not done it. Please ask again."
CANCELLED = "Cancelled. Nothing was changed."
ONCE_A_DAY = rules(writes=[{"tags": [FAN], "most": {"count": 1, "within_s": 86_400}}])


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with open_gate(tmp_path) as gate:
        yield gate


async def stored_yes(gate: Gate) -> None:
    """A yes that is on disk when the process dies, before anything came of it."""
    (row,) = await gate.bench.rows("SELECT id FROM confirmation WHERE status = 'pending'")
    await gate.turns.answer(row["id"], True, await gate.admission("yes confirm", VOICE, "speaker:floor"), who=VOICE)


async def restarted(gate: Gate) -> Turn:
    """A new process takes over and goes on with the turn."""
    bench = gate.bench
    recovered = await take_over(bench.database, bench.clock, bench.ids, "again", os.getpid())
    bench.epoch = recovered.ownership.epoch
    bench.database.own(bench.epoch)
    gate.build()
    (row,) = await bench.rows("SELECT * FROM admission WHERE status = 'queued'")
    return await gate.turns.resume(admissions.to_admission(row))


def boot_again(gate: Gate, *, after: timedelta, boot_id: str = "boot-2", up_s: float = 5.0) -> None:
    """The power comes back: the monotonic clock begins anew."""
    clock = gate.bench.clock
    clock.boot_id, clock.mono_ns, clock.now = boot_id, int(up_s * 1e9), clock.now + after


async def of_an_alarm(gate: Gate) -> Turn:
    """A turn of an alarm, whose write waits for a yes."""
    admission = await given_admission(
        gate.bench, "alarm", door=Door.MQTT, kind=RequestKind.ALARM, lane="asset:motor_3", payload={"language": "en"}
    )
    around = {"alarm": {"id": "x"}, "slots": {}}
    turn = await gate.turns.open(admission, language="en", intent="alarm", context=around, offline=False)
    plan = replace(gate.phrase(), source="playbook:hot@c0ffee")
    turn = await gate.turns.plan(turn, await gate.approvals.prepare(plan, gate.asked(plan, NOBODY, turn)))
    await gate.run(turn)
    await gate.speak_all()
    return turn


async def of_a_person(gate: Gate) -> Turn:
    return await gate.ask(SET_FAN, VOICE)


@pytest.mark.req("X2")
@pytest.mark.parametrize(("asked", "is_synced"), [(of_a_person, False), (of_an_alarm, True)])
async def test_a_yes_of_days_ago_does_nothing_and_that_is_said(gate: Gate, asked: Any, is_synced: bool) -> None:
    gate.bench.clock.is_synced = is_synced
    turn = await asked(gate)
    await stored_yes(gate)
    boot_again(gate, after=timedelta(days=3))
    again = await restarted(gate)
    assert (await gate.run(again)).kind == "finished"  # as if the answer had been no
    assert gate.bus.writes == [] and (await gate.said())[-2:] == [BEFORE_OFF, CANCELLED]
    steps = await gate.steps(turn)
    assert steps["write"].state is steps["done"].state is ActionState.SKIPPED
    assert steps["cancelled"].state is ActionState.DONE
    assert (await gate.decisions())[-1] == ("write_tag", "deny", "consent")


@pytest.mark.req("X2")
@pytest.mark.parametrize(("minutes", "does"), [(CONSENT_S / 60 - 0.1, True), (CONSENT_S / 60 + 0.1, False)])
async def test_within_a_boot_a_yes_counts_for_minutes_whatever_wall_time_says(gate: Gate, minutes: float, does: bool) -> None:
    await of_a_person(gate)
    await stored_yes(gate)
    gate.bench.clock.mono_ns += int(minutes * 60e9)
    gate.bench.clock.now -= timedelta(days=300)
    assert (await gate.run(await restarted(gate))).kind == "finished"
    assert gate.bus.writes == ([(FAN, 80)] if does else [])
    assert does or (await gate.said())[-2:] == [TOO_OLD, CANCELLED]


@pytest.mark.req("X2")
async def test_a_yes_counts_from_when_it_came_not_from_when_it_was_looked_at(gate: Gate) -> None:
    turn = await of_a_person(gate)
    (row,) = await gate.bench.rows("SELECT id FROM confirmation WHERE status = 'pending'")
    admission = await gate.admission("yes confirm", VOICE, "speaker:floor")
    gate.bench.clock.advance(CONSENT_S + 1)  # it waited in its lane
    assert (await gate.run(await gate.turns.answer(row["id"], True, admission, who=VOICE))).kind == "finished"
    assert gate.bus.writes == [] and (await gate.steps(turn))["confirm"].result["confirmed"] is False  # type: ignore[index]


@pytest.mark.req("X2")
async def test_a_call_that_does_not_hang_on_its_question_is_not_made_on_an_old_yes_either(gate: Gate) -> None:
    turn = await of_a_person(gate)
    await gate.answer("no", VOICE)
    steps = [
        Step(name, step.tool, step.arguments) for name, step in (await gate.steps(turn)).items() if name in ("confirm", "write")
    ]
    turn = await gate.unprepared(steps, VOICE, lane="speaker:floor")
    await gate.run(turn)
    gate.bench.clock.is_synced = False
    await stored_yes(gate)
    boot_again(gate, after=timedelta(minutes=1))
    assert (await gate.run(await restarted(gate))).kind == "failed"
    assert gate.bus.writes == [] and BEFORE_OFF in await gate.said()


# what was said ----------------------------------------------------------------------------------------------------------
CHANGES: list[dict[str, Any]] = [
    {"unit": "rpm"}, {"high": 3_000}, {"low": -5}, {"scale": 0.1}, {"offset": 3}, {"address": 7}, {"device_id": 9},
    {"type": "int16"}, {"decimals": 1}, {"spoken": {"en": ["heater"], "zh": ["加热"]}},
]  # fmt: skip


def redeclared(**changes: Any) -> Plant:
    told = shipped_plant().model_dump(mode="json")
    tag = next(tag for tag in told["tags"] if f"{tag['asset']}.{tag['name']}" == FAN)
    tag.update(changes)
    return Plant.model_validate(told)


def moved() -> Plant:
    told = shipped_plant().model_dump(mode="json")
    told["links"][0]["host"] = "192.0.2.7"
    return Plant.model_validate(told)


@pytest.mark.req("X2")
@pytest.mark.parametrize("plant", [*(redeclared(**change) for change in CHANGES), moved()])
async def test_what_was_agreed_to_is_not_written_to_a_tag_that_was_declared_differently_since(gate: Gate, plant: Plant) -> None:
    await of_a_person(gate)
    gate.plant = plant
    gate.build()
    assert await gate.answer("yes confirm", VOICE) == "finished"
    assert gate.bus.writes == [] and (await gate.said())[-2:] == [CHANGED, CANCELLED]


@pytest.mark.req("X2")
async def test_how_often_a_tag_is_read_is_no_matter_of_what_was_agreed_to(gate: Gate) -> None:
    await of_a_person(gate)
    gate.plant = redeclared(deadband_percent=7)
    gate.build()
    assert await gate.answer("yes confirm", VOICE) == "finished"
    assert gate.bus.writes == [(FAN, 80)]


@pytest.mark.req("X2")
@pytest.mark.parametrize(
    ("stricter", "rule"),
    [
        (rules(deny=[{"subjects": [FAN]}]), "deny"),
        (rules(writes=[{"tags": [FAN], "access": "critical"}]), "hard_floor"),
        (rules(writes=[{"tags": [FAN], "interlocks": [{"require": "motor_3.temperature < 20"}]}]), "interlock"),
    ],
)
async def test_rules_that_became_stricter_since_hold_for_what_was_agreed_to(gate: Gate, stricter: Any, rule: str) -> None:
    await of_a_person(gate)
    gate.settings = stricter
    gate.build()
    await gate.answer("yes confirm", VOICE)
    assert gate.bus.writes == [] and (await gate.decisions())[-1] == ("write_tag", "deny", rule)


# how often --------------------------------------------------------------------------------------------------------------
async def written(gate: Gate) -> bool:
    """Whether a write that is asked for is made."""
    count = len(gate.bus.writes)
    try:
        await gate.ask(SET_FAN, ANA)
    except Refused:
        return False
    await gate.answer("yes confirm", ANA)
    return len(gate.bus.writes) > count


@pytest.mark.req("X5")
@pytest.mark.parametrize("days", [2, -200])
@pytest.mark.parametrize("synced", [(False, False), (False, True), (True, False)])
async def test_over_boots_with_a_clock_that_may_be_wrong_writes_count_for_as_long_as_the_appliance_is_up(
    tmp_path: Path, days: int, synced: tuple[bool, bool]
) -> None:
    async with open_gate(tmp_path, ONCE_A_DAY) as gate:
        gate.bench.clock.is_synced = synced[0]
        assert await written(gate)
        boot_again(gate, after=timedelta(days=days))
        gate.bench.clock.is_synced = synced[1]
        assert not await written(gate)
        gate.bench.clock.mono_ns = int(86_300e9)
        assert not await written(gate)
        gate.bench.clock.mono_ns = int(86_500e9)  # and no lock-out for months
        assert await written(gate)


@pytest.mark.req("X5")
async def test_over_boots_with_a_clock_that_is_right_wall_time_tells(tmp_path: Path) -> None:
    async with open_gate(tmp_path, ONCE_A_DAY) as gate:
        assert await written(gate)
        boot_again(gate, after=timedelta(hours=5))
        assert not await written(gate)
        boot_again(gate, after=timedelta(hours=20), boot_id="boot-3")
        assert await written(gate)


# another tool -----------------------------------------------------------------------------------------------------------
class Nothing(Fields):
    pass


def reader(name: str, *, fallback: str = "", is_away: bool = False) -> Any:
    class Reads:
        contract: ClassVar[ToolContract] = ToolContract(
            name=name,
            description="Read",
            schema=SchemaContract(Nothing, Nothing),
            sla=SlaContract(1_000),
            security=SecurityContract(AccessLevel.PUBLIC, "field"),
            telemetry=TelemetryContract("a", "b", "c"),
            has_effect=False,
            fallback_tool=fallback,
        )
        calls: ClassVar[list[str]] = []

        async def run(self, call: Any, arguments: Nothing) -> dict[str, Any]:
            self.calls.append(name)
            if is_away:
                raise Unavailable("away")
            return {}

    return Reads()


@pytest.mark.req("X2", "T5")
async def test_a_yes_to_a_tool_is_none_to_the_one_that_stands_in_for_it(tmp_path: Path) -> None:
    main, spare = reader("blink", fallback="glow", is_away=True), reader("glow")
    async with open_gate(tmp_path, rules(ask=["blink", "glow"]), more=lambda bench: [main, spare]) as gate:
        await gate.run(await gate.planned(plan_of(Step("b", "blink", {})), VOICE))
        await gate.speak_all()
        assert await gate.answer("yes confirm", VOICE) == "failed"
        assert set(main.calls) == {"blink"} and spare.calls == []


# alarms -----------------------------------------------------------------------------------------------------------------
ORDER = {"asset": "motor_3", "title": "Look at motor 3", "detail": "It is hot."}
PLAYBOOK = (
    Step("announce", "say", {"text": "Motor 3 is too hot."}),
    Step("more", "ask", {"question": "Shall I create a work order?", "requires_keyword": False, "approves": "order"}),
    Step("order", "create_work_order", ORDER, "more"),
    Step("made", "say", {"text": "Work order {steps.order.id} is made."}, "more"),
    Step("not_made", "say", {"text": "No work order."}, "not more"),
    Step("look", "say", {"text": "Look at it."}, after=("order",)),
)


@pytest.mark.req("X2")
@pytest.mark.parametrize("deny", [[{"tools": ["create_work_order"]}], [{"subjects": ["motor_3"]}]])
async def test_an_alarm_asks_for_nothing_that_is_denied_anyway(tmp_path: Path, deny: Any) -> None:
    async with open_gate(tmp_path, rules(deny=deny)) as gate:
        for count in range(1, 5):  # and the breaker counts none of it
            plan = plan_of(*PLAYBOOK, source="playbook:hot@c0ffee")
            turn = await gate.planned(plan, NOBODY, lane="asset:motor_3", alarm={"id": "x"})
            assert (await gate.run(turn)).kind == "finished"
            assert await gate.said() == ["Motor 3 is too hot.", "Look at it."] * count
        assert await gate.decisions() == []


@pytest.mark.req("X2")
async def test_a_question_stays_that_lets_something_else_be_done(tmp_path: Path) -> None:
    both = Step("more", "ask", {"question": "Shall I create a work order and set the fan?", "requires_keyword": True})
    steps = (PLAYBOOK[0], both, PLAYBOOK[2], write_step(80, when="more"), PLAYBOOK[3])
    async with open_gate(tmp_path, rules(deny=["create_work_order"], allow=["write_tag"], ask=[])) as gate:
        plan = plan_of(*steps, source="playbook:hot@c0ffee")
        turn = await gate.planned(plan, NOBODY, lane="asset:motor_3", alarm={"id": "x"})
        assert (await gate.run(turn)).kind == "waiting"
        assert "order" not in await gate.steps(turn)
