"""The commands against a real local API, and without one."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import exit_codes, service
from appliance.console.api import LocalApi
from appliance.contracts.errors import StorageFullError, Unavailable
from appliance.store.database import Database
from appliance.version import VERSION
from tests.support.clock import ManualClock
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore, tell_story

pytestmark = pytest.mark.req("O2")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.fixture
async def core(tmp_path: Path, run: Run) -> AsyncIterator[StandInCore]:
    """A running service with one told story."""
    ledger = await Database.open(tmp_path / "ledger.sqlite", ManualClock())
    core = StandInCore()
    api = LocalApi(core, ledger, dict, path=tmp_path / "run/api.sock", language="en", languages=("en", "zh"))
    running = asyncio.create_task(api.run())
    try:
        await ledger.transaction(tell_story)
        async with asyncio.timeout(10):
            await api.serving.wait()
        yield core
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await ledger.close()


def test_version_costs_little_and_loads_nothing() -> None:
    script = "import sys; from appliance.__main__ import main; main(); print([m for m in ('typer', 'httpx') if m in sys.modules])"
    before = os.times()
    asked = subprocess.run([sys.executable, "-c", script, "--version"], capture_output=True, text=True, timeout=20, check=True)
    after = os.times()
    assert asked.stdout == f"floorhand {VERSION}\n[]\n"
    spent_s = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent_s < 0.3


LISTS: list[tuple[tuple[str, ...], str]] = [
    (("alarms", "list"), "unacknowledged"),
    (("sessions", "list"), "asset:motor_3"),
    (("turns", "list"), "confirming"),
    (("deliveries", "list"), "Shall I?"),
    (("unknowns", "list"), "write_tag"),
    (("tags", "list"), "94.2"),
    (("tags", "read", "a.b", "c.d"), "c.d"),
]


@pytest.mark.parametrize(("command", "shown"), LISTS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
async def test_lists_for_people_and_for_programs(core: StandInCore, run: Run, command: tuple[str, ...], shown: str) -> None:
    code, out, err = await run(*command)
    assert (code, err) == (0, "")
    assert shown in out
    code, out, _ = await run(*command, "--json")
    assert code == 0
    assert isinstance(json.loads(out), list)


@pytest.mark.req("A2")
async def test_status_says_of_each_language_model_how_it_stands(core: StandInCore, run: Run) -> None:
    well = {"ready": True, "reason": "", "why": "", "ready_in_s": 0.0, "context_tokens": 4096}
    away = well | {"ready": False, "reason": "bad_key", "why": "it does not take the key"}
    core.facts["language_models"] = [
        {"name": "near", "model": "", **well}, {"name": "far", "model": "big", **away, "ready_in_s": 42.0},
        {"name": "tried", "model": "old", **away},
    ]  # fmt: skip
    _, out, _ = await run("status")
    for told in ("ready, 4096 tokens", "big, not asked for another 42 s: it does not take the key", "old, being tried again: it"):
        assert told in out
    _, out, _ = await run("status", "--json")
    assert json.loads(out)["language_models"] == core.facts["language_models"]


async def test_status_turn_and_sync(core: StandInCore, run: Run) -> None:
    code, out, _ = await run("status")
    assert (code, "ready: yes" in out) == (0, True)
    core.degraded = {"voice": "no microphone"}
    code, out, _ = await run("status", "--json")
    assert (code, json.loads(out)["degraded"]) == (exit_codes.PROBLEM, {"voice": "no microphone"})
    code, out, _ = await run("turns", "show", "tr_1")
    assert code == 0
    assert "write_tag" in out
    code, out, _ = await run("turns", "show", "tr_1", "--json")
    assert [action["step_id"] for action in json.loads(out)["actions"]] == ["read", "write", "confirm"]
    code, out, _ = await run("sync", "status")
    assert (code, "P0" in out) == (0, True)
    code, out, _ = await run("sync", "status", "--json")
    assert json.loads(out)["lanes"][0]["pending"] == 2
    core.degraded["sync"] = "P1 is stopped: the coordinator holds another history"
    code, out, _ = await run("sync", "status")
    assert (code, out.splitlines()[-1]) == (0, core.degraded["sync"])


async def test_ask_and_speak(core: StandInCore, run: Run) -> None:
    code, out, _ = await run("ask", "how hot is motor three", "--wait", "5")
    assert (code, out.splitlines()[0]) == (0, "94 degrees [Celsius]")
    assert core.asked == [("how hot is motor three", "en", 5.0)]
    core.outcome = "failed"
    code, out, _ = await run("ask", "x", "--json")
    assert (code, json.loads(out)["turn"]) == (exit_codes.PROBLEM, "tr_1")
    assert (await run("speak", "你好", "--language", "zh"))[0] == 0
    assert core.spoken == [("你好", "zh")]
    core.fails_with = Unavailable("the queue is full", retry_after_s=3)
    code, out, err = await run("speak", "x", "--json")
    assert code == exit_codes.TRY_LATER
    assert json.loads(out)["error"]["code"] == "unavailable"
    assert err == "the queue is full\nTry again in 3 s.\n"


@pytest.mark.req("R1", "S1")
async def test_ask_says_how_it_joins_and_by_which_name(core: StandInCore, run: Run) -> None:
    for how in ((), ("--steer", "--key", "r1"), ("--redirect",)):
        assert (await run("ask", "and pump three", *how))[0] == 0
    assert [arrival for _, arrival in core.joined] == ["queue", "steer", "redirect"]
    keys = [key for key, _ in core.joined]
    assert keys[1] == "r1" and len(set(keys)) == 3 and all(keys), "each has a key, so that it can be asked again"
    code, _, err = await run("ask", "x", "--steer", "--redirect")
    assert code == exit_codes.USAGE and "one of them" in err
    assert len(core.asked) == 3


async def test_a_sentence_that_ended_badly_says_how(core: StandInCore, run: Run) -> None:
    core.outcome, core.turn, core.failure = "failed", None, ""
    code, out, _ = await run("ask", "hello")
    assert (code, out.splitlines()[-1]) == (exit_codes.PROBLEM, "(no turn: ended, failed: the service's log says why)")
    core.turn, core.failure = "tr_1", "the PLC is away"
    code, out, _ = await run("ask", "hello")
    assert (code, out.splitlines()[-1]) == (exit_codes.PROBLEM, "(tr_1: idle, failed: the PLC is away)")
    core.status_of_asked, core.outcome, core.turn = "queued", None, None
    code, out, _ = await run("ask", "hello")
    goes_on = "it is taken and goes on: `floorhand turns list` shows how"
    assert (code, out.splitlines()[-1]) == (exit_codes.TRY_LATER, f"(no turn yet: it waits; {goes_on})")
    core.status_of_asked, core.outcome, core.turn, core.state, core.failure = "terminal", "done", "tr_1", "executing", ""
    code, out, _ = await run("ask", "hello")  # it joined a turn that works still
    assert (code, out.splitlines()[-1]) == (exit_codes.TRY_LATER, f"(tr_1: executing; {goes_on})")
    core.outcome, core.state = "interrupted", "abandoned"
    code, out, _ = await run("ask", "hello")
    assert (code, out.splitlines()[-1]) == (exit_codes.PROBLEM, "(tr_1: abandoned, interrupted)")
    core.outcome, core.state, core.failure = "done", "failed", "the PLC is away"
    assert (await run("ask", "hello"))[0] == exit_codes.PROBLEM


@pytest.mark.req("R1", "S1")
@pytest.mark.field("FC-R04")
@pytest.mark.parametrize("how", ["broken", "late"])
async def test_when_the_answer_is_lost_it_is_said_that_it_may_have_been_taken(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    taken: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.read(65_536)
        if request:  # else it was only asked whether anybody listens
            taken.append(request)
            await (asyncio.sleep(0) if how == "broken" else reader.read())
        writer.close()

    monkeypatch.setattr(service, "_QUICK_S", 0.5)
    (tmp_path / "run").mkdir()
    async with await asyncio.start_unix_server(serve, tmp_path / "run/api.sock"):
        code, out, err = await run("ask", "what is the load", "--wait", "0", "--steer", "--json")
        assert code == exit_codes.MAY_BE_TAKEN and "it may have been taken" in err and "floorhand turns list" in err
        again = re.search(r"floorhand ask --steer --key (\w{16}) 'what is the load'", err)
        assert again is not None and json.loads(out)["error"]["code"] == "may_be_taken"
        code, _, err = await run("hold", "--reason", "belt off")
        assert code == exit_codes.MAY_BE_TAKEN and "look before you ask for it again" in err
        code, _, err = await run("turns", "list")  # asks for nothing that could be taken
        assert code == (exit_codes.NOT_REACHABLE if how == "broken" else exit_codes.TRY_LATER)
        assert len(taken) == 3
    assert (await run("ask", "x"))[0] == exit_codes.NOT_REACHABLE


async def test_a_refusal_comes_with_its_cure(core: StandInCore, run: Run) -> None:
    for command in ("ask", "speak"):
        code, _, err = await run(command, "hello", "--language", "fr")
        assert (code, err) == (exit_codes.PROBLEM, "there is no language 'fr' here\nLanguages here: en, zh.\n")
    code, out, err = await run("ask", "", "--json")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, "the sentence is empty")
    assert "in quotes" in json.loads(out)["error"]["cure"]
    core.fails_with = StorageFullError("no room left", retry_after_s=30.0)
    code, _, err = await run("ask", "hello")
    assert (code, "Free space" in err, "30 s" in err) == (exit_codes.TRY_LATER, True, False)


@pytest.mark.parametrize("identity", ["../x y", "..", ".", "a/b?c#d", "%2e%2e", "../../v1/status"])
async def test_an_id_never_reaches_another_address(core: StandInCore, run: Run, identity: str) -> None:
    code, _, err = await run("unknowns", "settle", identity, "--as", "done")
    assert (code, err) == (exit_codes.PROBLEM, f"nothing unknown is called {identity}\n")
    code, _, err = await run("turns", "show", identity)
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, f"there is no turn {identity}")


async def test_unknowns_are_settled_by_name(core: StandInCore, run: Run) -> None:
    code, out, _ = await run("unknowns", "settle", "ac_2", "--as", "not-done", "--note", "fan stands")
    assert (code, out) == (0, "ac_2 settled as not-done\n")
    assert core.settled == [("ac_2", "not-done", "fan stands", getpass.getuser())]
    code, _, err = await run("unknowns", "settle", "ac_9", "--as", "done")
    assert (code, err) == (exit_codes.PROBLEM, "nothing unknown is called ac_9\n")
    assert (await run("unknowns", "settle", "ac_2", "--as", "perhaps"))[0] == exit_codes.USAGE


async def test_a_tag_that_cannot_be_read_is_a_problem(core: StandInCore, run: Run) -> None:
    core.quality = "stale"
    assert (await run("tags", "read", "a.b"))[0] == exit_codes.PROBLEM


@pytest.mark.field("FC-F02", "FC-F03")
async def test_a_tag_is_probed_in_all_orders(core: StandInCore, run: Run) -> None:
    code, out, err = await run("tags", "probe", "a.b")
    assert (code, err) == (0, "")
    for shown in ("input_register 2-3 of device 1", "0x6666 0x42BC", "CDAB", "42BC 6666", "94.2"):
        assert shown in out
    code, out, _ = await run("tags", "probe", "a.b", "--json")
    assert (code, json.loads(out)["readings"][0]["order"]) == (0, "CDAB")


async def test_without_a_service_the_cure_is_named(run: Run) -> None:
    for command in (("status",), ("ask", "x"), ("alarms", "list"), ("tags", "list")):
        code, out, err = await run(*command)
        assert (code, out) == (exit_codes.NOT_REACHABLE, "")
        assert "no service answers at" in err
        assert "systemctl start floorhand" in err
    code, out, _ = await run("status", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (exit_codes.NOT_REACHABLE, "not_reachable")


async def test_wrong_usage_is_2(run: Run) -> None:
    for arguments in (("frob",), ("ask",), ("status", "--frob"), ("turns",), ()):
        assert (await run(*arguments))[0] == exit_codes.USAGE


ALARMS = ["list", "show", "ack", "reset", "shelve", "unshelve", "out-of-service", "in-service", "held", "journal", "account"]


def _every_command() -> list[tuple[str, ...]]:
    help_text = {"alarms": ALARMS, "sessions": ["list"], "turns": ["list", "show"], "tags": ["list", "read", "probe"]}
    help_text |= {"unknowns": ["list", "settle"], "sync": ["status"], "models": ["list", "fetch"], "config": ["check", "show"]}
    return [
        ("run",),
        ("coordinator",),
        ("deliveries", "list"),
        ("status",),
        ("doctor",),
        ("ask",),
        ("speak",),
        *((g, c) for g, commands in help_text.items() for c in commands),
    ]


@pytest.mark.parametrize("command", _every_command(), ids=" ".join)
async def test_every_command_has_json(run: Run, command: tuple[str, ...]) -> None:
    code, out, _ = await run(*command, "--help")
    assert code == 0
    assert "--json" in out


@pytest.mark.req("O5")
async def test_config_check_and_show(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = await run("config", "check")
    assert (code, "is sound" in out) == (0, True)
    monkeypatch.setenv("FLOORHAND_MQTT_USER", "u")
    monkeypatch.setenv("FLOORHAND_MQTT_PASSWORD", "s3cr3t-Pa55")
    code, out, _ = await run("config", "show", "--json")
    shown: dict[str, Any] = json.loads(out)
    assert (code, shown["mqtt"]["username"]) == (0, "u")
    assert "s3cr3t-Pa55" not in out
    code, out, err = await run("config", "check", "--config", str(tmp_path / "none"), "--json")
    assert code == exit_codes.CONFIGURATION
    found = json.loads(out)["error"]["facts"]["faults"]
    assert [fault["file"] for fault in found] == ["appliance.yaml", "policies.yaml", "plant.yaml"]
    assert all(fault["cure"] in err for fault in found)


@pytest.mark.req("O1")
@pytest.mark.field("FC-O01")
async def test_doctor_exits_1_with_a_finding(run: Run) -> None:
    code, out, _ = await run("doctor", "--json")
    told = json.loads(out)
    assert code == exit_codes.PROBLEM
    assert not told["ok"]
    assert {"config", "broker", "plc.line_3", "service"} <= {finding["check"] for finding in told["findings"]}
    code, out, _ = await run("doctor")
    assert "PROBLEM  service:" in out


@pytest.mark.req("O5")
def test_run_with_a_broken_configuration_exits_78(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    command = [sys.executable, "-m", "appliance", "run", "--config", str(tmp_path / "config")]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"FLOORHAND_DATA": ""}
    )
    assert ended.returncode == exit_codes.CONFIGURATION
    assert "appliance.yaml" in ended.stderr
    assert "Traceback" not in ended.stderr
