"""Action nodes: addressable by number, added to, and skipped, whatever their plan was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, ActionState, Step
from appliance.store import actions
from tests.support.ledger import Bench, given_turn, open_bench

FIRST = (Step("look", "look", {}), Step("tell", "say", {"text": "{steps.look.seen}"}, when="look"))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def given(bench: Bench, *more: Step) -> tuple[str, list[Action]]:
    """Store a turn with two steps and append ``more``."""
    turn = await given_turn(bench, "u1", FIRST)
    return turn.id, await bench.database.transaction(lambda tx: actions.append_plan(tx, bench.ids, turn.id, more))


@pytest.mark.req("S1", "R7")
async def test_steps_can_be_added_to_a_turn_and_keep_talking_of_each_other(bench: Bench) -> None:
    more = (
        Step("look", "look", {"at": "{slots.x}"}),
        Step("look_2", "look", {}),
        Step("check", "look", {}, when="not look"),
        Step("tell", "say", {"text": "{steps.look.seen}, {{steps.look}} {steps.look_2.seen}", "more": ["{steps.look}"]}, "look"),
        Step("bye", "say", {"text": "{steps.looking.seen} {tell}"}, when="tell", optional=True),
    )  # fmt: skip
    turn_id, added = await given(bench, *more)
    stored = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn_id))
    assert stored[2:] == added
    assert [a.position for a in stored] == list(range(7))
    assert [a.step_id for a in stored] == ["look", "tell", "look_3", "look_2", "check", "tell_2", "bye"]
    assert [a.when for a in added] == ["", "", "not look_3", "look_3", "tell_2"]
    assert added[3].arguments == {
        "text": "{steps.look_3.seen}, {{steps.look}} {steps.look_2.seen}", "more": ["{steps.look_3}"],
    }  # fmt: skip
    assert added[4].arguments == {"text": "{steps.looking.seen} {tell}"}
    assert stored[1].arguments == {"text": "{steps.look.seen}"}, "the steps that were there stay as they are"
    again = await bench.database.transaction(lambda tx: actions.append_plan(tx, bench.ids, turn_id, FIRST))
    assert [a.step_id for a in again] == ["look_4", "tell_3"]


@pytest.mark.req("S1")
async def test_a_step_is_found_by_its_number(bench: Bench) -> None:
    turn_id, _ = await given(bench)
    found = await bench.database.transaction(lambda tx: [actions.by_position(tx, turn_id, n) for n in (0, 1, 2, 3, -1)])
    assert [a.step_id if a else None for a in found] == [None, "look", "tell", None, None]


@pytest.mark.req("S1", "R7")
async def test_what_has_not_begun_is_skipped_and_says_why(bench: Bench) -> None:
    turn_id, (third, fourth) = await given(bench, Step("third", "look", {}), Step("fourth", "look", {}))

    def work(tx: object) -> list[Action]:
        first = actions.of_turn(tx, turn_id)[0]  # type: ignore[arg-type]
        actions.change(tx, first.id, ActionState.DONE, {"seen": "x"})  # type: ignore[arg-type]
        actions.change(tx, third.id, ActionState.STARTED)  # type: ignore[arg-type]
        actions.change(tx, fourth.id, ActionState.WAITING, {"confirmation": "cf_1"})  # type: ignore[arg-type]
        return actions.skip_rest(tx, turn_id, {"why": "replaced"})  # type: ignore[arg-type]

    skipped = await bench.database.transaction(work)
    stored = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn_id))
    assert [a.state for a in stored] == ["done", "skipped", "started", "skipped"]
    assert skipped == [stored[1], stored[3]]
    assert stored[1].result == {"why": "replaced"}
    assert stored[3].result == {"confirmation": "cf_1", "why": "replaced"}


async def test_an_action_that_is_not_there_is_refused(bench: Bench) -> None:
    for work in (actions.by_id, lambda tx, action: actions.change(tx, action, ActionState.DONE)):
        with pytest.raises(Refused, match="there is no action"):
            await bench.database.transaction(lambda tx, work=work: work(tx, "ac_none"))  # type: ignore[misc]
