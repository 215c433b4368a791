"""One gate for every path (FC-A03): by whatever way a write comes, it is not made on nobody's word."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.admission.recovery import take_over
from appliance.contracts.plan import Plan, Step
from appliance.contracts.principal import NOBODY, UNATTENDED, Principal
from appliance.contracts.turn import Turn
from appliance.store import actions, admissions
from tests.support.gate import FAN, SET_FAN, Gate, open_gate, plan_of, principal, write_step

ANA = principal()
READ = Step("read", "read_tags", {"keys": ["pump_3.flow"]})


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with open_gate(tmp_path) as gate:
        yield gate


async def as_stored(gate: Gate, source: str, who: Principal = ANA, **context: object) -> Turn:
    return await gate.unprepared([write_step()], who, source=source, **context)


async def by_steer(gate: Gate) -> Turn:
    """The write joins a turn that only reads."""
    turn = await gate.unprepared([READ], ANA)
    admission = await gate.admission(SET_FAN, ANA, turn.lane)
    return await gate.turns.joins.steer(turn.id, admission, plan_of(write_step()), {"admission": admission.id})


async def by_going_on(gate: Gate) -> Turn:
    """A plan that goes on gets the write in its next round."""
    turn = await gate.unprepared([READ], ANA, source="model:a/b")
    return await gate.turns.joins.extend(turn.id, plan_of(write_step(), source="model:a/b"), {})


async def by_procedure(gate: Gate) -> Turn:
    """A tool that extends the plan of its own turn appends the write."""
    turn = await gate.unprepared([READ], ANA)
    ids = gate.bench.ids
    await gate.bench.database.transaction(lambda tx: actions.append_plan(tx, ids, turn.id, [write_step()]))
    return turn


async def by_crash(gate: Gate) -> Turn:
    """The process dies before the write began; its successor finds the plan."""
    await gate.unprepared([write_step()], ANA)
    return await restarted(gate)


async def restarted(gate: Gate) -> Turn:
    """Another process takes over; return the turn it goes on with."""
    bench = gate.bench
    recovered = await take_over(bench.database, bench.clock, bench.ids, "again", os.getpid())
    bench.epoch = recovered.ownership.epoch
    bench.database.own(bench.epoch)
    gate.build()
    (row,) = await bench.database.fetch("SELECT * FROM admission WHERE status = 'queued'")
    return await gate.turns.resume(admissions.to_admission(row))


PATHS: dict[str, Callable[[Gate], Awaitable[Turn]]] = {
    "phrase": lambda gate: as_stored(gate, "phrase:set_tag"),
    "playbook": lambda gate: as_stored(gate, "playbook:over-temperature@c0ffee"),
    "example": lambda gate: as_stored(gate, "example:set_tag"),
    "model": lambda gate: as_stored(gate, "model:local/tiny"),
    "alarm": lambda gate: as_stored(gate, "playbook:over-temperature@c0ffee", NOBODY, alarm={"id": "x"}),
    "schedule": lambda gate: as_stored(gate, "phrase:set_tag", NOBODY, **{UNATTENDED: True}),
    "schedule of a person": lambda gate: as_stored(gate, "phrase:set_tag", ANA, **{UNATTENDED: True}),
    "steer": by_steer,
    "next round": by_going_on,
    "procedure": by_procedure,
    "after a crash": by_crash,
}


@pytest.mark.req("X2")
@pytest.mark.field("FC-A03")
@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_written_on_nobodys_word_by_whatever_path_it_comes(gate: Gate, path: str) -> None:
    turn = await PATHS[path](gate)
    assert (await gate.run(turn)).kind == "failed"
    assert gate.bus.writes == []
    assert await gate.bench.rows("SELECT * FROM effect") == []
    (row,) = await gate.bench.rows("SELECT * FROM approval")
    assert (row["tool"], row["subject"], row["decision"], row["is_automatic"]) == ("write_tag", FAN, "deny", 1)
    assert (row["turn_id"], json.loads(row["who"])) == (turn.id, turn.context["principal"])
    (entry,) = await gate.bench.rows("SELECT * FROM operation WHERE kind = 'audit.call_denied'")
    assert json.loads(entry["payload"])["turn"] == turn.id


def set_fan(gate: Gate, source: str) -> Plan:
    return replace(gate.phrase(), source=source)


@pytest.mark.req("X2")
@pytest.mark.field("FC-A03")
@pytest.mark.parametrize("source", ["phrase:set_tag", "playbook:cool@c0ffee", "example:set_tag", "model:local/tiny"])
async def test_each_way_is_open_to_who_is_asked_and_says_yes(gate: Gate, source: str) -> None:
    for plan in (set_fan(gate, source), plan_of(write_step(), source=source)):
        gate.bus.writes.clear()
        turn = await gate.planned(plan, ANA)
        assert (await gate.run(turn)).kind == "waiting"
        await gate.speak_all()
        assert gate.bus.writes == []
        assert await gate.answer("yes confirm", ANA) == "finished"
        assert gate.bus.writes == [(FAN, 80)]


@pytest.mark.req("X2", "R1")
@pytest.mark.field("FC-A03")
async def test_a_yes_stays_bound_when_a_step_gets_another_name_in_the_turn_it_joins(gate: Gate) -> None:
    turn = await gate.unprepared([READ], ANA, lane="x")
    for sentence in (SET_FAN, "set the belt speed of conveyor three to one"):
        admission = await gate.admission(sentence, ANA, turn.lane)
        plan = await gate.approvals.prepare(gate.phrase(sentence), gate.asked(plan_of(), ANA, turn))
        turn = await gate.turns.joins.steer(turn.id, admission, plan, {"admission": admission.id})
    assert (await gate.run(turn)).kind == "waiting"
    await gate.speak_all()
    assert await gate.answer("yes confirm", ANA, lane=turn.lane) == "waiting"
    assert gate.bus.writes == [(FAN, 80)]
    assert await gate.answer("yes confirm", ANA, lane=turn.lane) == "finished"
    assert gate.bus.writes == [(FAN, 80), ("conveyor_3.speed", 1)]


@pytest.mark.req("X2")
@pytest.mark.field("FC-A03")
async def test_what_a_model_adds_to_a_persons_turn_is_known_as_a_models(gate: Gate) -> None:
    turn = await gate.unprepared([READ], ANA)
    admission = await gate.admission("and note it", ANA, turn.lane)
    order = Step("order", "create_work_order", {"asset": "motor_3", "title": "Check motor 3"})
    turn = await gate.turns.joins.steer(turn.id, admission, plan_of(order, source="model:a/b"), {"admission": admission.id})
    assert (await gate.run(turn)).kind == "failed"
    assert await gate.bench.rows("SELECT * FROM work_order") == []
    assert (await gate.decisions())[-1] == ("create_work_order", "deny", "ask")


@pytest.mark.req("X2", "R4")
@pytest.mark.field("FC-A03")
async def test_a_yes_outlives_the_process_that_asked(gate: Gate) -> None:
    turn = await gate.ask(SET_FAN, ANA)
    (row,) = await gate.bench.rows("SELECT id FROM confirmation")
    admission = await gate.admission("yes confirm", ANA, "speaker:floor")
    await gate.turns.answer(row["id"], True, admission)  # and here it dies
    turn = await restarted(gate)
    assert (await gate.run(turn)).kind == "finished"
    assert gate.bus.writes == [(FAN, 80)]


@pytest.mark.req("X2")
async def test_an_alarm_is_told_whatever_may_not_be_done_about_it(gate: Gate) -> None:
    steps = (Step("announce", "say", {"text": "Motor 3 is too hot."}), write_step(500), Step("more", "say", {"text": "Look."}))
    turn = await gate.planned(plan_of(*steps, source="playbook:hot@c0ffee"), NOBODY, lane="asset:motor_3", alarm={"id": "x"})
    assert (await gate.run(turn)).kind == "finished"
    assert await gate.said() == ["Motor 3 is too hot.", "Look."] and gate.bus.writes == []
