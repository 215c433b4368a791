"""How long a tool takes, and which bound is proposed for it: at the command line, over a real local API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from appliance.cli import exit_codes, tool_commands
from appliance.cli.service import CommandFault
from appliance.console.acts import Acts
from appliance.console.api import LocalApi
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.tool import AccessLevel, SlaContract, ToolCall, ToolContract
from appliance.execution.toolbox.stress import Stress, summary
from appliance.execution.toolbox.third_party import ThirdParty
from appliance.execution.toolbox.tool_desk import ToolDesk
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.list_alarms import ListAlarms
from appliance.execution.tools.read_tags import ReadTags
from appliance.execution.tools.record_episode import RecordEpisode
from appliance.execution.tools.write_tag import WriteTag
from appliance.foundation.supervisor import Degraded
from appliance.store.history import HISTORY_FILE, History
from appliance.store.history_settings import HistorySettings
from tests.support.bus import TableBus
from tests.support.clock import ManualClock
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore
from tests.support.ledger import Bench, open_bench
from tests.support.planning import shipped_plant
from tests.support.plans import phrasing
from tests.support.waiting import until
from tests.unit.test_tool_contracts import CONTRACT, Arguments

KEY = "motor_3.temperature"


class Slow:
    """Takes as long as its arguments say, on a clock that is moved; a negative speed is away."""

    contract: ClassVar[ToolContract] = replace(CONTRACT, name="slow", sla=SlaContract(100))

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, Any]:
        self.calls += 1
        await self.gate.wait()
        if arguments.speed < 0:
            raise Unavailable("the PLC is away")
        self.clock.advance(arguments.speed * self.calls / 1000)
        return {"reached": arguments.speed}


class Site:
    """Tools, a history and the command line's way to both."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        clock, plant, nothing = bench.clock, shipped_plant(), None
        bus: Any = TableBus(plant, clock)
        writer: Any = nothing
        self.slow = Slow(clock)
        tools: list[Any] = [
            self.slow, ReadTags(bus, plant, clock), WriteTag(bus, plant, clock), RecordEpisode(writer),
            ListAlarms(plant, phrasing(plant), clock),
        ]  # fmt: skip
        self.toolbox = Toolbox(tools)
        taken = "a tool that ships has this name"
        left_out = {"scan": "ValueError: no camera", "read_tags": taken}
        found = ThirdParty(left_out=left_out, packages=dict.fromkeys(left_out, "acme 1.0"), disabled=("old",))
        self.history = History(folder / HISTORY_FILE, plant, clock, Degraded(), HistorySettings())
        self.api = LocalApi(
            StandInCore(), bench.database, dict, path=folder / "run" / "api.sock", language="en",
            acts=Acts(tools=ToolDesk(self.toolbox, found, Stress(self.toolbox, clock, "en")), history=self.history),
        )  # fmt: skip
        self.bench = bench


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_bench(tmp_path) as bench:
        site = Site(bench, tmp_path)
        running = asyncio.create_task(site.api.run())
        try:
            async with asyncio.timeout(10):
                await site.api.serving.wait()
            yield site
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await site.history.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.mark.req("T2")
@pytest.mark.parametrize(
    ("took_ms", "proposed"),
    [
        ([float(n) for n in range(1, 101)], 130),  # P95 is 95 ms: 123.5, rounded up to 10 ms
        ([100.0] * 20, 130),  # 130 exactly
        ([0.2] * 50, 10),
        ([40_000.0] * 20, 45_000),
    ],
)
def test_the_proposal_is_the_95th_percentile_times_1_3_rounded_up_to_10_ms(took_ms: list[float], proposed: int) -> None:
    found = summary("slow", took_ms, len(took_ms), 100)
    assert (found["proposed_ms"], found["is_too_low"]) == (proposed, proposed > 100)
    assert ("no tool may take longer than 45000" in found["note"]) == (proposed == 45_000)


