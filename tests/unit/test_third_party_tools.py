"""Tools of other packages, really installed into a folder: the good ones are loaded, and a bad one costs itself alone."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused, ToolValidationError, Unavailable, Uncertain
from appliance.contracts.third_party import ToolPorts
from appliance.contracts.tool import AccessLevel, ToolCall, ToolContract
from appliance.execution.toolbox import third_party
from appliance.execution.toolbox.third_party import ThirdParty, build_toolbox, find_third_party
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.workers.warden import Warden
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from tests.support.bus import TableBus
from tests.support.clock import ManualClock
from tests.support.plans import PLANT, phrasing
from tests.support.tool_packages import install, tool
from tests.unit.test_tool_contracts import drive

CLOCK = SystemClock()
_WITH = "from dataclasses import replace\nCountParts.contract = replace(CountParts.contract, WITH)"
_META = """
class Meta(type):
    @property
    def contract(self):
        raise KeyError("contract")

class CountParts(metaclass=Meta):
    pass
"""
CALL = ToolCall("count", {}, "tr_1", "se_1", "ac_1", "lane", "en", {})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]


def built(found: ThirdParty, folder: Path, degraded: Degraded | None = None, *shipped: Any) -> Toolbox:
    clock = ManualClock()
    ports = ToolPorts(TableBus(PLANT, clock), PLANT, phrasing(), clock)
    return build_toolbox(shipped or [drive()], found, ports, Warden(folder), degraded or Degraded())


@pytest.mark.req("T1")
async def test_a_package_brings_a_tool_that_runs_under_the_same_contracts(site: Path, tmp_path: Path) -> None:
    install(site, "acme-tools", {"count_parts": tool("count_parts")})
    found = find_third_party(CLOCK, taken=["drive"])
    degraded = Degraded()
    toolbox = built(found, tmp_path, degraded)
    assert toolbox.names == ("drive", "count_parts") and degraded.reasons == {}
    assert found.packages == {"count_parts": "acme-tools 1.0"}
    counting: Any = toolbox.find("count_parts")
    arguments = toolbox.check_arguments("count_parts", {"line": "abc"})
    assert await counting.run(CALL, arguments) == {"parts": 3}
    ports = counting._inner.ports
    assert ports.plant == PLANT and ports.plant is not PLANT, "it has the documented ports, and a plant of its own"
    assert not hasattr(ports.field, "write"), "and no way past the limits and interlocks of a write"
    for method in (ports.field.read, ports.field.read_event_log):
        assert not hasattr(method.__self__, "write") and not vars(type(method.__self__)).keys() & {"write", "field", "_field"}
    assert "motor_3.temperature" in await ports.field.read(["motor_3.temperature"])
    with pytest.raises(ToolValidationError, match="count_parts: line: Field required"):
        toolbox.check_arguments("count_parts", {})


@pytest.mark.req("T1", "T4")
def test_whatever_is_wrong_with_one_leaves_out_that_one_and_says_why(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert third_party.LOADS_WITHIN_S == 10.0, "requirement T1; less here"
    monkeypatch.setattr(third_party, "LOADS_WITHIN_S", 3.0)
    marks = tmp_path / "imported"
    install(
        site,
        "acme-tools",
        {
            "good": tool("good"),
            "sleeps": tool("sleeps", above="import time\nwhile True: time.sleep(60)"),
            "raises": tool("raises", below="raise ValueError('no licence\\nfound')"),
            "exits": tool("exits", above="import sys\nsys.exit(3)"),
            "vanishes": tool("vanishes", above="import os\nos._exit(0)"),
            "broken": tool("broken", required=""),
            "untyped": tool("untyped", below=_WITH.replace("WITH", "description=None, sla=None, resource=7")),
            "two_faced": tool("two_faced", below=_META),
            "renamed": tool("other"),
            "unbuilt": tool("unbuilt", init="raise RuntimeError('no camera')"),
            "needs_broken": tool("needs_broken", dependencies='"broken",'),
            "needs_that": tool("needs_that", dependencies='"needs_broken",'),
            "needs_good": tool("needs_good", dependencies='"good", "drive"'),
            "round_a": tool("round_a", dependencies='"round_b",'),
            "round_b": tool("round_b", dependencies='"round_a",'),
            "drive": tool("drive"),
            "unwanted": tool("unwanted", above=f"open({str(marks)!r}, 'w')"),
        },
    )
    found = find_third_party(CLOCK, disabled=["unwanted"], taken=["drive"])
    degraded = Degraded()
    toolbox = built(found, tmp_path, degraded)
    assert set(toolbox.names) == {"drive", "good", "needs_good"}
    assert found.disabled == ("unwanted",) and not marks.exists(), "what is not wanted is not even imported"
    why = {part: text.partition(" is left out: ")[2] for part, text in degraded.reasons.items()}
    assert why == {
        "tool:sleeps": "it did not load within 3 s",
        "tool:raises": "ValueError: no licence found",
        "tool:exits": "it ends the process that loads it",
        "tool:vanishes": "it ends the process that loads it",
        "tool:broken": "broken: line: the schema says so but required_fields does not name it",
        "tool:untyped": "untyped: description: must be text, is None; untyped: sla: must be a SlaContract, is None; "
        "untyped: resource: must be text, is of type int",
        "tool:two_faced": "KeyError: 'contract'",
        "tool:renamed": "renamed: name: the entry point says renamed, the contract other",
        "tool:unbuilt": "RuntimeError: no camera",
        "tool:needs_broken": "needs_broken: dependencies: there is no tool broken",
        "tool:needs_that": "needs_that: dependencies: there is no tool needs_broken",
        "tool:round_a": "CycleDetected: round_a->round_b->round_a",
        "tool:round_b": "CycleDetected: round_a->round_b->round_a",
        "tool:drive": "a tool that ships has this name",
    }
    assert degraded.reasons["tool:raises"].startswith("the tool raises of acme-tools 1.0 is left out")


def test_one_that_loads_in_a_trial_and_hangs_in_the_core_costs_itself_alone(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(third_party, "LOADS_WITHIN_S", 3.0)
    let_go = tmp_path / "let_go"
    here = (
        f"import os, sys, time\nwhile 'tool_probe' not in sys.argv[0] and not os.path.exists({str(let_go)!r}): time.sleep(0.05)"
    )
    install(site, "acme-tools", {"two_faced": tool("two_faced", above=here), "good": tool("good")})
    found = find_third_party(CLOCK)
    let_go.touch()
    assert found.left_out == {"two_faced": "it did not load within 3 s"} and set(found.kinds) == {"good"}


def test_a_name_that_two_packages_declare_is_nobodys(site: Path, tmp_path: Path) -> None:
    install(site, "acme-tools", {"count_parts": tool("count_parts")})
    install(site, "other-tools", {"count_parts": tool("count_parts")})
    assert find_third_party(CLOCK).left_out == {"count_parts": "is declared by two packages"}


def test_the_ledger_and_its_log_are_not_theirs_to_write(site: Path, tmp_path: Path) -> None:
    apply = "def apply(self, tx, call, arguments): return {}\n    CountParts.apply = apply\n    del CountParts.run"
    install(
        site,
        "acme-tools",
        {
            "rows": tool("rows", below=f"if True:\n    {apply}"),
            "records": tool("records", below="CountParts.record_of = lambda self, call, value: None"),
        },
    )
    left_out = built(find_third_party(CLOCK), tmp_path).left_out
    assert left_out["rows"] == "rows: apply: the rows of the ledger are written by tools that ship alone"
    assert left_out["records"] == "records: record_of: the operation log is written by tools that ship alone"


@pytest.mark.req("T7", "T9")
async def test_what_breaks_in_a_call_is_an_error_a_step_may_end_with(site: Path, tmp_path: Path) -> None:
    more = 'async def verify(self, call, arguments):\n    raise KeyError("x")\n\n\n'
    more += "CountParts.verify = verify\nCountParts.level_of = lambda self, a: 1 / 0\nCountParts.not_ready = lambda self: 1 / 0"
    install(
        site,
        "acme-tools",
        {
            "reads": tool("reads", run="raise ValueError('no such\\x00 line')"),
            "acts": tool("acts", has_effect=True, run="raise SystemExit", below=more),
            "empty": tool("empty", run="return None"),
        },
    )
    toolbox = built(find_third_party(CLOCK), tmp_path)
    assert toolbox.left_out == {}
    with pytest.raises(Refused, match="reads broke: ValueError: no such"):
        await toolbox.find("reads").run(CALL, None)  # type: ignore[union-attr]
    with pytest.raises(Uncertain, match="acts broke: it ends the process"):
        await toolbox.find("acts").run(CALL, None)  # type: ignore[union-attr]
    with pytest.raises(Refused, match="empty broke: TypeError: it returned a NoneType and no result"):
        await toolbox.find("empty").run(CALL, None)  # type: ignore[union-attr]
    acting: Any = toolbox.find("acts")
    assert acting.level_of(None) is AccessLevel.CRITICAL
    assert toolbox.not_ready(["acts"]) == {"acts": "acts broke: ZeroDivisionError: division by zero"}
    assert not hasattr(toolbox.find("reads"), "verify")


@pytest.mark.req("T1", "S6")
async def test_a_tool_that_blocks_runs_in_a_process_of_its_own_and_is_killed_at_its_bound(site: Path, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    body = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    own_process = "isolation=Isolation.PROCESS,"
    breaks = tool("breaks", more=own_process, run="raise KeyError('no such line')")
    blocks = tool("blocks", more=own_process, run=body)
    install(site, "acme-tools", {"blocks": blocks, "breaks": breaks, "counts": tool("counts", more=own_process)})
    warden = Warden(tmp_path / "scratch")
    clock = ManualClock()
    ports = ToolPorts(TableBus(PLANT, clock), PLANT, phrasing(), clock)
    degraded = Degraded()
    toolbox = build_toolbox([drive()], find_third_party(CLOCK), ports, warden, degraded)
    assert set(toolbox.names) == {"drive", "blocks", "breaks", "counts"} and degraded.reasons == {}
    contract: ToolContract = toolbox.contracts["blocks"]
    assert contract.isolation == "process"
    try:
        assert await made(toolbox, "counts") == {"parts": 3}, "its package is found there, too"
        with pytest.raises(Unavailable, match="breaks broke: KeyError"):
            await made(toolbox, "breaks")
        began_ns = CLOCK.monotonic_ns()
        with pytest.raises(TimeoutError):
            await made(toolbox, "blocks")
        assert (CLOCK.monotonic_ns() - began_ns) / 1e9 < 30.0, "its bound is 0.5 s, and it blocks for 60"
        assert not runs(mark)
        assert await made(toolbox, "counts") == {"parts": 3}, "and the next call is made"
    finally:
        await warden.close()


def runs(mark: Path) -> bool:
    return Path(f"/proc/{mark.read_text()}").exists()


async def made(toolbox: Toolbox, name: str) -> Any:
    found: Any = toolbox.find(name)
    return await found.run(replace(CALL, tool=name, arguments={"line": "abc"}), toolbox.check_arguments(name, {"line": "abc"}))


def test_without_such_packages_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(third_party.subprocess, "Popen", None)
    found = find_third_party(CLOCK)
    assert found == ThirdParty()
    assert asyncio.run(_names(found, tmp_path)) == ("drive",)


async def _names(found: ThirdParty, folder: Path) -> tuple[str, ...]:
    return built(found, folder).names


# the documented one -----------------------------------------------------------------------------------------------------
def documented(folder: Path, change: tuple[str, str] = ("", "")) -> None:
    """Install what ``docs/tools.md`` shows, word for word but for ``change``."""
    text = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8")
    blocks = {kind: text.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("toml", "python", "yaml")}
    points = tomllib.loads(blocks["toml"])["project"]["entry-points"]["floorhand.tools"]
    assert change[0] in blocks["python"]
    install(folder, "acme-tools", {"heat_margin": blocks["python"].replace(*change) if change[0] else blocks["python"]})
    info = next(folder.glob("*.dist-info")) / "entry_points.txt"
    info.write_text("[floorhand.tools]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()), "utf-8")


@pytest.mark.req("T1")
async def test_the_documented_tool_loads_and_runs(site: Path, tmp_path: Path) -> None:
    documented(site)
    degraded = Degraded()
    toolbox = built(find_third_party(CLOCK), tmp_path, degraded)
    assert degraded.reasons == {} and "heat_margin" in toolbox.names
    tool_there: Any = toolbox.find("heat_margin")
    result = await tool_there.run(CALL, toolbox.check_arguments("heat_margin", {"machine": "motor_3"}))
    assert toolbox.check_result("heat_margin", result)["degrees"] == pytest.approx(90 - 94.2)


@pytest.mark.req("T1")
def test_a_model_that_takes_anything_is_left_out_with_the_cure(site: Path, tmp_path: Path) -> None:
    documented(site, ('    model_config = ConfigDict(extra="forbid", frozen=True)  # a field', "    # a field"))
    degraded = Degraded()
    built(find_third_party(CLOCK), tmp_path, degraded)
    why = degraded.reasons["tool:heat_margin"]
    assert 'arguments: must refuse unknown fields: give its model `model_config = ConfigDict(extra="forbid")`' in why
