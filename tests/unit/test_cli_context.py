"""``floorhand context``: from the command line through the local API to what the planner would show a model."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.cli import exit_codes
from appliance.console.acts import Acts
from appliance.console.api import LocalApi
from appliance.contracts.model import LanguageModel
from appliance.contracts.principal import Principal
from appliance.contracts.tool import ToolContract
from appliance.planning.model.context_view import ContextView
from drivers.models.tokens import TokenCounter
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore
from tests.support.scripted_model import PlanningRoom, open_planning, plan_of, step
from tests.unit.test_model_context import remember

SAY = plan_of(step("a", "say", text="I do not know."))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[PlanningRoom]:
    async with open_planning(tmp_path, [SAY]) as opened:
        await opened.past("is motor three warm", [("read_tags", {"keys": ["motor_3.load"]}, {"value": 7})], ["It is warm."])
        await opened.past("set its fan speed to 80")
        yield opened


@contextlib.asynccontextmanager
async def serving(room: PlanningRoom, folder: Path, model: LanguageModel | None) -> AsyncIterator[None]:
    database = room.bench.database

    def visible(who: Principal) -> dict[str, ToolContract]:
        return room.visible(who.level)

    async def not_taken_up() -> list[str]:
        return []

    acts = ContextView(database, room.contexts, model, visible, TokenCounter().count, "en", not_taken_up)
    api = LocalApi(StandInCore(), database, dict, path=folder / "run/api.sock", language="en", acts=Acts(context=acts))
    service = asyncio.create_task(api.run())
    await api.serving.wait()
    try:
        yield
    finally:
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)


@pytest.mark.req("A3", "O2")
async def test_it_shows_what_the_model_is_sent_by_tier_and_tokens(room: PlanningRoom, run: Run, tmp_path: Path) -> None:
    session = await room.session()
    newest = (await room.bench.one("SELECT id FROM turn ORDER BY seq DESC LIMIT 1"))["id"]
    async with serving(room, tmp_path, room.model):
        code, out, _ = await run("context", session, "--json")
        assert code == exit_codes.OK
        shown = json.loads(out)
        assert shown["snapshot_utc"] is None and await room.bench.rows("SELECT * FROM session_snapshot") == []  # it only looks
        await room.planner.plan(await room.asked("set its fan speed to 80", session=session, turn=newest))
        (request,) = room.model.requests
        assert "\n".join(tier["text"] for tier in shown["tiers"]) == "\n".join(each.content for each in request.messages)
        assert [tier["tier"] for tier in shown["tiers"]] == ["stable", "context", "volatile"]
        for tier in shown["tiers"]:
            assert tier["tokens"] == room.model.count_tokens(tier["text"])
        assert shown["model"] == "test/scripted" and not shown["is_estimated"] and "write_tag" in shown["tools"]
        code, out, _ = await run("context", session)
        assert code == exit_codes.OK and "--- stable: " in out and "frozen 2026-" in out and "It is warm." in out


@pytest.mark.req("A1", "A3")
async def test_without_a_model_it_says_so_and_estimates(room: PlanningRoom, run: Run, tmp_path: Path) -> None:
    async with serving(room, tmp_path, None):
        code, out, _ = await run("context", await room.session())
        assert code == exit_codes.OK
        assert "no model is configured; this is an estimate for a small one" in out and "window: 4096 tokens" in out
        assert "; answer at most 682 (a sixth of the window" in out


@pytest.mark.req("L5")
async def test_it_lists_running_sessions_that_hold_what_has_changed(room: PlanningRoom, run: Run, tmp_path: Path) -> None:
    session = await room.session()
    async with serving(room, tmp_path, room.model):
        await room.planner.plan(await room.asked("hello", session=session))
        code, out, _ = await run("context", "--stale")
        assert code == exit_codes.OK and "every running session holds what is in use now" in out
        note = await remember(room, "Motor 3 hums on Mondays.", verified=True, facts={"pinned": True})
        code, out, _ = await run("context", "--stale")
        assert code == exit_codes.PROBLEM and f"{session} (console:anna)" in out and f"memory {note}: new" in out
        code, out, _ = await run("context", "--stale", "--json")
        assert [each["session"] for each in json.loads(out)["running"]] == [session]


@pytest.mark.req("A3")
async def test_mistakes_are_named(room: PlanningRoom, run: Run, tmp_path: Path) -> None:
    async with serving(room, tmp_path, room.model):
        code, _, err = await run("context", "se_none")
        assert code == exit_codes.PROBLEM and "there is no session se_none" in err and "sessions list" in err
        for arguments in ([], ["se_none", "--stale"]):
            code, _, err = await run("context", *arguments)
            assert code == exit_codes.USAGE and "give a session or --stale" in err