@pytest.mark.req("T2")
async def test_a_tool_is_measured_and_its_bound_proposed(site: Site, run: Run) -> None:
    code, out, _ = await run("tools", "stress", "slow", "--arguments", '{"speed": 1}', "--runs", "100", "--json")
    found = json.loads(out)
    assert (found["runs"], found["failed"], found["p50_ms"], found["p95_ms"], found["max_ms"]) == (100, 0, 50.0, 95.0, 100.0)
    assert (found["proposed_ms"], found["declared_ms"], found["is_too_low"]) == (130, 100, True)
    assert found["note"] == "the declared max_execution_time_ms of 100 is lower than the proposal"
    assert code == exit_codes.PROBLEM, "a bound that is too low is a problem"
    site.slow.calls = 0
    code, out, _ = await run("tools", "stress", "slow", "--arguments", '{"speed": 1}', "--runs", "25")
    assert code == exit_codes.OK and "proposed_ms: 40" in out
    code, out, _ = await run("tools", "stress", "read_tags", "--arguments", json.dumps({"keys": [KEY]}), "--runs", "5", "--json")
    assert code == exit_codes.OK and "with fewer than 20 calls" in json.loads(out)["note"]


@pytest.mark.req("T2")
async def test_calls_that_fail_do_not_count_and_without_others_nothing_is_proposed(site: Site, run: Run) -> None:
    code, out, _ = await run("tools", "stress", "slow", "--arguments", '{"speed": -1}', "--runs", "3", "--json")
    found = json.loads(out)
    assert (code, found["failed"], found["proposed_ms"]) == (exit_codes.PROBLEM, 3, None)
    assert found["note"] == "every call failed, so nothing is proposed"


@pytest.mark.req("T2")
@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("write_tag", '{"key": "a.b", "value": 1, "what": "x"}', "write_tag has an effect with every call"),
        ("list_alarms", "{}", "list_alarms is done within one commit of the ledger"),
        ("record_episode", "{}", "record_episode keeps something of every call"),
        ("fly", "{}", "there is no tool fly"),
        ("slow", "{}", "slow: speed: Field required"),
        ("slow", "[1]", "--arguments must be a JSON object"),
        ("slow", "{", "--arguments is no JSON"),
    ],
)
async def test_what_is_not_measured_says_why(site: Site, run: Run, name: str, arguments: str, why: str) -> None:
    code, _, err = await run("tools", "stress", name, "--arguments", arguments)
    is_typed_wrong = name == "slow"
    assert code == (exit_codes.USAGE if is_typed_wrong else exit_codes.PROBLEM) and why in err.splitlines()[0]
    assert site.slow.calls == 0


@pytest.mark.req("T2")
async def test_one_measurement_at_a_time_and_whoever_goes_away_stops_it(site: Site, run: Run) -> None:
    stress = Stress(site.toolbox, site.bench.clock, "en")
    first = stress.measure("slow", {"speed": 1}, 50)
    assert (await anext(first))["run"] == 1
    with pytest.raises(Refused, match="slow is being measured"):
        await anext(stress.measure("slow", {"speed": 1}, 50))
    await first.aclose()
    assert (await anext(stress.measure("slow", {"speed": 1}, 50)))["run"] == 1
    site.slow.calls = 0
    site.slow.gate.clear()
    measuring = asyncio.create_task(run("tools", "stress", "slow", "--arguments", '{"speed": 1}', "--runs", "1000"))
    await until(lambda: site.slow.calls == 1, "the first call is under way")
    code, _, err = await run("tools", "stress", "slow", "--arguments", '{"speed": 1}')
    assert code == exit_codes.PROBLEM and "slow is being measured" in err
    site.slow.gate.set()
    await measuring


def test_ctrl_c_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped:
        def stream(self, path: str, body: Any, *, within_s: float) -> Any:
            yield {"run": 7, "took_ms": 1.0, "why": ""}
            raise KeyboardInterrupt

    monkeypatch.setattr(tool_commands, "service_of", lambda context, config: Stopped())
    context: Any = None
    with pytest.raises(CommandFault, match="stopped after 7 of 50 calls; nothing is proposed"):
        tool_commands.stress_tool(context, "slow", Path(), as_json=True)


