"""From a session token to a call: what is above its level is not there, in a plan, in the answer, anywhere but the audit log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.access.settings import AccessSettings
from appliance.contracts.plan import Step
from appliance.contracts.principal import NOBODY, PRINCIPAL, AccessLevel, Principal
from appliance.contracts.tool import ToolContract
from appliance.execution.approval.approvals import Approvals
from appliance.execution.approval.settings import ApprovalRules, ApprovalSettings, CallRule
from appliance.execution.runner import Runner
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.say import Say
from tests.support.bus import TableBus
from tests.support.effect_file import Look
from tests.support.ledger import Bench, open_bench
from tests.support.plans import PLANT, open_turn, phrasing
from tests.support.runner_ports import runner_ports
from tests.support.tokens import Desk, desk_of

pytestmark = pytest.mark.req("T3")


def tool_of(level: AccessLevel) -> Look:
    """A reading tool of a level, called by its word."""
    tool = Look({"seen": level.word})
    security = replace(tool.contract.security, access_level=level)
    tool.contract = replace(tool.contract, name=f"read_{level.word}", security=security)  # type: ignore[misc]
    return tool


class Floor:
    """A real runner with the real gate, and tools of every level."""

    def __init__(self, bench: Bench, desk: Desk) -> None:
        self.bench, self.desk = bench, desk
        self.tools = {level: tool_of(level) for level in AccessLevel}
        say, ask = Say(bench.clock, bench.ids), Ask(bench.clock, bench.ids, phrasing())
        self.box = Toolbox([say, ask, *self.tools.values()])
        approvals = Approvals(
            settings=ApprovalSettings(ApprovalRules(allow=[CallRule(tools=["read_operator"])])), toolbox=self.box, plant=PLANT,
            bus=TableBus(PLANT, bench.clock), ledger=bench.database, wording=phrasing(), clock=bench.clock,
        )  # fmt: skip
        ports = runner_ports(bench.database.path.parent, bench.clock) | {"approvals": approvals}
        self.runner = Runner(bench.database, self.box, bench.clock, bench.ids, bench.epoch, phrasing(), **ports)
        self.turns = 0

    async def call(self, who: Principal | None, tool: str, at: str = "motor_3") -> dict[str, Any]:
        """Have a turn of ``who`` make one call; return its action's row."""
        self.turns += 1
        turn_id = f"tr_{self.turns}"
        context = {} if who is None else {PRINCIPAL: who.to_json()}
        bench = self.bench
        step = Step("a", tool, {"at": at})
        turn = await open_turn(bench.database, bench.clock, bench.ids, [step], context=context, turn_id=turn_id)
        await self.runner.run(turn)
        return await bench.one("SELECT id, state, result FROM action WHERE turn_id = ?", turn_id)

    async def audited(self, action: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the audit log says of a call."""
        rows = await self.bench.rows("SELECT kind, payload FROM operation WHERE kind LIKE 'audit.%' AND entity = ?", action["id"])
        return [{"kind": row["kind"], **json.loads(row["payload"])} for row in rows]


@pytest.fixture
async def floor(tmp_path: Path) -> AsyncIterator[Floor]:
    async with open_bench(tmp_path) as bench:
        yield Floor(bench, desk_of(bench, tmp_path))


def sees(box: Toolbox, level: AccessLevel) -> list[str]:
    return [name for name in box.visible_to(level) if name.startswith("read_")]


def test_a_tool_above_the_level_does_not_appear() -> None:
    box = Toolbox([tool_of(level) for level in AccessLevel])
    names = [f"read_{level.word}" for level in AccessLevel]
    for level in AccessLevel:
        assert sees(box, level) == names[: level + 1]
        assert all(isinstance(each, ToolContract) for each in box.visible_to(level).values())


async def test_a_call_above_the_tokens_level_is_one_of_a_tool_that_is_not_there(floor: Floor) -> None:
    roles = AccessSettings().roles
    for role, word in roles.items():
        who = (await floor.desk.tokens.verify(await floor.desk.make("ana", role))).principal
        assert who.level is AccessLevel.of_word(word)
        unknown = await floor.call(who, "read_nonesuch")
        assert unknown["state"] == "failed" and await floor.audited(unknown) == []
        for level, tool in floor.tools.items():
            action = await floor.call(who, tool.contract.name)
            if level is AccessLevel.CRITICAL and level <= who.level:
                assert "there is no tool" not in action["result"], "it is there, and wants a person's yes with a code"
                continue
            if level <= who.level:
                assert action["state"] == "done" and json.loads(action["result"])["seen"] == level.word
                continue
            same = {each: action[each] for each in ("state", "result")}
            assert same == {
                "state": unknown["state"], "result": unknown["result"].replace("read_nonesuch", tool.contract.name)
            }, "word for word what is said of a tool that is not there"  # fmt: skip
            (entry,) = await floor.audited(action)
            assert (entry["tool"], entry["who"], entry["rule"]) == (tool.contract.name, who.to_json(), "hard_floor")
            assert entry["kind"] == "audit.call_hidden"
    made = {level: len(tool.calls) for level, tool in floor.tools.items()}
    assert made == {AccessLevel.PUBLIC: 4, AccessLevel.INTERNAL: 3, AccessLevel.OPERATOR: 2, AccessLevel.CRITICAL: 0}


async def test_bad_arguments_do_not_tell_that_the_tool_is_there(floor: Floor) -> None:
    visitor = (await floor.desk.tokens.verify(await floor.desk.make("ana", "visitor"))).principal
    for at in ("{slots.where}", ""):
        unknown, hidden = await floor.call(visitor, "read_nonesuch", at), await floor.call(visitor, "read_critical", at)
        assert hidden["result"].replace("read_critical", "read_nonesuch") == unknown["result"]


async def test_a_clock_in_doubt_hides_what_is_critical(floor: Floor) -> None:
    token = await floor.desk.make("ana", "engineer")
    floor.bench.clock.is_synced = False
    who = (await floor.desk.tokens.verify(token)).principal
    assert (await floor.call(who, "read_operator"))["state"] == "done"
    assert "there is no tool read_critical" in (await floor.call(who, "read_critical"))["result"]


async def test_what_nobody_asked_for_may_do_what_an_operator_may(floor: Floor) -> None:
    """Alarms, and turns of before there were principals."""
    assert NOBODY.level is AccessLevel.OPERATOR
    assert (await floor.call(None, "read_operator"))["state"] == "done"
    assert "there is no tool read_critical" in (await floor.call(None, "read_critical"))["result"]
