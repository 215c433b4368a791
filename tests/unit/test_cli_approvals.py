"""``floorhand approvals`` as the shell sees it, over a real local API, gate and ledger."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.cli import exit_codes
from appliance.console.acts import Acts
from appliance.console.api import LocalApi
from appliance.contracts.errors import Refused
from appliance.contracts.hold import HoldSource
from appliance.execution.approval.approval_desk import ApprovalDesk
from appliance.store import holds
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore
from tests.support.gate import FAN, Gate, open_gate, plan_of, principal, rules, write_step

pytestmark = pytest.mark.req("X2", "O2")

ANA = principal()
ROLES = {"visitor": "public", "operator": "operator", "engineer": "critical"}
SITE = rules(
    deny=[{"subjects": ["conveyor_3.*"], "roles": ["operator"], "why": {"en": "The engineer sets the conveyor."}}],
    writes=[
        {
            "tags": [FAN], "access": "critical", "most": {"count": 4, "within_s": 60},
            "interlocks": [{"require": "motor_3.temperature < 90", "why": {"en": "Motor 3 is too hot for that."}}],
        }
    ],
)  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with open_gate(tmp_path, SITE) as gate:
        bench = gate.bench
        desk = ApprovalDesk(bench.database, gate.approvals, SITE, bench.clock, ROLES, "operator", "en")
        path, acts = tmp_path / "run" / "api.sock", Acts(approvals=desk)
        api = LocalApi(StandInCore(), bench.database, dict, path=path, language="en", acts=acts)
        running = asyncio.create_task(api.run())
        try:
            async with asyncio.timeout(10):
                await api.serving.wait()
            yield gate
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_what_was_decided_is_listed(gate: Gate, run: Run) -> None:
    assert (await run("approvals", "list"))[:2] == (0, "nothing was decided yet\n")
    with pytest.raises(Refused):
        await gate.ask("set the belt speed of conveyor three to one", ANA)
    code, out, _ = await run("approvals", "list")
    assert (code, "write_tag" in out, "conveyor_3.speed" in out, "The engineer sets the conveyor." in out) == (
        0,
        True,
        True,
        True,
    )
    code, out, _ = await run("approvals", "list", "--json", "--limit", "1")
    (row,) = json.loads(out)
    assert (row["decision"], row["rule"], row["by"], row["identified"], row["is_automatic"]) == (
        "deny",
        "deny",
        "ana",
        "token",
        True,
    )
    assert row["facts"]["value"] == 1
    code, out, _ = await run("approvals", "list", "--session", row["session_id"], "--json")
    assert {each["session_id"] for each in json.loads(out)} == {row["session_id"]}
    code, out, err = await run("approvals", "list", "--session", "se_0")
    assert (code, out) == (exit_codes.PROBLEM, "") and "there is no session se_0" in err and "floorhand sessions list" in err


async def test_the_rules_in_force_say_what_would_happen(gate: Gate, run: Run) -> None:
    code, out, _ = await run("approvals", "rules", FAN, "--role", "engineer")
    assert code == 0
    assert out.splitlines()[0] == "asked in this order: hard_floor, deny, breaker, rate, unattended, ask, allow"
    refused = f"a write to {FAN} by engineer is refused"
    assert out.splitlines()[-1] == f"{refused} (interlock): Motor 3 is too hot for that."  # as it stands now
    gate.bus.values["motor_3.temperature"] = 60.0
    code, out, _ = await run("approvals", "rules", FAN, "--role", "engineer")
    assert out.splitlines()[-1] == (
        f"a write to {FAN} by engineer is asked for, and the yes has to bring the code that is read out"
    )
    bench = gate.bench
    await bench.database.transaction(lambda tx: holds.begin(tx, bench.clock, HoldSource.PERSON, by="root", reason="repair"))
    code, out, _ = await run("approvals", "rules", FAN, "--role", "engineer", "--json")
    told = json.loads(out)
    assert (told["outcome"], told["rule"], told["needs_code"]) == ("deny", "hard_floor", False) and "hold by root" in told["why"]
    code, out, _ = await run("approvals", "rules", "create_work_order", "--json")
    assert json.loads(out)["outcome"] == "deny"
    code, out, _ = await run("approvals", "rules", "read_tags", "--json")
    assert json.loads(out)["outcome"] == "allow", "a hold keeps nobody from looking"
    await bench.database.transaction(lambda tx: holds.end(tx, bench.clock, HoldSource.PERSON, of="root", by="root"))
    code, out, _ = await run("approvals", "rules", FAN)
    assert (
        out.splitlines()[-1] == f"a write to {FAN} by operator is refused (hard_floor): That needs a person with critical access."
    )
    code, out, _ = await run("approvals", "rules", "conveyor_3.speed", "--json")
    told = json.loads(out)
    assert (told["outcome"], told["rule"], told["why"]) == ("deny", "deny", "The engineer sets the conveyor.")
    assert [each["rule"] for each in told["rules"] if each["applies"]] == ["deny", "ask"]
    code, out, _ = await run("approvals", "rules", "motor_3.temperature")
    assert out.splitlines()[-1].endswith("is refused (hard_floor): The temperature of motor 3 cannot be set.")
    code, out, _ = await run("approvals", "rules", "create_work_order")
    assert out.splitlines()[-1] == "a call of create_work_order by operator is made without asking"
    code, out, _ = await run("approvals", "rules", "create_work_order", "--role", "visitor")
    assert "is refused (hard_floor)" in out
    code, out, _ = await run("approvals", "rules")
    assert (code, "motor_3.temperature < 90" in out, "conveyor_3.*" in out) == (0, True, True)
    code, _, err = await run("approvals", "rules", "motor_9.speed")
    assert (code, "neither a tool nor a tag" in err, "floorhand tags list" in err) == (exit_codes.PROBLEM, True, True)
    for about in ([FAN], []):
        code, _, err = await run("approvals", "rules", *about, "--role", "boss")
        assert (code, "there is no role boss" in err, "engineer" in err) == (exit_codes.PROBLEM, True, True)


async def test_a_session_that_was_stopped_goes_on_when_a_person_says_so(gate: Gate, run: Run) -> None:
    boss = principal("critical")
    for _ in range(3):
        with pytest.raises(Refused):
            await gate.planned(plan_of(write_step(500), source="model:a/b"), boss)
    session = (await gate.bench.one("SELECT DISTINCT session_id AS id FROM approval"))["id"]
    code, out, _ = await run("approvals", "reset", session)
    assert (code, out) == (0, f"{session} goes on; calls that were refused in a row: 3\n")
    code, out, _ = await run("approvals", "reset", session)
    assert (code, out) == (exit_codes.PROBLEM, f"nothing was refused in {session} since the last yes\n")
    row = (await gate.bench.rows("SELECT decision, who FROM approval ORDER BY seq DESC LIMIT 1"))[0]
    assert (row["decision"], json.loads(row["who"])["by"]) == ("reset", getpass.getuser())
    code, _, err = await run("approvals", "reset", "se_nobody")
    assert (code, "there is no session se_nobody" in err) == (exit_codes.PROBLEM, True)