@pytest.mark.req("T1", "O2")
async def test_contracts_are_readable_at_a_glance(site: Site, run: Run) -> None:
    code, out, _ = await run("tools", "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert (code, list(rows)[-2:]) == (0, ["scan", "old"])
    assert len(json.loads(out)) == len(rows), "one row a name"
    assert (rows["read_tags"]["source"], rows["read_tags"]["why"]) == ("floorhand", ""), "whoever took its name in vain"
    wanted = {"level": "operator", "bound_ms": 8000, "scope": "field", "effect": True, "kind": "core", "source": "floorhand"}
    assert rows["write_tag"].items() >= wanted.items()
    assert rows["write_tag"]["arguments"].startswith("key text, value number or integer or yes or no or text, what text")
    assert rows["slow"]["arguments"] == "speed number [gear low|high] [note text or nothing] [way up|down or nothing]"
    assert rows["list_alarms"]["kind"] == "ledger"
    assert (rows["scan"]["why"], rows["scan"]["source"]) == ("left out: ValueError: no camera", "acme 1.0")
    assert rows["old"]["why"] == "disabled in appliance.yaml"
    code, out, _ = await run("tools", "list")
    assert code == 0 and "8000" in out and "left out: ValueError: no camera" in out
    code, out, _ = await run("tools", "show", "write_tag", "--json")
    shown = json.loads(out)
    assert shown["input_schema"]["required"] == ["key", "value", "what"] and shown["output_schema"]["type"] == "object"
    assert (shown["refused_on_hold"], shown["can_verify"], shown["overwrites"]) == (True, True, "key")
    code, out, _ = await run("tools", "show", "write_tag")
    assert code == 0 and "telemetry.on_start: write_tag.started" in out
    code, _, err = await run("tools", "show", "fly")
    assert code == exit_codes.PROBLEM and "there is no tool fly" in err and "floorhand tools list" in err
    assert AccessLevel.OPERATOR.word == "operator"


@pytest.mark.req("F3", "O2")
async def test_the_history_of_a_tag_is_plotted(site: Site, run: Run) -> None:
    clock = site.bench.clock
    began = clock.now
    for minute in range(60):
        site.history.note([Reading(KEY, 40.0 + minute, "degC", Quality.GOOD, clock.utc(), (), "", clock.monotonic_ns())])
        clock.advance(60)
    await site.history.write()
    code, out, _ = await run("tags", "history", KEY)
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("        99") and lines[5].startswith("        40")
    assert lines[-1] == "motor_3.temperature: lowest 40, highest 99, newest 99 degC"
    assert lines[0].rstrip().endswith("█") and "60 minutes ago" in lines[-2]
    code, out, _ = await run("tags", "history", KEY, "--minutes", "10", "--json")
    track = json.loads(out)
    assert (code, track["unit"], track["length_s"], track["points"][0]) == (0, "degC", 600.0, {"at_s": 0.0, "value": 90.0})
    assert track["from_utc"].startswith((began + timedelta(minutes=50)).isoformat()[:16])
    other = "pump_3.pressure"
    code, out, _ = await run("tags", "history", other)
    assert (code, out) == (exit_codes.PROBLEM, f"no value of {other} is known from the last 60 minutes\n")
    code, _, err = await run("tags", "history", "conveyor_3.speed")
    assert code == exit_codes.PROBLEM and err.splitlines() == [
        "no values of conveyor_3.speed are kept, because it is read only when somebody asks",
        "Give the tag a poll group in plant.yaml.",
    ]
    code, _, err = await run("tags", "history", "motor_9.speed")
    assert code == exit_codes.PROBLEM and err.splitlines()[0] == "motor_9.speed is not a tag of this plant"
