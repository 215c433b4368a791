"""The order in which a call is decided, what is left of each decision, and what a session does after too many denials (X2)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.approval import Decision, Rule, Verdict
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Step
from appliance.contracts.principal import NOBODY, UNATTENDED
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.execution.approval.asking import Questions
from appliance.execution.approval.rulebook import Case, Rulebook
from appliance.store import approvals
from appliance.store.approvals import Decided
from tests.support.gate import FAN, SET_FAN, Gate, open_gate, other, plan_of, principal, rules, write_step
from tests.support.plans import PLANT, phrasing
from tests.support.tool_contracts import CONTRACTS

ANA = principal()
VISITOR = principal("public", by="eve")


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with open_gate(tmp_path) as gate:
        yield gate


async def refusal(gate: Gate, turn: Turn) -> str:
    """What is said when a turn that nobody prepared is run and refused."""
    assert (await gate.run(turn)).kind == "failed"
    assert gate.bus.writes == []
    return (await gate.said())[-1]


# the order ----------------------------------------------------------------------------------------------------------------
BEYOND_LIMITS, WORN = {"value": 500}, "se_worn"
EVERYWHERE: dict[str, Any] = {"deny": ["write_tag"], "unattended": [], "ask": ["write_tag"], "allow": ["write_tag"]}


@pytest.mark.req("X2")
@pytest.mark.parametrize(
    ("lists", "given", "around", "rule"),
    [
        (EVERYWHERE, BEYOND_LIMITS, {"session_id": WORN, "is_unattended": True}, Rule.HARD_FLOOR),
        (EVERYWHERE, {}, {"session_id": WORN, "is_unattended": True}, Rule.DENY),
        ({**EVERYWHERE, "deny": []}, {}, {"session_id": WORN, "is_unattended": True}, Rule.BREAKER),
        ({**EVERYWHERE, "deny": []}, {}, {"is_unattended": True}, Rule.RATE),
        ({**EVERYWHERE, "deny": []}, {"key": "conveyor_3.speed", "value": 1}, {"is_unattended": True}, Rule.UNATTENDED),
        ({**EVERYWHERE, "deny": []}, {"key": "conveyor_3.speed", "value": 1}, {}, Rule.ASK),
        ({"allow": ["write_tag"], "ask": []}, {"key": "conveyor_3.speed", "value": 1}, {}, Rule.ALLOW),
        ({**EVERYWHERE, "ask": []}, BEYOND_LIMITS, {}, Rule.HARD_FLOOR),
        ({**EVERYWHERE, "ask": []}, {}, {"session_id": WORN}, Rule.DENY),
        ({**EVERYWHERE, "deny": [], "ask": []}, {}, {"session_id": WORN}, Rule.BREAKER),
        ({**EVERYWHERE, "deny": []}, {}, {}, Rule.RATE),
    ],
)
async def test_each_rule_stands_before_all_that_come_after_it(
    tmp_path: Path, lists: dict[str, Any], given: dict[str, Any], around: dict[str, Any], rule: Rule
) -> None:
    """All that come after it apply as well: with two of them in another order one of these names the other."""
    most = [{"tags": ["motor_3.*"], "most": {"count": 1, "within_s": 60}}]
    async with open_gate(tmp_path, rules(ask=[], allow=["write_tag"], writes=most)) as gate:
        assert (await gate.run(await gate.planned(plan_of(write_step()), ANA))).kind == "finished"  # the one that is allowed
        tool, clock = gate.toolbox.find("write_tag").contract, gate.bench.clock
        told = {**write_step().arguments, **given}
        case = Case(tool, tool.security.access_level, told, ANA, "en", action_id="ac_new", **around)
        book = Rulebook(rules(**lists, writes=most), gate.plant, phrasing(gate.plant), clock)

        def judged(tx: Transaction) -> Verdict:
            for _ in range(3):
                denied = Decided("", "", WORN, "x", "", Decision.DENY, Rule.DENY, "", ANA, is_automatic=True)
                approvals.note(tx, clock, denied)
            return book.judge(tx, case)

        assert (await gate.bench.database.transaction(judged)).rule is rule


@pytest.mark.req("X2", "T3")
async def test_what_is_above_the_level_is_no_tool_at_all(gate: Gate) -> None:
    with pytest.raises(Refused, match="there is no tool write_tag"):
        await gate.approvals.prepare(
            plan_of(write_step()), gate.asked(plan_of(), VISITOR, await gate.unprepared([write_step()], VISITOR))
        )
    turn = await gate.unprepared([write_step()], VISITOR)
    assert (await gate.run(turn)).kind == "failed"
    assert (await gate.steps(turn))["write"].result == {
        "effect_disposition": "none", "error_code": "tool_validation", "error": "there is no tool write_tag",
    }  # fmt: skip
    hidden = await gate.bench.rows("SELECT * FROM operation WHERE kind = 'audit.call_hidden'")
    assert len(hidden) == 2 and json.loads(hidden[0]["payload"])["who"]["by"] == "eve"


@pytest.mark.req("X2", "X5", "F4")
@pytest.mark.parametrize(
    "step, words",
    [
        (write_step(140), "Fan speed can be set from 0 to 100 percent."),
        (write_step(-1), "Fan speed can be set from 0 to 100 percent."),
        (write_step("eighty"), "Fan speed can be set from 0 to 100 percent."),
        (write_step(True), "Fan speed can be set from 0 to 100 percent."),
        (write_step(80, key="motor_3.temperature"), "The temperature of motor 3 cannot be set."),
        (write_step(80, key="motor_9.fan_speed"), "There is no such value here."),
        (write_step(1, key="motor_3.reset"), "The motor 3.reset of motor 3 can be one of these: off and on."),
    ],
)
async def test_the_limits_of_a_tag_hold_whatever_the_rules_allow(tmp_path: Path, step: Step, words: str) -> None:
    async with open_gate(tmp_path, rules(allow=["*"], ask=[])) as gate:
        assert words.split("motor 3.reset")[0] in await refusal(gate, await gate.unprepared([step], ANA))
        with pytest.raises(Refused) as refused:
            await gate.planned(plan_of(step), ANA)
        assert words.split("motor 3.reset")[0] in refused.value.message


@pytest.mark.req("X2")
async def test_a_deny_rule_stands_before_every_permission(tmp_path: Path) -> None:
    denied = [{"subjects": ["motor_3.*"], "why": {"en": "Motor 3 is being serviced."}}]
    free = rules(deny=denied, unattended=["*"], ask=[], allow=["*"])
    async with open_gate(tmp_path, free) as gate:
        with pytest.raises(Refused, match="Motor 3 is being serviced"):
            await gate.ask(SET_FAN, principal("critical"))
        unattended = {UNATTENDED: True}
        turn = await gate.unprepared([write_step()], NOBODY, **unattended)
        assert await refusal(gate, turn) == "I cannot do that. Motor 3 is being serviced."
        assert {rule for _, _, rule in await gate.decisions()} == {"deny"}
        # nor does a yes that somebody gave before the rule came into force
        read = await gate.planned(plan_of(Step("read", "read_tags", {"keys": ["pump_3.flow"]})), ANA, lane="console:b")
        assert (await gate.run(read)).kind == "finished"
        with pytest.raises(Refused, match="Motor 3 is being serviced"):  # rules about subjects are about reading as well
            await gate.planned(plan_of(Step("read", "read_tags", {"keys": ["motor_3.load"]})), ANA, lane="console:c")


@pytest.mark.req("X2")
async def test_a_rule_of_roles_is_about_those_alone(tmp_path: Path) -> None:
    async with open_gate(tmp_path, rules(deny=[{"tools": ["write_*"], "roles": ["operator"]}])) as gate:
        with pytest.raises(Refused, match="That is not permitted here"):
            await gate.ask(SET_FAN, ANA)
        await gate.ask(SET_FAN, principal("critical"), lane="console:b")
        assert await gate.answer("yes confirm", principal("critical"), lane="console:b") == "finished"


@pytest.mark.req("X2")
async def test_with_nobody_there_what_would_be_asked_is_refused_and_said_so(gate: Gate) -> None:
    nobody = {UNATTENDED: True}
    with pytest.raises(Refused, match="Nobody is there to be asked, so it is not done"):
        await gate.planned(plan_of(write_step()), NOBODY, **nobody)
    turn = await gate.unprepared([write_step()], NOBODY, **nobody)
    assert await refusal(gate, turn) == "I cannot do that. Nobody is there to be asked, so it is not done."
    asking = Step("q", "ask", {"question": "Shall I?"})
    turn = await gate.unprepared([asking], NOBODY, **nobody)
    assert await refusal(gate, turn) == "I cannot do that. Nobody is there to be asked, so it is not done."


@pytest.mark.req("X2")
async def test_what_a_site_lists_runs_unattended_but_nothing_critical_and_nothing_of_a_model(tmp_path: Path) -> None:
    settings = rules(unattended=["write_tag"], writes=[{"tags": ["conveyor_3.speed"], "access": "critical"}])
    async with open_gate(tmp_path, settings) as gate:
        nobody = {UNATTENDED: True}
        boss = principal("critical")
        with pytest.raises(Refused, match="Nobody is there"):
            await gate.planned(plan_of(write_step(1.0, key="conveyor_3.speed")), boss, lane="schedule:1", **nobody)
        with pytest.raises(Refused, match="Nobody is there"):
            await gate.planned(plan_of(write_step(), source="model:x/y"), boss, lane="schedule:2", **nobody)
        turn = await gate.planned(plan_of(write_step()), NOBODY, lane="schedule:3", **nobody)
        assert (await gate.run(turn)).kind == "finished" and gate.bus.writes == [(FAN, 80)]
        assert (await gate.decisions())[-1] == ("write_tag", "allow", "unattended")


@pytest.mark.req("X2")
async def test_what_changes_something_and_no_rule_knows_is_asked_for(tmp_path: Path) -> None:
    async with open_gate(tmp_path, rules(ask=[], allow=[])) as gate:
        order = Step("order", "create_work_order", {"asset": "motor_3", "title": "Check motor 3"})
        turn = await gate.planned(plan_of(order, Step("done", "say", {"text": "Created."})), ANA)
        assert (await gate.run(turn)).kind == "waiting"
        asked = "Shall I do this: creating a work order: asset motor 3, title Check motor 3? Say yes, confirm."
        assert await gate.said() == [asked]
        assert await gate.answer("yes", ANA) == "needs_keyword"
        assert await gate.answer("no", ANA) == "finished"
        assert (await gate.said())[-1] == "Cancelled. Nothing was changed."
        assert await gate.bench.rows("SELECT * FROM work_order") == []
        assert (await gate.steps(turn))["done"].state == "skipped"


@pytest.mark.req("X2")
@pytest.mark.parametrize(
    ("to", "text", "asked"),
    [
        ("webhook", "I looked at motor 3.", "Shall I send this message to gen: I looked at motor 3?"),
        ("topic", "It is {{hot}}", "Shall I send this message to gen: It is {{hot}}?"),
        ("topic", "It is {steps.read.value}", "Shall I send this message to gen: It is {steps.read.value}?"),
    ],
)
def test_a_message_is_asked_for_in_a_sentence(to: str, text: str, asked: str) -> None:
    questions = Questions(PLANT, phrasing(), CONTRACTS, "en")
    assert questions.statement(Step("tell", "notify", {"text": text, to: "gen"})) == asked


@pytest.mark.req("X2", "F4")
async def test_a_tag_is_written_so_often_and_no_more(tmp_path: Path) -> None:
    often = rules(ask=[], allow=["write_tag"], writes=[{"tags": ["motor_3.*"], "most": {"count": 2, "within_s": 60}}])
    async with open_gate(tmp_path, often) as gate:
        clock = gate.bench.clock

        async def write(value: int) -> str:
            turn = await gate.unprepared([write_step(value)], ANA)
            return (await gate.run(turn)).kind

        assert [await write(10), await write(20), await write(30)] == ["finished", "finished", "failed"]
        assert (await gate.said())[-1].endswith(
            "The fan speed of motor 3 may be set 2 times within 60 seconds, and that is used up. Please wait."
        )
        with pytest.raises(Refused, match="may be set 2 times within 60 seconds"):
            await gate.planned(plan_of(write_step(40)), ANA, lane="console:p")
        clock.advance(59)
        assert await write(40) == "failed"
        clock.now = clock.now.replace(year=2031)  # wall time is set: the window is counted on the monotonic clock
        assert await write(40) == "failed"
        clock.advance(2)
        assert await write(50) == "finished"
        clock.boot_id = "boot-2"  # over a boot only wall time is left
        clock.mono_ns = 0
        assert [await write(60), await write(70)] == ["finished", "failed"]
        assert [value for _, value in gate.bus.writes] == [10, 20, 50, 60]


# records ------------------------------------------------------------------------------------------------------------------
@pytest.mark.req("X2", "X5")
async def test_each_decision_leaves_who_asked_how_that_is_known_the_rule_and_why(gate: Gate) -> None:
    turn = await gate.ask(SET_FAN, ANA)
    await gate.answer("yes confirm", ANA)
    rows = await gate.bench.rows("SELECT * FROM approval ORDER BY seq")
    assert [(row["decision"], row["rule"], row["subject"]) for row in rows] == [("ask", "ask", FAN), ("allow", "consent", FAN)]
    allowed = rows[-1]
    assert json.loads(allowed["who"]) == ANA.to_json() and allowed["turn_id"] == turn.id
    facts: dict[str, Any] = json.loads(allowed["facts"])
    assert {name: facts[name] for name in ("tag", "value", "unit", "low", "high", "with_code")} == {
        "tag": FAN, "value": 80, "unit": "%", "low": 0.0, "high": 100.0, "with_code": False,
    }  # fmt: skip
    assert facts["yes_of"]["identified"] == "token"
    (written,) = await gate.bench.rows("SELECT payload FROM operation WHERE kind = 'tag.written'")
    told = json.loads(written["payload"])
    assert (told["tag"], told["value"], told["unit"], told["low"], told["high"]) == (FAN, 80, "%", 0.0, 100.0)
    assert told["who"] == ANA.to_json() and told["shown"]["value"] == 80
    await gate.bench.kinds(OperationLane.P1)


@pytest.mark.req("X2")
async def test_reading_and_speaking_cost_no_row(gate: Gate) -> None:
    turn = await gate.planned(gate.phrase("what is the temperature of motor three"), ANA)
    assert (await gate.run(turn)).kind == "finished"
    assert await gate.decisions() == []


@pytest.mark.req("X2")
async def test_silence_is_a_denial_that_is_recorded(gate: Gate) -> None:
    turn = await gate.ask(SET_FAN, ANA)
    said: list[str] = []
    await gate.turns.abandon_unanswered()
    gate.bench.clock.advance(1801)
    abandoned = await gate.turns.abandon_unanswered(lambda tx, ended: said.append(ended.id))
    assert [each.id for each in abandoned] == said == [turn.id]
    row = (await gate.bench.rows("SELECT * FROM approval ORDER BY seq DESC LIMIT 1"))[0]
    assert (row["decision"], row["rule"], row["why"], row["is_automatic"]) == ("deny", "unattended", "nobody answered", 1)
    assert await gate.answer("yes confirm", ANA) == "nothing_pending" and gate.bus.writes == []


# the breaker --------------------------------------------------------------------------------------------------------------
async def three_denials(gate: Gate) -> None:
    for _ in range(3):
        with pytest.raises(Refused):
            await gate.planned(plan_of(write_step(500), source="model:a/b"), ANA)


ORDER = Step("order", "create_work_order", {"asset": "motor_3", "title": "Check motor 3"})


@pytest.mark.req("X2")
async def test_three_automatic_denials_in_a_row_stop_a_session_until_somebody_says_yes(gate: Gate) -> None:
    await three_denials(gate)
    with pytest.raises(Refused, match="I was refused three times in a row, so I change nothing more here"):
        await gate.planned(plan_of(ORDER), ANA)
    turn = await gate.unprepared([ORDER], ANA)  # another lane is another session
    assert (await gate.run(turn)).kind == "finished"
    await gate.ask(SET_FAN, ANA)  # it can still be asked for: a person's yes ends it
    assert gate.bus.writes == []
    assert await gate.answer("yes confirm", ANA) == "finished"
    assert gate.bus.writes == [(FAN, 80)]
    assert ("", "reset", "breaker") in await gate.decisions()
    turn = await gate.planned(plan_of(ORDER), ANA)
    assert (await gate.run(turn)).kind == "finished"


@pytest.mark.req("X2")
async def test_a_person_can_let_a_session_go_on(gate: Gate) -> None:
    await three_denials(gate)
    session = (await gate.bench.one("SELECT DISTINCT session_id AS id FROM approval"))["id"]
    database, clock = gate.bench.database, gate.bench.clock
    assert await database.transaction(lambda tx: approvals.reset(tx, clock, session, ANA, "looked at it")) == 3
    assert await database.transaction(lambda tx: approvals.reset(tx, clock, session, ANA, "again")) == 0
    turn = await gate.planned(plan_of(ORDER), ANA)
    assert (await gate.run(turn)).kind == "finished"
    assert "audit.breaker_reset" in await gate.bench.kinds(OperationLane.P1)


@pytest.mark.req("X2")
async def test_a_persons_own_sentence_that_meets_a_limit_trips_nothing(gate: Gate) -> None:
    for _ in range(4):
        with pytest.raises(Refused):
            await gate.planned(plan_of(write_step(500)), ANA, lane=f"console:{gate.count}")
    rows = await gate.bench.rows("SELECT decision, is_automatic FROM approval")
    assert {(row["decision"], row["is_automatic"]) for row in rows} == {("deny", 0)}


# what is asked ------------------------------------------------------------------------------------------------------------
@pytest.mark.req("X2")
async def test_what_cannot_be_said_beforehand_is_not_asked_for(gate: Gate) -> None:
    read = Step("read", "read_tags", {"keys": ["pump_3.flow"]})
    for step in (write_step("{steps.read.value}"), Step("order", "create_work_order", {"asset": "motor_3", "title": "{said}"})):
        with pytest.raises(Refused, match="I cannot say beforehand exactly what would be done"):
            await gate.planned(plan_of(read, step, source="model:a/b"), ANA, lane=f"console:{gate.count}")
    long = Step("order", "create_work_order", {"asset": "motor_3", "title": "x" * 190, "detail": "y" * 900})
    with pytest.raises(Refused, match="I cannot say beforehand exactly"):
        await gate.planned(plan_of(long, source="model:a/b"), ANA, lane="console:z")


@pytest.mark.req("X2")
async def test_a_question_a_model_worded_says_what_will_happen_after_all(gate: Gate) -> None:
    lie = Step("q", "ask", {"question": "Shall I say hello?", "approves": "write", "digest": "x", "level": "public"})
    turn = await gate.planned(plan_of(lie, write_step(when="q"), source="model:a/b"), ANA)
    assert (await gate.run(turn)).kind == "waiting"
    assert await gate.said() == [
        "The language model proposes this: Set the fan speed of motor 3 to 80 percent. Say yes, confirm."
    ]


@pytest.mark.req("X2")
async def test_a_yes_is_for_one_call_and_no_other(gate: Gate) -> None:
    await gate.ask(SET_FAN, ANA)
    (turn_row,) = await gate.bench.rows("SELECT id FROM turn")
    await gate.bench.database.transaction(
        lambda tx: tx.execute("UPDATE action SET arguments = replace(arguments, '80', '90') WHERE tool = 'write_tag'")
    )
    assert await gate.answer("yes confirm", ANA) == "failed"
    assert gate.bus.writes == [] and turn_row["id"]
    assert (await gate.said())[-1].startswith("That needs a person's yes first.")


@pytest.mark.req("X2")
async def test_what_follows_a_question_waits_for_the_yes(gate: Gate) -> None:
    steps = (
        write_step(),
        Step("told", "say", {"text": "The fan is at 80 percent."}),
        write_step(1.0, id="belt", key="conveyor_3.speed"),
    )
    plan = plan_of(*steps, source="model:a/b")
    turn = await gate.planned(plan, ANA)
    await gate.run(turn)
    await gate.speak_all()
    assert await gate.answer("no", ANA) == "finished"
    assert await gate.said() == [
        "The language model proposes this: Set the fan speed of motor 3 to 80 percent. Say yes, confirm.",
        "Cancelled. Nothing was changed.",
    ]
    assert gate.bus.writes == []
    turn = await gate.planned(other(plan), ANA)
    await gate.run(turn)
    await gate.speak_all()
    assert await gate.answer("yes confirm", ANA) == "waiting"
    assert gate.bus.writes == [(FAN, 80)]
    asked = "The language model proposes this: Set the belt speed of conveyor 3 to 1.0 metres per second. Say yes, confirm."
    assert (await gate.said())[-1] == asked


@pytest.mark.req("X2", "T3")
async def test_who_may_not_do_it_cannot_have_it_done_by_saying_yes(gate: Gate) -> None:
    asking = Step("confirm", "ask", {"question": "Shall I create a work order for motor 3?", "requires_keyword": False})
    plan = plan_of(asking, replace(ORDER, when="confirm"), source="playbook:hot@c0ffee")
    turn = await gate.planned(plan, NOBODY, lane="asset:motor_3", alarm={"id": "x"})
    assert (await gate.run(turn)).kind == "waiting"
    await gate.speak_all()
    assert await gate.answer("yes", VISITOR) == "may_not_confirm"
    assert await gate.bench.rows("SELECT * FROM work_order") == []
    assert await gate.answer("yes", ANA) == "finished"
    assert len(await gate.bench.rows("SELECT * FROM work_order")) == 1
