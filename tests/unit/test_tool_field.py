"""The tools that touch the machine, over a real Modbus server in a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from appliance.contracts.errors import Unavailable
from appliance.contracts.plan import Step
from appliance.contracts.plant import Plant
from appliance.contracts.tag import Tag
from appliance.contracts.tool import ToolCall
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.read_plc_log import ReadPlcLog
from appliance.execution.tools.read_tags import ReadTags
from appliance.execution.tools.say import Say
from appliance.execution.tools.write_tag import Arguments, WriteTag, same_on_the_wire
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.store import actions
from drivers.modbus.bus import ModbusBus
from tests.support.ledger import Bench, open_bench
from tests.support.plans import PLANT, open_turn, phrasing
from tests.support.plant import SimulatedPlant, running_plant, shipped_plant
from tests.support.runner_ports import runner_ports

WRITE = Step(
    "write", "write_tag", {"key": "motor_3.fan_speed", "value": 80, "what": "setting the fan speed of motor 3 to 80 percent"}
)
DONE = Step("done", "say", {"text": "The fan speed is now {steps.write.shown}."})


@dataclass
class Hall:
    """A bench, a running plant and the tools wired to it over Modbus."""

    bench: Bench
    plc: SimulatedPlant
    plant: Plant
    bus: ModbusBus

    def runner(self) -> Runner:
        bench, clock = self.bench, SystemClock()
        tools = [
            Say(bench.clock, bench.ids), ReadTags(self.bus, self.plant, clock), WriteTag(self.bus, self.plant, clock),
            ReadPlcLog(self.bus, phrasing(self.plant)),
        ]  # fmt: skip
        return Runner(
            bench.database, Toolbox(tools), bench.clock, bench.ids, bench.epoch, phrasing(self.plant),
            settle_waits=lambda: [0.1] * 50, retry_waits=lambda: iter([0.0] * 9),
            **runner_ports(bench.database.path.parent, bench.clock),
        )  # fmt: skip

    async def run(self, *steps: Step, language: str = "en") -> tuple[RunOutcome, dict[str, Any], list[str]]:
        """Run a plan; return how it ended, the results by step and what was said."""
        turn = await open_turn(self.bench.database, self.bench.clock, self.bench.ids, steps, language=language)
        outcome = await self.runner().run(turn)
        found = await self.bench.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
        said = await self.bench.rows("SELECT text FROM delivery ORDER BY seq")
        return outcome, {a.step_id: a.result for a in found}, [row["text"] for row in said]

    async def effect(self) -> dict[str, Any]:
        return await self.bench.one("SELECT * FROM effect")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plc(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SimulatedPlant]:
    async with running_plant(tmp_path_factory.mktemp("plant")) as plant:
        yield plant


@asynccontextmanager
async def opened(folder: Path, plc: SimulatedPlant, port: int) -> AsyncIterator[Hall]:
    plant = shipped_plant(port, timeout_s=0.4, retries=0)
    bus = ModbusBus(plant, SystemClock(), Degraded())
    try:
        async with open_bench(folder) as bench:
            yield Hall(bench, plc, plant, bus)
    finally:
        await bus.close()


@pytest_asyncio.fixture(loop_scope="module")
async def hall(tmp_path: Path, plc: SimulatedPlant) -> AsyncIterator[Hall]:
    async with opened(tmp_path, plc, plc.port) as hall:
        yield hall


@pytest_asyncio.fixture(loop_scope="module")
async def dark_hall(tmp_path: Path, plc: SimulatedPlant) -> AsyncIterator[Hall]:
    """A hall whose PLC does not answer: nothing listens on port 1."""
    async with opened(tmp_path, plc, 1) as hall:
        yield hall


@pytest.mark.req("F3")
@pytest.mark.asyncio(loop_scope="module")
async def test_tags_are_read_and_said(hall: Hall) -> None:
    outcome, results, said = await hall.run(
        Step("one", "read_tags", {"keys": ["motor_3.temperature"]}),
        Step("two", "read_tags", {"keys": ["motor_3.temperature", "motor_3.fan_speed"]}),
        Step("say", "say", {"text": "{steps.one.value} and {steps.two.values.motor_3.fan_speed}."}),
    )
    assert outcome.kind == "finished"
    assert results["one"]["value"] == results["one"]["values"]["motor_3.temperature"]
    assert (results["one"]["value"]["unit"], results["one"]["value"]["quality"]) == ("degC", "good")
    assert results["two"]["value"] is None
    assert results["two"]["values"].keys() == {"motor_3.temperature", "motor_3.fan_speed"}
    assert "degrees Celsius and " in said[0] and said[0].endswith(" percent.")


@pytest.mark.field("FC-F05")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_machine_that_does_not_answer_is_said_to_be_unreadable(dark_hall: Hall) -> None:
    outcome, results, said = await dark_hall.run(
        Step("read", "read_tags", {"keys": ["motor_3.temperature"]}),
        Step("say", "say", {"text": "Temperature: {steps.read.value}."}),
    )
    assert outcome.kind == "finished"
    assert results["read"]["value"]["value"] is None
    assert said == ["Temperature: not readable."]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_tag_that_is_not_declared_is_refused(hall: Hall) -> None:
    outcome, _, _ = await hall.run(Step("read", "read_tags", {"keys": ["motor_3.mood"]}))
    assert outcome.failure.startswith("read: refused: motor_3.mood")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_controllers_log_is_read_and_summed_up_in_one_sentence(hall: Hall, language: str) -> None:
    await hall.plc.do("overheat", asset="motor_3")
    steps = (Step("log", "read_plc_log", {"newest": 4}), Step("one", "read_plc_log", {"newest": 1}))
    _, results, _ = await hall.run(*steps, language=language)
    log = results["log"]
    assert log["count"] == len(log["entries"]) <= 4
    newest = log["entries"][-1]["text"][language] if log["count"] else ""
    assert newest in log["summary"]
    assert log["summary"].startswith("The " if language == "en" else "控制器")
    one = {"en": "The last entry of the controller log: ", "zh": "控制器日志最近一条记录："}[language]
    assert results["one"]["count"] == 1 and results["one"]["summary"].startswith(one)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_log_that_cannot_be_had_is_unavailable(dark_hall: Hall) -> None:
    outcome, _, _ = await dark_hall.run(Step("log", "read_plc_log", {}))
    assert outcome.failure.startswith("log: unavailable:")


@pytest.mark.req("F4", "X5", "T6")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_write_is_read_back_and_said(hall: Hall) -> None:
    outcome, results, said = await hall.run(WRITE, DONE)
    assert outcome.kind == "finished"
    assert (results["write"]["wanted"], results["write"]["shown"]["value"]) == (80, 80)
    assert said == ["The fan speed is now 80 percent."]
    effect = await hall.effect()
    assert (effect["status"], effect["settled_by"], effect["was_unknown"]) == ("applied", "reply", 0)
    assert json.loads(effect["arguments"])["value"] == 80


@pytest.mark.req("F4", "X5")
@pytest.mark.parametrize(("key", "value"), [("motor_3.fan_speed", 101), ("motor_3.fan_speed", -1), ("motor_3.temperature", 20)])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_write_outside_its_limits_is_refused_and_nothing_is_sent(hall: Hall, key: str, value: float) -> None:
    before = (await hall.plc.counts())["writes"]
    outcome, _, _ = await hall.run(Step("write", "write_tag", {"key": key, "value": value, "what": "x"}))
    assert outcome.failure.startswith("write: refused: ")
    assert (await hall.effect())["status"] == "none"
    assert (await hall.plc.counts())["writes"] == before


@pytest.mark.asyncio(loop_scope="module")
async def test_a_write_to_a_machine_that_is_not_there_has_no_effect(dark_hall: Hall) -> None:
    outcome, _, _ = await dark_hall.run(WRITE)
    assert outcome.failure.startswith("write: unavailable: ")
    assert (await dark_hall.effect())["status"] == "none"


@pytest.mark.req("F4", "T7")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_write_whose_answer_is_lost_is_unknown_said_so_and_settled_by_reading_back(hall: Hall) -> None:
    await hall.run(Step("write", "write_tag", {"key": "motor_3.fan_speed", "value": 35, "what": "x"}))
    before = sum((await hall.plc.counts())["writes"].values())
    await hall.plc.do("hold_write_reply", seconds=1.5)
    turn = await open_turn(hall.bench.database, hall.bench.clock, hall.bench.ids, [WRITE, DONE], turn_id="tr_2")
    async with asyncio.timeout(20):
        outcome = await hall.runner().run(turn)
    assert outcome.kind == "finished"
    effect = await hall.bench.one("SELECT * FROM effect WHERE turn_id = 'tr_2'")
    assert (effect["status"], effect["settled_by"], effect["was_unknown"]) == ("applied", "verify", 1)
    said = [row["text"] for row in await hall.bench.rows("SELECT text FROM delivery ORDER BY seq")]
    assert "setting the fan speed of motor 3 to 80 percent" in said[0]
    assert said[1:] == [
        "I checked. It was done: setting the fan speed of motor 3 to 80 percent.",
        "The fan speed is now 80 percent.",
    ]
    assert sum((await hall.plc.counts())["writes"].values()) == before + 1


@pytest.mark.asyncio(loop_scope="module")
async def test_reading_back_tells_done_from_not_done_and_from_not_readable(hall: Hall, tmp_path: Path) -> None:
    tool = WriteTag(hall.bus, hall.plant, SystemClock())
    call: Any = ToolCall("write_tag", {}, "tr_1", "se_1", "ac_1", "lane", "en", {})
    wanted = Arguments(key="motor_3.fan_speed", value=42, what="x")
    await tool.run(call, wanted)
    assert (await tool.verify(call, wanted))[0] == "applied"
    other = Arguments(key="motor_3.fan_speed", value=43, what="x")
    disposition, evidence = await tool.verify(call, other)
    assert disposition == "none"
    assert evidence["shown"].value == 42  # type: ignore[attr-defined]
    async with opened(tmp_path / "dark", hall.plc, 1) as dark:
        with pytest.raises(Unavailable):
            await WriteTag(dark.bus, dark.plant, SystemClock()).verify(call, wanted)
    without_tags = Plant.model_validate(PLANT.model_dump(mode="json") | {"tags": [], "alarms": []})
    gone = WriteTag(hall.bus, without_tags, SystemClock())
    assert (await gone.verify(call, wanted))[0] == "unknown"


def tag(**changes: Any) -> Tag:
    known = PLANT.tag_by_key["motor_3.fan_speed"]
    kind = {"kind": "coil"} if changes.get("type") == "bool" else {}
    kind |= {"low": None, "high": None} if changes.keys() & {"names", "flags"} else {}
    return Tag.model_validate(known.model_dump() | kind | changes)


@pytest.mark.req("F4")
@pytest.mark.parametrize(
    ("changes", "wanted", "shown", "same"),
    [
        ({}, 60, 60, True),
        ({}, 60, 59, False),
        ({}, 60, 61, False),
        ({}, 59.5, 60, True),
        ({"scale": 0.1}, 59.5, 59.5, True),
        ({"scale": 0.1}, 59.5, 59.4, False),
        ({"scale": 0.1}, 0.3, 0.1 * 3, True),
        ({"scale": -0.5}, 60, 59.5, False),
        ({"type": "float32"}, 1.8, 1.7999999523162842, True),
        ({"type": "float32"}, 1.8, 1.801, False),
        ({"type": "float32"}, 0.0, 0.0, True),
        ({"type": "float64", "kind": "holding_register"}, 0.1, 0.1, True),
        ({"type": "float16", "kind": "holding_register"}, 0.1, 0.0999755859375, True),
        ({"type": "float16", "kind": "holding_register"}, 0.1, 0.1001, True),
        ({"type": "float16", "kind": "holding_register"}, 0.1, 0.105, False),
        ({"names": {0: "slow", 1: "fast"}}, 1, "fast", True),
        ({"names": {0: "slow", 1: "fast"}}, "Fast", "fast", True),
        ({"names": {0: "slow", 1: "fast"}}, "fast", "slow", False),
        ({"names": {0: "slow", 1: "fast"}}, "fast", "7", False),
        ({"flags": {0: "left", 1: "right"}}, "right, left", "left, right", True),
        ({"flags": {0: "left", 1: "right"}}, 1, "left, bit 4", False),
        ({"type": "bool"}, True, True, True),
        ({"type": "bool"}, True, False, False),
        ({"type": "bool"}, 1, True, True),
        ({}, "on", "on", True),
        ({}, "on", 1, False),
    ],
)
def test_a_whole_raw_step_is_another_value(changes: dict[str, Any], wanted: Any, shown: Any, same: bool) -> None:
    assert same_on_the_wire(tag(**changes), wanted, shown) is same
