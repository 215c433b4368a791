"""Tools in processes of their own: whatever they do, they end within their bound, leave nothing behind and hurt nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused, Unavailable, Uncertain
from appliance.contracts.interrupt import Cause
from appliance.contracts.plan import Step
from appliance.contracts.tool import EffectDisposition, SlaContract, Tool, ToolCall
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.turn_signal import TurnSignal
from appliance.execution.workers.process_tool import ProcessTool, VerifiableProcessTool, in_own_process
from appliance.execution.workers.warden import Warden
from appliance.execution.workers.warden_words import line_of
from appliance.store import interrupts
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn, phrasing
from tests.support.rough_tools import Rough, RoughEffect
from tests.support.runner_ports import runner_ports
from tests.support.waiting import until, within

_BOUND_MS = 3_000  # enough for a call to do what it is about to be killed in, on a busy machine


class Yard:
    """A warden with both rough tools, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self.warden = Warden(self.scratch)

    def tool(self, kind: type[Tool] = Rough, bound_ms: int | None = None) -> ProcessTool:
        built = in_own_process(kind, {"folder": str(self.folder)}, self.warden)
        if bound_ms is not None:
            built.contract = replace(built.contract, sla=SlaContract(bound_ms))  # type: ignore[misc]
        return built

    async def call(self, do: str, text: str = "", kind: type[Tool] = Rough, bound_ms: int | None = None) -> Any:
        tool = self.tool(kind, bound_ms)
        call = ToolCall(tool.contract.name, {"do": do, "text": text}, "tr_1", "se_1", "ac_1", "lane", "en", {})
        return (await tool.run(call, None))["seen"]

    def noted(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def living(self) -> list[int]:
        """Processes of calls that are not dead."""
        return [pid for pid in map(int, self.noted("pids")) if lives(pid)]

    async def clean(self) -> None:
        """Fail unless everything that was started is gone, and its scratch folder too."""
        await until(lambda: not self.living(), "no process of the call is left")
        assert list(self.scratch.iterdir()) == []


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


def private_kb(pid: int) -> int:
    """Memory a process shares with nobody."""
    rolled_up = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    return sum(int(line.split()[1]) for line in rolled_up.splitlines() if line.startswith("Private"))


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    made = Yard(tmp_path)
    try:
        yield made
    finally:
        await made.warden.close()


async def test_a_call_runs_elsewhere_with_nothing_of_the_core_but_what_it_needs(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOORHAND_SYNC_TOKEN", "a secret")
    with socket.create_server(("127.0.0.1", 0)) as kept:
        os.set_inheritable(kept.fileno(), True)
        assert yard.warden.pid is None, "nothing runs before it is needed"
        seen = await yard.call("environment")
    assert seen["env"].keys() <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "HOME", "TMPDIR"}
    assert Path(seen["cwd"]).parent == yard.scratch
    assert seen["env"]["HOME"] == seen["env"]["TMPDIR"] == seen["cwd"]
    assert seen["fds"] <= 8, "0 to 2, the way to answer, and the event loop's own"
    assert yard.noted("pids") != [str(os.getpid())]
    await yard.clean()


async def test_calls_side_by_side_each_get_their_own_answer(yard: Yard) -> None:
    answers = await asyncio.gather(*(yard.call("answer", f"number {n}") for n in range(8)))
    assert answers == [f"number {n}" for n in range(8)]
    assert len(set(yard.noted("cwd"))) == len(set(yard.noted("pids"))) == 8
    await yard.clean()


@pytest.mark.req("S6")
@pytest.mark.parametrize("do", ["nap", "spin", "spin_in_c", "fork_children"])
async def test_past_its_bound_it_is_killed_with_its_children_and_rolled_back(yard: Yard, do: str) -> None:
    await yard.call("answer")
    bound_ms = _BOUND_MS if do == "fork_children" else 1_000
    with within(bound_ms / 1e3 + 1.5), pytest.raises(TimeoutError):
        await yard.call(do, bound_ms=bound_ms)
    assert len(yard.noted("pids")) == (5 if do == "fork_children" else 2)
    await yard.clean()


@pytest.mark.req("S6")
async def test_what_a_finished_call_leaves_running_is_killed_too(yard: Yard) -> None:
    assert await yard.call("fork_children", "done") == "done"
    assert len(yard.noted("pids")) == 4
    await yard.clean()


@pytest.mark.req("S6")
async def test_a_core_whose_event_loop_hangs_still_has_its_tools_killed(yard: Yard) -> None:
    await yard.call("answer")
    calling = asyncio.create_task(yard.call("spin", bound_ms=700))
    await until(lambda: len(yard.living()) == 1, "the call runs")
    deadline_s = time.monotonic() + 30.0
    while yard.living() and time.monotonic() < deadline_s:
        pass  # the event loop of this process gets no turn until the call is dead
    assert not yard.living()
    with pytest.raises(TimeoutError):
        await calling
    await yard.clean()


_CORE = """
import asyncio, sys
from pathlib import Path
from tests.unit.test_tool_processes import Yard
async def main():
    yard = Yard(Path(sys.argv[1]))
    await yard.call("fork_children", bound_ms=40_000)
asyncio.run(main())
"""


@pytest.mark.req("S6")
async def test_with_the_core_its_warden_and_every_worker_end(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    with subprocess.Popen([sys.executable, "-c", _CORE, str(tmp_path)]) as core:  # noqa: ASYNC220
        await until(lambda: len(yard.living()) == 4, "the call and its children run")
        warden = parent_of(yard.living()[0])
        assert warden != core.pid
        core.kill()
    await until(lambda: not lives(warden), "the warden is gone")
    await yard.clean()


@pytest.mark.req("S6", "T7")
async def test_with_its_warden_a_call_is_lost_and_the_next_one_gets_a_new_warden(yard: Yard) -> None:
    await yard.call("answer")
    first = yard.warden.pid
    assert first is not None
    calls = [asyncio.create_task(yard.call("nap", kind=kind, bound_ms=30_000)) for kind in (Rough, RoughEffect)]
    await until(lambda: len(yard.living()) == 2, "both calls run")
    os.kill(first, signal.SIGKILL)
    without, effect = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(without, Unavailable), "nothing was changed"
    assert isinstance(effect, Uncertain), "its effect may have happened"
    await until(lambda: not yard.living() and yard.warden._to_warden is None, "the workers died with it, and it is missed")
    assert await yard.call("answer", "again") == "again"
    assert yard.warden.pid not in (None, first)
    await yard.clean()


async def test_a_warden_that_hangs_is_replaced(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.execution.workers.warden.GRACE_S", 0.2)
    await yard.call("answer")
    hung = yard.warden.pid
    assert hung is not None
    calling = asyncio.create_task(yard.call("nap"))
    await until(lambda: len(yard.living()) == 1, "the call runs")
    os.kill(hung, signal.SIGSTOP)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(lambda: not yard.living() and yard.warden._to_warden is None, "the worker died with its warden, which is missed")
    assert await yard.call("answer", "again") == "again"
    await yard.clean()


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("segfault", "died: signal 11"),
        ("leave", "died: exit code 7"),
        ("junk", "said nothing that makes sense"),
        ("flood_result", "said more than can be kept"),
        ("nonsense", "broke: PydanticSerializationError"),
        ("fault", "broke: KeyError: 'a mistake'"),
    ],
)
async def test_a_tool_that_breaks_is_told_apart_by_what_it_may_have_done(yard: Yard, do: str, why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        await yard.call(do, bound_ms=5_000)
    with pytest.raises(Uncertain, match=why):
        await yard.call(do, kind=RoughEffect, bound_ms=5_000)
    assert await yard.call("answer", "well") == "well", "the warden goes on"
    await yard.clean()


async def test_errors_of_the_tool_come_across(yard: Yard) -> None:
    with pytest.raises(Refused, match="the guard is open"):
        await yard.call("refuse", "the guard is open", kind=RoughEffect)
    with pytest.raises(Unavailable, match="away") as away:
        await yard.call("be_away", "away", kind=RoughEffect)
    assert away.value.retry_after_s == 7.0
    with pytest.raises(Uncertain, match="no answer"):
        await yard.call("be_unsure", "no answer")


async def test_printing_does_not_hold_a_call_up(yard: Yard) -> None:
    assert await yard.call("flood_stdout", bound_ms=5_000) == "flooded"


@pytest.mark.req("R7")
async def test_a_stopped_call_may_say_what_it_did_and_is_killed_if_it_does_not(yard: Yard) -> None:
    await yard.call("answer")
    telling = asyncio.create_task(yard.call("say_when_stopped", bound_ms=30_000))
    deaf = asyncio.create_task(yard.call("spin", bound_ms=30_000))
    await until(lambda: len(yard.living()) == 2, "both calls run")
    await asyncio.sleep(0)
    with within(1.0):
        telling.cancel()
        deaf.cancel()
        assert await telling == "just done"
        with pytest.raises(asyncio.CancelledError):
            await deaf
    await yard.clean()


async def test_what_a_killed_warden_left_lying_about_is_removed_by_the_next(yard: Yard) -> None:
    (yard.scratch / "call-left").mkdir(parents=True)
    (yard.scratch / "call-left" / "file").write_text("x")
    await yard.call("answer")
    await yard.clean()


async def test_a_verdict_comes_across_too(yard: Yard) -> None:
    tool = yard.tool(RoughEffect)
    assert isinstance(tool, VerifiableProcessTool)
    assert not hasattr(yard.tool(), "verify"), "the core must not think that it could"
    call = ToolCall("rough_effect", {"do": "answer"}, "tr_1", "se_1", "ac_1", "lane", "en", {})
    assert await tool.verify(call, None) == (EffectDisposition.NONE, {})
    await yard.call("answer", kind=RoughEffect)
    assert await tool.verify(call, None) == (EffectDisposition.APPLIED, {"seen": '"ac_1"'})


async def test_an_idle_warden_is_small_and_a_call_is_quick(yard: Yard) -> None:
    await yard.call("answer")
    assert yard.warden.pid is not None
    assert private_kb(yard.warden.pid) < 40_000
    took_s: list[float] = []
    while len(took_s) < 10 or (min(took_s) >= 0.2 and len(took_s) < 100):  # the quickest of many: the others met a busy machine
        began_s = time.monotonic()
        await yard.call("answer")
        took_s.append(time.monotonic() - began_s)
    assert min(took_s) < 0.2  # some 10 ms on an idle machine


def test_a_message_is_one_line() -> None:
    assert line_of({"text": "a\nb"}).count(b"\n") == 1


# through the runner ---------------------------------------------------------------------------------------------------
class Table:
    """A ledger and a runner with the rough tools."""

    def __init__(self, bench: Bench, yard: Yard) -> None:
        self.bench = bench
        box = Toolbox([yard.tool(bound_ms=_BOUND_MS), yard.tool(RoughEffect, _BOUND_MS)])
        ports = runner_ports(bench.database.path.parent, bench.clock)
        self.runner = Runner(bench.database, box, bench.clock, bench.ids, bench.epoch, phrasing(), **ports, settle_waits=list)

    async def run(self, *steps: Step, signal: TurnSignal | None = None) -> RunOutcome:
        turn = await open_turn(self.bench.database, self.bench.clock, self.bench.ids, steps)
        return await self.runner.run(turn, signal)


@contextlib.asynccontextmanager
async def open_table(folder: Path, yard: Yard) -> AsyncIterator[Table]:
    async with open_bench(folder) as bench:
        yield Table(bench, yard)


@pytest.mark.req("S6", "T7")
async def test_killed_without_effect_it_failed_and_killed_with_one_it_is_unknown_and_not_run_again(
    yard: Yard, tmp_path: Path
) -> None:
    async with open_table(tmp_path, yard) as table:
        await yard.call("answer")
        outcome = await table.run(
            Step("a", "rough", {"do": "spin"}, optional=True),
            Step("b", "rough_effect", {"do": "spin", "text": "hang in verify"}),
        )
        rows = await table.bench.rows("SELECT state, json_extract(result, '$.error_code') AS code FROM action ORDER BY position")
        assert [(row["state"], row["code"]) for row in rows] == [("failed", "timeout"), ("unknown", "timeout")]
        assert outcome.kind == "failed"
        assert (await table.bench.one("SELECT status FROM effect"))["status"] == "unknown"
        assert len(yard.noted("effects")) == 1
    await yard.clean()


@pytest.mark.req("S6", "T7")
async def test_killed_with_an_effect_it_is_looked_for(yard: Yard, tmp_path: Path) -> None:
    async with open_table(tmp_path, yard) as table:
        await yard.call("answer")
        assert (await table.run(Step("a", "rough_effect", {"do": "spin_in_c"}))).kind == "finished"
        effect = await table.bench.one("SELECT * FROM effect")
        assert (effect["status"], effect["was_unknown"], effect["settled_by"]) == ("applied", 1, "verify")
        assert len(yard.noted("effects")) == 1


@pytest.mark.req("R7", "S6")
@pytest.mark.parametrize(("do", "status"), [("spin_in_c", "unknown"), ("say_when_stopped", "applied")])
async def test_a_stop_ends_it_within_a_second_whatever_it_does(yard: Yard, tmp_path: Path, do: str, status: str) -> None:
    async with open_table(tmp_path, yard) as table:
        await yard.call("answer")
        bell = TurnSignal()
        running = asyncio.create_task(
            table.run(Step("a", "rough_effect", {"do": do}), Step("b", "rough", {"do": "answer"}), signal=bell)
        )
        await until(lambda: len(yard.living()) == 1, "the call runs")
        bench = table.bench
        await bench.database.transaction(
            lambda tx: interrupts.ask(tx, bench.clock, bench.ids, "tr_1", cause=Cause.USER, by="anna", reason="stop")
        )
        with within(1.0):
            bell.ring()
            outcome = await running
        assert (outcome.kind, outcome.by) == ("stopped", "anna")
        assert (await bench.one("SELECT status FROM effect"))["status"] == status
    await yard.clean()
