"""The tools that remember, recall and file, on the real memory and a real Git repository."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plan import Step
from appliance.contracts.turn import Turn
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.record_episode import RecordEpisode
from appliance.execution.tools.say import Say
from appliance.execution.tools.search_memory import SearchMemory
from appliance.execution.tools.write_report import WriteReport
from appliance.memory.memory import Memory
from appliance.memory.procedural import ProcedureRepository
from appliance.memory.settings import MemorySettings
from appliance.store import actions, effects
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import runner_ports

CASE = "Motor 3 ran hot because the fan filter was clogged; the filter was cleaned."
EPISODE = {"text": CASE, "scope": "works", "asset": "motor_3", "fault": "over_temperature", "confidence": 0.9, "verified": True}
REPORT = {"title": "Motor 3: over-temperature", "asset": "motor_3", "lines": ["alarm at {alarm.value}", "two\nlines"]}


@dataclass
class Study:
    """A bench with memory and procedures."""

    bench: Bench
    memory: Memory
    procedures: ProcedureRepository

    def runner(self) -> Runner:
        bench = self.bench
        tools = [
            Say(bench.clock, bench.ids), RecordEpisode(self.memory), SearchMemory(self.memory, phrasing(), bench.clock),
            WriteReport(self.procedures),
        ]  # fmt: skip
        return Runner(
            bench.database, Toolbox(tools), bench.clock, bench.ids, bench.epoch, phrasing(), settle_waits=lambda: [0.0],
            **runner_ports(bench.database.path.parent, bench.clock),
        )  # fmt: skip

    async def turn(self, *steps: Step, turn_id: str = "tr_1") -> Turn:
        context = {"alarm": {"value": 94.2}}
        return await open_turn(self.bench.database, self.bench.clock, self.bench.ids, steps, context=context, turn_id=turn_id)

    async def run(self, *steps: Step, turn_id: str = "tr_1") -> tuple[RunOutcome, dict[str, Any]]:
        turn = await self.turn(*steps, turn_id=turn_id)
        outcome = await self.runner().run(turn)
        found = await self.bench.database.transaction(lambda tx: actions.of_turn(tx, turn_id))
        return outcome, {a.step_id: a.result for a in found}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Study]:
    seed = folder / "seed"
    seed.mkdir(exist_ok=True)
    async with open_bench(folder) as bench:
        procedures = ProcedureRepository(folder / "procedures", bench.clock)
        await procedures.open(seed)
        memory = Memory(bench.database, bench.clock, bench.ids, MemorySettings(), None, procedures)
        await memory.start()
        try:
            yield Study(bench, memory, procedures)
        finally:
            await memory.stop()
            await procedures.close()


@pytest.fixture
async def study(tmp_path: Path) -> AsyncIterator[Study]:
    async with opened(tmp_path) as study:
        yield study


def search(scope: str = "works") -> Step:
    return Step("cases", "search_memory", {"question": "motor 3 ran hot, fan filter clogged", "scope": scope, "asset": "motor_3"})


@pytest.mark.req("M3", "M6")
async def test_what_was_remembered_is_found_and_cited(study: Study) -> None:
    await study.run(Step("remember", "record_episode", EPISODE | {"tier": "semantic"}))
    _, results = await study.run(search(), turn_id="tr_2")
    cases = results["cases"]
    assert cases["count"] == len(cases["found"]) == len(cases["cites"]) == 1
    assert cases["best"] == cases["found"][0]["text"]
    assert "fan filter was clogged" in cases["best"]
    assert cases["cites"][0]
    assert cases["summary"].startswith("I know one similar case: ")


@pytest.mark.field("FC-M04")
async def test_another_scope_finds_nothing_and_no_scope_is_refused(study: Study) -> None:
    await study.run(Step("remember", "record_episode", EPISODE | {"tier": "semantic"}))
    _, results = await study.run(search("other works"), turn_id="tr_2")
    assert (results["cases"]["count"], results["cases"]["best"]) == (0, "")
    assert results["cases"]["summary"] == "I know no similar case."
    for number, arguments in enumerate(({"question": "x"}, {"question": "x", "scope": ""})):
        outcome, _ = await study.run(Step("cases", "search_memory", arguments), turn_id=f"tr_{number + 3}")
        assert "search_memory: scope" in outcome.failure


@pytest.mark.req("M2", "R6")
async def test_an_episode_recorded_again_after_a_crash_is_the_same_memory(study: Study) -> None:
    turn = await study.turn(Step("remember", "record_episode", EPISODE))
    await study.runner().run(turn)
    # The process died after memory had committed and before the action was marked done.
    await study.bench.database.transaction(lambda tx: tx.execute("UPDATE action SET state = 'started', result = NULL"))
    assert (await study.runner().run(turn)).kind == "finished"
    row = await study.bench.one("SELECT * FROM memory")
    action = await study.bench.one("SELECT id, result FROM action")
    assert row["key"] == action["id"]
    assert row["occurred_utc"] == turn.opened_utc.isoformat(timespec="microseconds")
    assert json.loads(action["result"])["id"] == row["id"]
    assert await study.bench.rows("SELECT 1 FROM effect") == []


@pytest.mark.req("P4", "M4")
async def test_a_report_is_a_commit_and_an_operation(study: Study) -> None:
    _, results = await study.run(Step("report", "write_report", REPORT))
    report = results["report"]
    assert report["path"] == "reports/2026-03-02-tr_1.md"
    content = await study.procedures.read(report["path"])
    assert content is not None
    assert content.startswith(
        "# Motor 3: over-temperature\n\n- asset: motor_3\n- opened: 2026-03-02T08:00:00+00:00\n- turn: tr_1\n"
    )
    assert content.endswith("\n- alarm at 94.2\n- two lines\n")
    assert await study.procedures.find_commit(report["path"], content) == report["commit"]
    operation = await study.bench.one("SELECT * FROM operation WHERE kind = 'report.committed'")
    assert (operation["lane"], operation["entity"]) == ("P2", report["path"])
    assert json.loads(operation["payload"])["commit"] == report["commit"]
    assert (await study.bench.one("SELECT status FROM effect"))["status"] == "applied"


@pytest.mark.req("T7", "R6")
@pytest.mark.parametrize("committed", [True, False])
async def test_a_report_cut_short_is_looked_for_in_the_repository(study: Study, committed: bool) -> None:
    step = Step("report", "write_report", REPORT | {"lines": ["one"]})
    turn = await study.turn(step)
    if committed:
        await study.runner().run(turn)
        await study.bench.database.transaction(lambda tx: tx.execute("DELETE FROM effect"))
        await study.bench.database.transaction(lambda tx: tx.execute("UPDATE action SET state = 'pending', result = NULL"))
    action = await study.bench.one("SELECT id FROM action")

    def intend(tx: Any) -> None:
        effects.intend(
            tx, study.bench.clock, action_id=action["id"], turn_id=turn.id, tool="write_report", arguments=step.arguments,
            epoch=study.bench.epoch,
        )  # fmt: skip
        tx.execute("UPDATE action SET state = 'started'")

    await study.bench.database.transaction(intend)
    outcome = await study.runner().run(turn)
    effect = await study.bench.one("SELECT * FROM effect")
    assert outcome.kind == ("finished" if committed else "failed")
    assert (effect["status"], effect["settled_by"]) == ("applied" if committed else "none", "verify")
    if committed:
        told = await study.bench.rows("SELECT payload FROM operation WHERE kind = 'report.committed'")
        assert json.loads(told[-1]["payload"])["commit"] == json.loads(effect["result"])["commit"]
    assert len(await study.procedures.log()) == (1 if committed else 0)


@pytest.mark.req("S8")
async def test_a_report_cannot_be_filed_while_the_procedures_are_closed(study: Study, tmp_path: Path) -> None:
    assert WriteReport(study.procedures).not_ready() == ""
    closed = ProcedureRepository(tmp_path / "elsewhere", study.bench.clock)
    assert WriteReport(closed).not_ready() == "the report folder is not open"
    assert Toolbox([WriteReport(closed)]).not_ready(["write_report"]) == {"write_report": "the report folder is not open"}
