"""The read-back code: a CRITICAL call is made on no other yes (X5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Intent
from appliance.contracts.principal import Identification, Principal
from tests.support.gate import FAN, SET_FAN, Gate, open_gate, plan_of, principal, rules, write_step
from tests.support.planning import shipped_phrasebook

CRITICAL = rules(writes=[{"tags": [FAN], "access": "critical"}])
VOICE = principal("critical", by="voice", identified=Identification.VOICE)


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with open_gate(tmp_path, CRITICAL) as gate:
        yield gate


@pytest.mark.req("X5")
@pytest.mark.parametrize("who", [VOICE, principal("critical")], ids=["voice", "typed"])
async def test_a_critical_write_wants_its_code_read_back(gate: Gate, who: Principal) -> None:
    await gate.ask(SET_FAN, who)
    code = await gate.code()
    assert len(code) == 3
    assert await gate.said() == [f"Set the fan speed of motor 3 to 80 percent. Say confirm, and the code {' '.join(code)}."]
    for chatter in ("yes", "yes confirm", "okay", "confirm"):
        assert await gate.answer(chatter, who) == "needs_code"
    assert gate.bus.writes == []
    assert await gate.answer(f"confirm {' '.join(code)}", who) == "finished"
    assert gate.bus.writes == [(FAN, 80)]
    allowed = (await gate.bench.rows("SELECT * FROM approval WHERE decision = 'allow'"))[-1]
    assert allowed["rule"] == "consent" and '"with_code":true' in allowed["facts"]


@pytest.mark.req("X5")
async def test_a_yes_without_the_code_is_refused_even_where_nobody_looks_at_the_words(gate: Gate) -> None:
    turn = await gate.ask(SET_FAN, VOICE)
    (row,) = await gate.bench.rows("SELECT id FROM confirmation")
    admission = await gate.admission("yes confirm", VOICE, "speaker:floor")
    with pytest.raises(Refused, match="has to bring its code"):
        await gate.turns.answer(row["id"], True, admission)
    # and were the yes in the ledger all the same, the gate would find that no code came with it
    await gate.bench.database.transaction(
        lambda tx: tx.execute("UPDATE confirmation SET code_read_by = ? WHERE id = ?", (admission.id, row["id"]))
    )
    turn = await gate.turns.answer(row["id"], True, admission)
    await gate.bench.database.transaction(lambda tx: tx.execute("UPDATE confirmation SET code_read_by = NULL"))
    assert (await gate.run(turn)).kind == "failed"
    assert gate.bus.writes == []
    assert (await gate.decisions())[-1] == ("write_tag", "deny", "hard_floor")


@pytest.mark.req("X5")
async def test_three_wrong_codes_close_the_question_as_denied(gate: Gate) -> None:
    turn = await gate.ask(SET_FAN, VOICE)
    code = await gate.code()
    wrong = "0 0 0" if code != "000" else "1 1 1"
    assert [await gate.answer(f"confirm {wrong}", VOICE) for _ in range(3)] == ["wrong_code", "wrong_code", "wrong_codes"]
    asked = await gate.bench.one("SELECT status, wrong_codes FROM confirmation")
    assert (asked["status"], asked["wrong_codes"]) == ("no", 3)
    assert await gate.answer(f"confirm {' '.join(code)}", VOICE) == "nothing_pending"
    assert gate.bus.writes == [] and (await gate.turns.load(turn.id)).state == "abandoned"
    assert (await gate.decisions())[-1] == ("write_tag", "deny", "unattended")


@pytest.mark.req("X5", "V4")
async def test_a_code_answers_its_own_question_and_no_other(gate: Gate) -> None:
    await gate.ask(SET_FAN, VOICE)
    code = " ".join(await gate.code())
    await gate.ask("create a work order for motor three", VOICE)  # asked last, and needs no code
    assert await gate.answer(f"confirm {code}", VOICE) == "finished"
    assert gate.bus.writes == [(FAN, 80)]
    assert (await gate.bench.one("SELECT count(*) AS n FROM work_order"))["n"] == 0
    assert await gate.answer("confirm 1 2 3", VOICE) == "code_of_none"
    assert (await gate.bench.one("SELECT count(*) AS n FROM confirmation WHERE status = 'pending'"))["n"] == 1
    assert await gate.answer("yes", VOICE) == "finished"
    assert (await gate.bench.one("SELECT count(*) AS n FROM work_order"))["n"] == 1


@pytest.mark.req("X5", "V3")
async def test_no_code_holds_a_zero_which_is_heard_as_a_two(gate: Gate) -> None:
    for lane in range(12):
        await gate.ask(SET_FAN, principal("critical"), lane=f"console:{lane}")
    codes = [row["code"] for row in await gate.bench.rows("SELECT code FROM confirmation")]
    assert len(codes) == 12 and not any("0" in code for code in codes)


@pytest.mark.req("X5")
async def test_no_two_open_questions_have_the_same_code(gate: Gate) -> None:
    for lane in ("console:a", "console:b", "console:c"):
        await gate.ask(SET_FAN, principal("critical", by=lane), lane=lane)
    codes = [row["code"] for row in await gate.bench.rows("SELECT code FROM confirmation")]
    assert len(set(codes)) == 3
    assert await gate.answer(f"confirm {' '.join(codes[0])}", principal("critical"), lane="console:b") == "wrong_code"
    assert gate.bus.writes == []


@pytest.mark.req("X5")
async def test_a_code_is_taken_from_a_live_answer_only(gate: Gate) -> None:
    await gate.ask(SET_FAN, VOICE)
    code = " ".join(await gate.code())
    gate.bench.clock.advance(121)
    wrong = "1 1 1" if code != "1 1 1" else "2 2 2"
    assert await gate.answer(f"confirm {wrong}", VOICE) == "asked_too_long_ago"
    assert await gate.answer(f"confirm {code}", VOICE) == "nothing_pending"
    assert (await gate.bench.one("SELECT status FROM confirmation"))["status"] == "abandoned"
    assert gate.bus.writes == [] and (await gate.decisions())[-1] == ("write_tag", "deny", "unattended")


@pytest.mark.req("X5", "V4")
@pytest.mark.field("FC-R11")
async def test_an_alarms_write_takes_a_late_yes_by_no_name(gate: Gate) -> None:
    await gate.ask(SET_FAN, VOICE, lane="asset:motor_3")
    code = await gate.code()
    await gate.ask("what is the temperature of motor three", VOICE)
    assert [await gate.answer(each, VOICE) for each in ("yes", "yes confirm")] == ["needs_code", "needs_code"]
    gate.bench.clock.advance(121)
    assert await gate.answer("yes confirm", VOICE) == "asked_too_long_ago"
    assert await gate.answer(f"confirm {' '.join(code)}", VOICE) == "nothing_pending"
    assert gate.bus.writes == [] and (await gate.decisions())[-1] == ("write_tag", "deny", "unattended")


@pytest.mark.req("X5", "T3")
async def test_a_yes_of_somebody_who_may_not_do_it_does_not_count(gate: Gate) -> None:
    await gate.ask(SET_FAN, VOICE)
    code = " ".join(await gate.code())
    bystander = principal("operator", by="voice", identified=Identification.VOICE)
    assert await gate.answer(f"confirm {code}", bystander) == "may_not_confirm"
    assert gate.bus.writes == []
    assert (await gate.bench.one("SELECT status FROM confirmation"))["status"] == "pending"
    assert await gate.answer(f"confirm {code}", VOICE) == "finished"


@pytest.mark.req("X5", "T3")
async def test_who_may_not_write_what_is_critical_is_not_even_asked(gate: Gate) -> None:
    with pytest.raises(Refused, match="That needs a person with critical access"):
        await gate.ask(SET_FAN, principal("operator"))
    assert await gate.decisions() == [("write_tag", "deny", "hard_floor")]
    turn = await gate.unprepared([write_step()], principal("operator"))
    assert (await gate.run(turn)).kind == "failed"
    assert gate.bus.writes == []


@pytest.mark.req("X5")
async def test_no_rule_allows_a_critical_write_without_the_code(tmp_path: Path) -> None:
    free = rules(allow=["write_tag"], ask=[], writes=[{"tags": ["*"], "access": "critical"}])
    async with open_gate(tmp_path, free) as gate:
        turn = await gate.unprepared([write_step()], principal("critical"))
        assert (await gate.run(turn)).kind == "failed"
        assert (await gate.said())[-1].endswith("That needs a person's yes with its code. It is not done.")
        prepared = await gate.approvals.prepare(plan_of(write_step()), gate.asked(plan_of(), principal("critical"), turn))
        assert [step.tool for step in prepared.steps] == ["ask", "write_tag", "say"]
        assert prepared.steps[0].arguments["needs_code"] is True
        assert gate.bus.writes == []


@pytest.mark.req("V4")
async def test_the_code_stays_out_of_what_is_told_to_others(gate: Gate) -> None:
    await gate.ask(SET_FAN, VOICE)
    code = await gate.code()
    asked = await gate.bench.one("SELECT question FROM confirmation")
    logged = await gate.bench.rows("SELECT payload FROM operation WHERE kind = 'confirmation.asked'")
    assert code not in asked["question"] and " ".join(code) not in asked["question"]
    assert all(" ".join(code) not in row["payload"] for row in logged)


def test_a_bare_number_is_no_answer() -> None:
    book = shipped_phrasebook()
    for text, language in (
        ("4 7 1", "en"),
        ("four seven one", "en"),
        ("the code 4 7 1", "en"),
        ("四七一", "zh"),
        ("代码四七一", "zh"),
    ):
        assert book.understand(text, language) is None
    for text, language in (
        ("confirm four seven one", "en"),
        ("yes confirm and the code 471", "en"),
        ("确认，代码 四 七 一", "zh"),
    ):
        intent = book.understand(text, language)
        assert intent is not None and intent.slots == {"keyword": True, "code": "471"}


@pytest.mark.req("X2", "X5")
async def test_what_will_happen_is_said_in_the_language_of_who_asked(gate: Gate) -> None:
    turn = await gate.unprepared([write_step()], VOICE)
    asked = replace(gate.asked(plan_of(), VOICE, turn), intent=Intent("test", "zh", ""))
    prepared = await gate.approvals.prepare(plan_of(write_step()), asked)
    assert prepared.steps[0].arguments["question"] == "将3号电机的风扇转速设为百分之80。"
    assert prepared.steps[2].arguments["text"] == "已取消，没有做任何更改。"
