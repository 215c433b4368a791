"""One row that nobody can read costs itself: it is recorded as failed, said and named, and the appliance starts and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Outcome
from appliance.contracts.plan import ActionState, Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.execution.followed import followed
from appliance.foundation.supervisor import Faults
from appliance.store import actions, stopping
from tests.support.hall import Hall, open_hall
from tests.support.ledger import given_turn, open_bench

WRITE = Step("write", "write_tag", {"tag": "motor_3.fan", "value": 100})
AT = "2026-03-02T08:00:00.000000+00:00"
REPORT = "That did not work. Something in my own program is broken. The log has it; please report it."
Plant = Callable[[Transaction, Turn], object]

ROW: dict[str, Any] = {
    "id": "ad_odd", "door": "console", "kind": "utterance", "lane": "console:odd", "dedupe_key": "odd", "digest": "d",
    "payload": '{"text": "help", "language": "en", "by": "console"}', "priority": 5, "status": "queued", "admitted_utc": AT,
    "admitted_mono_ns": 5, "boot_id": "boot-1", "clock_synced": 1,
}  # fmt: skip
RESUME = {"kind": "resume", "door": "recovery"}

QUEUED: dict[str, dict[str, Any]] = {
    "a kind of a later version": {"kind": "gossip"},
    "a door of a later version": {"door": "window"},
    "no time": {"admitted_utc": "yesterday"},
    "no JSON": {"payload": "{"},
    "no JSON of an alarm": {"payload": "{", "kind": "alarm", "priority": 9, "lane": "asset:motor_3"},
    "no JSON of an interjection": {"payload": "{", "kind": "interjection", "priority": 12, "lane": "control:x"},
    "no JSON that steers": {"payload": "{", "arrival": "steer"},
    "a list": {"payload": "[]"},
    "goes on with nothing": {"payload": "{}", **RESUME},
    "goes on with a list": {"payload": "[]", **RESUME},
    "goes on with no JSON": {"payload": "{", **RESUME},
}


def insert(table: str, row: dict[str, Any]) -> Callable[[Transaction], object]:
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
    return lambda tx: tx.execute(sql, list(row.values()))


async def goes_on(hall: Hall, broken: int = 0) -> None:
    """Be the next start on the ledger: an alarm is led and a question answered."""
    recovered = await hall.restart()
    assert len(recovered.broken) == broken
    hall.open()
    await hall.conductor.tell_recovered(len(recovered.resumed), recovered.suspended, recovered.stopped, recovered.broken)
    assert (await hall.alarm()).outcome is Outcome.DONE
    assert (await hall.say("help")).outcome is Outcome.DONE
    assert not hall._leading.done()
    await hall.close()
    await hall.audit()


@pytest.mark.req("R1", "R2", "R10")
@pytest.mark.parametrize("changes", QUEUED.values(), ids=QUEUED)
async def test_a_row_that_waits_and_cannot_be_read_ends_as_failed(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with open_hall(tmp_path, is_open=False) as hall:
        await hall.bench.database.transaction(insert("admission", ROW | changes))
        await goes_on(hall)
        odd = await hall.bench.one("SELECT status, outcome FROM admission WHERE id = 'ad_odd'")
        assert odd == {"status": "terminal", "outcome": "failed"}
        assert hall.rooms.faults.count == 1 and Faults.PART in hall.degraded.reasons
        if changes.get("payload") != "[]":  # one without a language breaks what would be said too
            assert (await hall.said()).count(REPORT) == 1


def change(table: str, **columns: Any) -> Plant:
    key = {"turn": "id"}.get(table, "turn_id")
    sets = ", ".join(f"{name} = ?" for name in columns)
    return lambda tx, turn: tx.execute(f"UPDATE {table} SET {sets} WHERE {key} = ?", (*columns.values(), turn.id))


def all_of(*plants: Plant) -> Plant:
    return lambda tx, turn: [plant(tx, turn) for plant in plants]


def wish(tx: Transaction, turn: Turn, at: str = AT) -> None:
    row = {"id": "in_1", "turn_id": turn.id, "cause": "user", "by": "anna", "reason": "no", "asked_utc": at}
    insert("interrupt", row)(tx)


def effect(**changes: Any) -> Plant:
    def plant(tx: Transaction, turn: Turn) -> None:
        (action,) = tx.execute("SELECT id FROM action WHERE turn_id = ?", (turn.id,)).fetchone()
        row = {"action_id": action, "turn_id": turn.id, "tool": "write_tag", "arguments": "{}", "status": "intended", "epoch": 1}
        insert("effect", row | {"intended_utc": AT} | changes)(tx)

    return plant


def interrupted_often(tx: Transaction, turn: Turn) -> None:
    before = None
    for number in range(4):
        ended = {"id": f"ad_{number}x", "dedupe_key": f"k{number}", "status": "terminal", "outcome": "interrupted"}
        insert("admission", ROW | ended | {"resumes": before})(tx)
        before = f"ad_{number}x"
    tx.execute("UPDATE admission SET resumes = ? WHERE turn_id = ?", (before, turn.id))


ENDED_AT_START: dict[str, Plant] = {
    "a kind of a later version": change("admission", kind="gossip"),
    "no JSON": change("admission", payload="{"),
    "no turn": change("admission", turn_id=None),
    "a turn that is not there": change("admission", turn_id="tr_gone"),
    "a turn's context": change("turn", context="{"),
    "a turn's plan": change("turn", plan="{"),
    "a turn's time": change("turn", opened_utc="yesterday"),
    "a wish to stop": lambda tx, turn: wish(tx, turn, "yesterday"),
    "a stopped turn's context": all_of(wish, change("turn", context="{")),
    "a step put aside": all_of(interrupted_often, change("action", arguments="{")),
}
LATER: dict[str, Plant] = {
    "a context that is nothing": change("turn", context="null"),
    "a context that is a list": change("turn", context="[]"),
    "a step's arguments": change("action", arguments="{"),
    "a step's result": change("action", result="{"),
    "an effect's arguments": effect(arguments="{"),
    "an effect's time": effect(intended_utc="yesterday"),
    "words about what was put aside": all_of(interrupted_often, change("turn", context='{"slots": 7, "alarm": 3}')),
    "words about an unknown effect": all_of(interrupted_often, effect(arguments="[]")),
    "a row that goes on with itself": lambda tx, turn: tx.execute(
        "UPDATE admission SET resumes = id WHERE turn_id = ?", (turn.id,)
    ),
}


@pytest.mark.req("R1", "R2", "R4", "R10")
@pytest.mark.parametrize("plant", ENDED_AT_START.values(), ids=ENDED_AT_START)
async def test_what_was_under_way_and_cannot_be_accounted_for_ends_as_failed(tmp_path: Path, plant: Plant) -> None:
    async with open_hall(tmp_path, is_open=False) as hall:
        turn = await given_turn(hall.bench, "u1", [WRITE])
        await hall.bench.database.transaction(lambda tx: plant(tx, turn))
        await goes_on(hall, broken=1)
        odd = await hall.bench.one("SELECT status, outcome FROM admission WHERE id = ?", turn.admission_id)
        assert odd == {"status": "terminal", "outcome": "failed"}
        assert hall.rooms.faults.count == 1 and Faults.PART in hall.degraded.reasons
        assert len([said for said in await hall.said() if said.startswith("That did not work.")]) == 1
        assert len(await hall.bench.rows("SELECT 1 FROM operation WHERE kind = 'audit.row_unreadable'")) == 1


@pytest.mark.req("R1", "R2", "R4", "R10")
@pytest.mark.parametrize("plant", LATER.values(), ids=LATER)
async def test_what_goes_on_after_a_start_and_breaks_there_ends(tmp_path: Path, plant: Plant) -> None:
    async with open_hall(tmp_path, is_open=False) as hall:
        turn = await given_turn(hall.bench, "u1", [WRITE])
        await hall.bench.database.transaction(lambda tx: plant(tx, turn))
        await goes_on(hall)
        assert (await hall.turn(turn.id))["state"] == "failed"


@pytest.mark.req("R2", "R4")
async def test_a_salvaged_ledger_stops_a_turn_that_cannot_be_read(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        turns = [await given_turn(bench, f"u{number}", [WRITE], lane=f"speaker:{number}") for number in range(2)]
        await bench.database.transaction(lambda tx: change("turn", context="{")(tx, turns[0]))
        stopped = await bench.database.transaction(lambda tx: stopping.stop_all(tx, bench.clock, "damaged"))
        assert [turn.id for turn in stopped] == [turns[1].id]
        rows = await bench.rows("SELECT state, failure FROM turn ORDER BY seq")
        assert rows == [{"state": "failed", "failure": "damaged"}] * 2


@pytest.mark.req("T4", "T9")
@pytest.mark.parametrize(
    ("result", "names"),
    [({"truncated": True}, []), ({"playbook": "x", "steps": ["run"]}, ["x"])],
    ids=["only its beginning", "its own step"],
)
async def test_a_playbook_whose_steps_are_not_known_any_more_costs_no_call(
    tmp_path: Path, result: dict[str, Any], names: list[str]
) -> None:
    async with open_bench(tmp_path) as bench:
        turn = await given_turn(bench, "u1", [Step("run", "run_playbook", {"playbook": "x"})])
        (run,) = await bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
        assert followed(turn, [run.become(ActionState.DONE, result)], run.id) == names


DELIVERY: dict[str, Any] = {
    "id": "de_odd", "channel": "speech", "language": "en", "lead": "", "text": "Motor 3.", "priority": 5, "status": "pending",
    "queued_utc": AT, "queued_mono_ns": 5, "boot_id": "boot-1",
}  # fmt: skip
MESSAGE = {"channel": "mqtt", "topic": "line/3", "payload": "{}"}


@pytest.mark.req("R2", "R5")
@pytest.mark.parametrize(
    "changes",
    [
        {"queued_utc": "yesterday"},
        {"queued_utc": "yesterday", "status": "attempting", "boot_id": "boot-0"},
        {**MESSAGE, "payload": "{"},
    ],
    ids=["a time", "a time of what was being said", "a message"],
)
async def test_what_waits_to_be_said_and_cannot_be_read_ends_as_failed(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with open_hall(tmp_path, is_open=False) as hall:
        await hall.bench.database.transaction(insert("delivery", DELIVERY | changes))
        await goes_on(hall, broken=1)
        await hall.speak_all()
        rows = await hall.bench.rows("SELECT status FROM delivery WHERE channel = 'speech' AND id <> 'de_odd'")
        assert {row["status"] for row in rows} == {"delivered"}
        odd = await hall.bench.one("SELECT status, failure FROM delivery WHERE id = 'de_odd'")
        assert odd["status"] == "failed" and odd["failure"]
