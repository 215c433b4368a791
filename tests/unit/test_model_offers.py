"""Tools of other packages are offered to a model as ours are, and a prompt fits whatever a server says it counted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.model import ContextOverflow, Message, ModelRequest
from appliance.contracts.tool import AccessLevel, SchemaContract, SecurityContract, ToolContract
from appliance.execution.fields import Fields
from appliance.planning.model.tool_choice import choose
from tests.support.scripted_model import ScriptedModel, open_planning, plan_of, shipped_contracts, step
from tests.unit.test_model_planner import offered


class _Arguments(Fields):
    machine: str = ""


class _Result(Fields):
    hours: float = 0.0


def theirs(name: str, description: str) -> ToolContract:
    """A tool of another package that only reads."""
    security = SecurityContract(AccessLevel.PUBLIC, "field")
    schema = SchemaContract(_Arguments, _Result)
    return replace(
        shipped_contracts()["read_tags"], name=name, description=description, schema=schema, security=security, resource=""
    )


HOURS = theirs("hours_run", "Operating hours of a machine since its last service")
MANY = {f"other_{n:02}": theirs(f"other_{n:02}", f"Reads thing number {n} of another system, at some length") for n in range(40)}


@pytest.mark.req("T2", "A3")
@pytest.mark.parametrize("window", [4_096, 8_192, 128_000])
def test_a_tool_of_others_that_only_reads_is_offered(window: int) -> None:
    contracts = shipped_contracts() | {HOURS.name: HOURS}
    assert HOURS in choose(contracts, "hello", window).reading, "one more: there is room"
    crowded = contracts | MANY
    assert HOURS.name in choose(crowded, "how many operating hours has motor three", window).contracts
    chinese = crowded | {HOURS.name: replace(HOURS, description="运行小时数")}
    assert HOURS.name in choose(chinese, "三号电机的运行小时", window).contracts
    assert {each.name for each in choose(crowded, "x", window).reading} >= {"say", "read_tags", "read_playbook", "read_result"}


@pytest.mark.req("A3")
@pytest.mark.parametrize("window", [1_536, 4_096, 16_000])
def test_what_is_always_offered_depends_on_no_sentence(window: int) -> None:
    crowded = shipped_contracts() | MANY | {HOURS.name: HOURS}
    said = ("hello", "how many operating hours", "set the fan faster", "三号电机怎么样")
    assert len({tuple(tool.name for tool in choose(crowded, each, window).reading) for each in said}) == 1


@pytest.mark.req("A1", "A3")
async def test_a_model_plans_with_a_tool_of_others(tmp_path: Path) -> None:
    answer = plan_of(step("a", "hours_run", machine="motor_3"), step("b", "say", text="{steps.a.hours} hours."))
    async with open_planning(tmp_path, [answer]) as room:
        room.contracts.update(MANY | {HOURS.name: HOURS})
        plan = await room.planner.plan(await room.asked("how many operating hours has motor three"))
        assert [each.tool for each in plan.steps] == ["hours_run", "say"]  # type: ignore[union-attr]
        assert HOURS.name in offered(room.model.requests[0]) and "hours_run(machine?)" in room.model.prompts[0]
        systems = set()
        for said in ("how many operating hours has motor three", "why is pump three slow"):
            await room.planner.plan(await room.asked(said))
            systems.add(room.model.requests[-1].messages[0].content)
        assert len(systems) == 1


@pytest.mark.field("FC-A01")
@pytest.mark.req("A3")
@pytest.mark.parametrize("seed", range(4))
async def test_a_prompt_fits_with_its_answer_whatever_a_server_reports(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with open_planning(tmp_path, [plan_of(step("a", "say", text="x"))], context_tokens=4_096) as room:
        for number in range(12):
            await room.past(f"turn {number}", [], ["the bearing was greased and the filter cleaned; " * 12])
        asked = await room.asked("why is motor three warm")
        made: Any = None
        for reported in [10**9, 101, 10**12, *(rng.choice([100, 101, 500, 4_000, 10**6, 10**15]) for _ in range(30))]:
            _report(room.model, rng, reported)
            try:
                made = await room.contexts.of(asked, room.model)
            except ContextOverflow:
                continue
            assert made.tokens + made.reply_tokens <= made.context_tokens == 4_096
            assert made.tokens >= sum(room.model.count_tokens(tier.text) for tier in made.tiers)
        assert made is not None


def _report(model: ScriptedModel, rng: random.Random, reported: int) -> None:
    text = rng.choice(["the conveyor stopped " * 100, "三号电机的温度是多少" * 60, "stopped 停 " * 100])
    for _ in range(rng.randint(1, 60)):
        model._counter.learn(ModelRequest((Message("user", text),), 16), "schema", reported)
