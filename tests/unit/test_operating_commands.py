"""Hold, drain, stop and what is unknown, from the command line over a real local API and ledger."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.cli import exit_codes
from appliance.contracts.hold import HoldSource
from appliance.contracts.plan import Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import TurnState
from appliance.health.status_line import status_line
from appliance.store import turns
from tests.support.command_line import Run, command_line
from tests.support.ledger import given_turn
from tests.support.operating import Site, serving_site

ME = getpass.getuser()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving_site(tmp_path, has_key=True) as built:
        yield built


@pytest.mark.req("R10", "O2")
async def test_hold_and_release(site: Site, run: Run) -> None:
    assert (await run("hold"))[0] == exit_codes.USAGE  # without a reason nobody knows later why
    code, out, _ = await run("hold", "--reason", "belt off the pulley")
    assert (code, f"on hold by {ME} since" in out, "belt off the pulley" in out) == (0, True, True)
    code, out, _ = await run("hold", "--reason", "again", "--json")
    assert (code, json.loads(out)["holds"][0]["reason"]) == (0, "belt off the pulley; again")
    await site.holding.begin(HoldSource.KEY_SWITCH, by="key switch", reason="")
    code, out, _ = await run("release")
    assert (code, out.splitlines()[0], "on hold by the key switch" in out) == (exit_codes.PROBLEM, "released, and still:", True)
    await site.holding.end(HoldSource.KEY_SWITCH, by="key switch")
    code, _, err = await run("release")
    assert (code, err.splitlines()[0], "floorhand status" in err) == (exit_codes.PROBLEM, "nothing is on hold", True)
    assert await site.texts() == [
        "I am on hold. Nothing is executed until I am released.",
        "I am released and carry out work again.",
    ]


@pytest.mark.req("O2")
@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(
    "command",
    [
        ("drain", "--wait"), ("ask", "what", "--wait"), ("tags", "history", "motor_3.temperature", "--minutes"),
        ("alarms", "shelve", "x", "--reason", "r", "--minutes"), ("plant", "run", "--speed"),
        ("plant", "record", "--output", "x", "--seconds"), ("plant", "record", "--output", "x", "--every"),
        ("plant", "replay", "x", "--speed"), ("plant", "generate", "--output", "x", "--every"),
        ("token", "make", "bob", "--role", "operator", "--hours"),
    ],
)  # fmt: skip
async def test_what_is_no_number_is_refused_before_anything_is_done(run: Run, command: tuple[str, ...], number: str) -> None:
    """JSON has no word for it, and to a range it is within."""
    code, out, err = await run(*command[:-1], f"{command[-1]}={number}")
    assert (code, out, "Traceback" in err) == (exit_codes.USAGE, "", False), err
    assert command[-1] in err


@pytest.mark.req("O2")
async def test_words_that_are_no_text_are_refused(site: Site, run: Run) -> None:
    """Half a character, as a shell hands over bytes that are not UTF-8; and a number that JSON does not know."""
    for path in (("turns", "show", "\udcff"), ("turns", "list", "--session", "\udcff")):
        code, out, err = await run(*path)
        assert (code, out, "cannot be sent" in err) == (exit_codes.USAGE, "", True), (path, err)
    for command in (("ask", "\udcff"), ("hold", "--reason", "\udcff"), ("tools", "stress", "x", "--arguments", '{"x": NaN}')):
        code, out, err = await run(*command)
        assert (code, out, "cannot be sent as JSON" in err) == (exit_codes.USAGE, "", True), (command, err)


@pytest.mark.req("R10", "O2")
async def test_a_hold_of_somebody_else_is_released_by_name_or_with_all(site: Site, run: Run) -> None:
    for name in ("anna", "bert", "carl"):
        await site.holding.hold("belt", name)
    code, _, err = await run("release")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, f"{ME} holds nothing; on hold by anna, bert, carl")
    assert "release --for 'anna'" in err
    assert (await run("release", "--for", "anna", "--all"))[0] == exit_codes.USAGE
    code, out, _ = await run("release", "--for", "anna")
    assert (code, "by anna" in out, "by bert" in out) == (exit_codes.PROBLEM, False, True)
    assert (await run("release", "--all"))[:2] == (0, "not on hold: work is carried out\n")
    noted = await site.bench.rows("SELECT payload ->> '$.by' AS by FROM operation WHERE kind = 'audit.hold_ended'")
    assert [row["by"] for row in noted] == [ME] * 3


@pytest.mark.req("R10", "R8", "O2")
async def test_everybody_who_looks_sees_it(site: Site, run: Run, tmp_path: Path) -> None:
    assert (await run("status"))[0] == 0
    await site.holding.hold("belt off the pulley", "anna")
    site.core.degraded = {"mqtt": "refused", "clock_behind": "it is 1970 by the clock"}
    site.core.facts = {"hold": site.holding.facts(), "draining": True, "needs_attention": ["mqtt"], "clock": {"is_synced": False}}
    code, out, _ = await run("status")
    first = out.splitlines()[:3]
    assert (code, first[0].startswith("ON HOLD by anna since"), first[1][:8]) == (exit_codes.PROBLEM, True, "DRAINING")
    assert first[2] == "NEEDS ATTENTION: mqtt: refused"
    code, out, _ = await run("status", "--json")
    assert (code, json.loads(out)["hold"]["on_hold"]) == (exit_codes.PROBLEM, True)
    code, out, _ = await run("doctor", "--json")
    found = {each["check"]: each for each in json.loads(out)["findings"]}
    assert (code, found["service.hold"]["cure"]) == (
        exit_codes.PROBLEM,
        "When it is safe: floorhand release, as anna; or floorhand release --for 'anna'",
    )
    assert found["service.mqtt"]["detail"] == "refused; for more than two hours"
    assert "timedatectl" in found["service.clock_behind"]["cure"]
    assert "--undo" in found["service.drain"]["cure"]
    core_facts, site.core.degraded = site.core.facts, {}
    site.core.facts = {"hold": core_facts["hold"]}
    assert (await run("status"))[0] == exit_codes.PROBLEM  # whole, and carrying nothing out


@pytest.mark.req("R8", "R10")
def test_the_managers_line_says_first_what_must_not_be_missed() -> None:
    quiet = status_line(7, on_hold=False, is_draining=False, degraded=[], needs_attention=[])
    assert quiet == "epoch 7"
    loud = status_line(7, on_hold=True, is_draining=True, degraded=["mqtt", "clock"], needs_attention=["mqtt"])
    assert loud == "ON HOLD; draining; needs attention: mqtt; degraded: clock; epoch 7"


@pytest.mark.req("R10", "O2")
async def test_drain_says_when_nothing_runs_any_more(site: Site, run: Run) -> None:
    site.floor.running = 2
    code, out, _ = await run("drain", "--wait", "0.1")
    assert (code, out.startswith("still running: 2")) == (exit_codes.TRY_LATER, True)
    assert site.floor.is_draining
    waiting = asyncio.create_task(run("drain", "--wait", "30", "--json"))
    await site.floor.end_all()
    code, out, _ = await waiting
    assert (code, json.loads(out)) == (0, {"draining": True, "drained": True, "turns_running": 0})
    code, out, _ = await run("drain", "--undo")
    assert (code, out, site.floor.is_draining) == (0, "work is taken again\n", False)
    assert await run("drain", "--undo") == (0, "nothing was drained: work is taken as ever\n", "")
    noted = await site.bench.rows("SELECT kind FROM operation WHERE kind GLOB 'audit.drain_*' ORDER BY seq")
    assert [row["kind"] for row in noted] == ["audit.drain_began", "audit.drain_ended"]


@pytest.mark.req("R7", "S1", "O2")
async def test_stop_takes_the_only_turn_that_runs_or_the_one_that_is_named(site: Site, run: Run) -> None:
    code, _, err = await run("stop")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, "no turn runs")
    steps = (Step("read", "read_tags", {"keys": ["motor_3.temperature"]}), Step("tell", "say", {"text": "so it is"}))
    first = await given_turn(site.bench, "k1", steps)
    second = await given_turn(site.bench, "k2", steps, lane="speaker:other")
    code, out, err = await run("stop", "--json")
    assert (code, sorted(json.loads(out)["error"]["facts"]["turns"])) == (exit_codes.PROBLEM, sorted([first.id, second.id]))
    code, out, _ = await run("stop", first.id, "--reason", "wrong machine")
    assert (code, first.id in out) == (0, True)
    asked = await site.bench.one("SELECT turn_id, cause, by, reason FROM interrupt")
    assert asked == {"turn_id": first.id, "cause": "user", "by": ME, "reason": "wrong machine"}
    code, _, err = await run("stop", "tr_nothing")
    assert (code, "tr_nothing" in err) == (exit_codes.PROBLEM, True)
    code, out, _ = await run("turns", "show", second.id)
    rows = [line.split() for line in out.split("actions:")[1].splitlines() if "read" in line or "tell" in line]
    assert [row[:2] for row in rows] == [["1", "read"], ["2", "tell"]]  # "the third step" is the one with the number 3
    stopped = await site.bench.database.transaction(lambda tx: turns.by_id(tx, first.id))
    assert stopped.state is TurnState.EXECUTING  # it ends itself, within its second


@pytest.mark.req("R2", "T7", "O2")
async def test_unknowns_are_one_list_that_says_what_to_do(site: Site, run: Run) -> None:
    turn = await given_turn(site.bench, "k1", (Step("write", "write_tag", {"key": "a.b", "value": 1}),))
    action = (await site.bench.one("SELECT id FROM action"))["id"]

    def leave_unknown(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO effect (action_id, turn_id, tool, arguments, status, was_unknown, epoch, intended_utc)"
            " VALUES (?, ?, 'write_tag', '{}', 'unknown', 1, 1, '2026-03-02T08:00:00.000000+00:00')",
            (action, turn.id),
        )
        tx.execute("UPDATE admission SET status = 'unknown'")

    await site.bench.database.transaction(leave_unknown)
    code, out, _ = await run("unknowns", "list", "--json")
    effect, admission = json.loads(out)
    assert (code, effect["kind"], admission["kind"]) == (0, "effect", "admission")
    assert f"floorhand unknowns verify {action}" in effect["to_do"] and "--as done|not-done" in effect["to_do"]
    assert f"floorhand unknowns settle {admission['id']} --as interrupted" in admission["to_do"]
    code, out, _ = await run("unknowns", "verify", action)
    assert (code, "is unknown still" in out) == (exit_codes.PROBLEM, True)
    await site.bench.database.transaction(lambda tx: tx.execute("UPDATE effect SET status = 'applied'") and None)
    assert await run("unknowns", "verify", action) == (0, f"{action}: it was done\n", "")
    code, _, err = await run("unknowns", "verify", "ac_none")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, "there is no unknown effect ac_none")
