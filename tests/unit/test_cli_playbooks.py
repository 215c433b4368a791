"""``floorhand playbooks``: what is in use, and edits that come into use for new sessions while the appliance runs."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.cli import exit_codes
from appliance.console.acts import Acts
from appliance.console.api import LocalApi
from appliance.contracts.principal import AccessLevel
from appliance.foundation.supervisor import Degraded
from appliance.memory.procedural import ProcedureRepository
from appliance.planning.model.context_view import ContextView
from appliance.planning.model.frozen import FrozenKnowledge
from appliance.planning.planner import Planner
from appliance.planning.sound_playbooks import load_sound
from appliance.playbook_desk import PlaybookDesk
from appliance.settings_rules import shipped_tool_levels
from drivers.models.tokens import TokenCounter
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore
from tests.support.planning import CONFIG, phrasebook_for, shipped_plant
from tests.support.scripted_model import PlanningRoom, open_planning, plan_of, step

SAY = plan_of(step("a", "say", text="I do not know."))


@dataclass
class Office:
    """The local API over a real repository, a planner that was built before any edit, and a session's model context."""

    room: PlanningRoom
    folder: Path
    planner: Planner
    degraded: Degraded
    taught: list[int] = field(default_factory=list)

    def edit(self, name: str, before: str, after: str, file: str = "SKILL.md") -> None:
        path = self.folder / name / file
        text = path.read_text("utf-8")
        assert before in text
        path.write_text(text.replace(before, after), "utf-8")

    def understands(self, sentence: str) -> bool:
        return self.planner.phrasebook.understand(sentence, "en") is not None


@asynccontextmanager
async def opened(tmp_path: Path, broken: str = "") -> AsyncIterator[Office]:
    """``broken``: a playbook whose SKILL.md was spoilt before the start."""
    async with open_planning(tmp_path, [SAY]) as room:
        bench, plant, degraded = room.bench, shipped_plant(), Degraded()
        procedures = ProcedureRepository(tmp_path / "procedures", bench.clock)
        await procedures.open(CONFIG / "playbooks")
        folder = procedures.worktree / "playbooks"
        if broken:
            (folder / broken / "SKILL.md").write_text("nothing", "utf-8")
        files, _ = await procedures.playbook_files()
        sound = load_sound(folder, await procedures.head(), CONFIG / "playbooks", phrasebook_for(plant), shipped_tool_levels())
        for name, fault in sound.unsound.items():
            degraded.mark(f"playbook:{name}", fault.message)
        room.contexts._knowledge = FrozenKnowledge(bench.database, bench.clock, sound.playbooks, plant.site)
        office = Office(room, folder, Planner(sound.phrasebook, sound.playbooks, plant), degraded)

        async def taught() -> None:
            office.taught.append(len(office.planner.playbooks.names))

        desk = PlaybookDesk(
            procedures, sound.playbooks, sound.phrasebook, files,
            plant=plant, levels=shipped_tool_levels(), degraded=degraded, taught=taught,
        )  # fmt: skip
        context = ContextView(
            bench.database, room.contexts, room.model, lambda who: room.visible(who.level), TokenCounter().count, "en",
            desk.not_taken_up,
        )  # fmt: skip
        acts = Acts(context=context, playbooks=desk)
        api = LocalApi(StandInCore(), bench.database, dict, path=tmp_path / "run/api.sock", language="en", acts=acts)
        service = asyncio.create_task(api.run())
        await api.serving.wait()
        try:
            yield office
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)
            await procedures.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.mark.req("L5", "O2")
async def test_playbooks_are_listed_and_shown(tmp_path: Path, run: Run) -> None:
    async with opened(tmp_path):
        code, out, _ = await run("playbooks", "list")
        assert code == exit_codes.OK and "over_temperature" in out and "motor check" in out and "as shipped" in out
        code, out, _ = await run("playbooks", "list", "--json")
        rows = {row["name"]: row for row in json.loads(out)}
        assert rows["check-motor"]["access"] == "operator" and rows["check-motor"]["why"] == ""
        code, out, _ = await run("playbooks", "show", "check-motor")
        assert code == exit_codes.OK and "read_tags" in out and "# Check of a motor" in out
        assert str(tmp_path / "procedures" / "playbooks" / "check-motor") in out
        code, _, err = await run("playbooks", "show", "check-moter")
        assert code == exit_codes.PROBLEM and "there is no playbook check-moter" in err and "playbooks list" in err


@pytest.mark.req("L5")
async def test_an_edit_reaches_new_sessions_without_a_restart_and_running_ones_are_named(tmp_path: Path, run: Run) -> None:
    async with opened(tmp_path) as office:
        room = office.room
        first = await room.session("console:anna")
        await room.planner.plan(await room.asked("hello", session=first))
        before = office.planner.playbooks.commit
        office.edit("check-motor", "Look a motor over and say what stands out", "Look and listen")
        office.edit("check-motor", "is everything (okay|all right) with [the] {asset}", "<please> sniff at [the] {asset}")
        shutil.copytree(office.folder / "check-motor", office.folder / "sniff-motor")
        office.edit("sniff-motor", "name: check-motor", "name: sniff-motor")
        office.edit("sniff-motor", "en: [motor check], zh: [电机检查]", "en: [nose]")
        text = (office.folder / "sniff-motor" / "SKILL.md").read_text("utf-8")
        phrases = text[text.index("  phrases:") : text.index("access:")]
        office.edit("sniff-motor", phrases, "")

        code, out, _ = await run("playbooks", "list")
        assert code == exit_codes.PROBLEM and "edited and not taken up" in out and "made and not taken up" in out
        code, out, _ = await run("context", "--stale")
        assert code == exit_codes.PROBLEM and "every running session holds what is in use" in out
        assert "edited and not in use, for no session: check-motor, sniff-motor. `floorhand playbooks reload`" in out
        assert not office.understands("please sniff at motor three")

        code, out, _ = await run("playbooks", "reload")
        assert code == exit_codes.OK and "check-motor: changed" in out and "sniff-motor: new" in out
        assert office.planner.playbooks.commit not in ("", before)
        assert office.understands("please sniff at motor three") and not office.understands("is everything okay with motor three")
        assert office.taught == [6]
        assert office.planner.procedures.find("sniff-motor", "en", AccessLevel.OPERATOR).title == "nose"
        await room.planner.plan(await room.asked("hello again", session=first))
        second = await room.session("console:bert")
        await room.planner.plan(await room.asked("hello", session=second))
        held, same, new = (request.messages[0].content for request in room.model.requests)
        assert same == held and "Look a motor over" in held and "Look and listen" in new
        code, out, _ = await run("context", "--stale")
        assert code == exit_codes.PROBLEM and first in out and second not in out and "not in use" not in out
        assert "playbook check-motor: changed" in out and "playbook sniff-motor: new" in out
        code, out, _ = await run("playbooks", "reload")
        assert code == exit_codes.OK and "nothing was edited" in out


@pytest.mark.req("L5")
async def test_a_faulty_edit_changes_nothing_and_every_fault_is_named(tmp_path: Path, run: Run) -> None:
    async with opened(tmp_path) as office:
        before = office.planner.playbooks.commit
        office.edit("check-motor", "Look a motor over and say what stands out", "Look and listen")
        office.edit("over-temperature", "access:", "acces:")
        shutil.rmtree(office.folder / "low-pressure")
        office.edit("check-motor", "access:", "acces:")
        code, _, err = await run("playbooks", "reload")
        assert code == exit_codes.PROBLEM and "over-temperature/SKILL.md: acces" in err and "check-motor/SKILL.md: acces" in err
        assert "steps" not in err, "what cannot be read tells nothing of the steps"
        office.edit("check-motor", "acces:", "access:")
        office.edit("over-temperature", "acces:", "access:")
        code, _, err = await run("playbooks", "reload")
        assert code == exit_codes.PROBLEM and "needs the playbook 'low-pressure'" in err
        assert office.planner.playbooks.commit == before and not office.taught
        assert office.planner.playbooks["check-motor"].description == "Look a motor over and say what stands out"
        code, out, _ = await run("playbooks", "list", "--json")
        whys = {row["name"]: row["why"] for row in json.loads(out)}
        assert whys["low-pressure"].startswith("deleted") and whys["check-motor"].startswith("edited")
        assert not whys["over-temperature"]


@pytest.mark.req("L5")
async def test_what_a_start_had_to_leave_out_is_taken_up_once_it_is_mended(tmp_path: Path, run: Run) -> None:
    async with opened(tmp_path, broken="check-motor") as office:
        code, out, _ = await run("playbooks", "list", "--json")
        row = next(row for row in json.loads(out) if row["name"] == "check-motor")
        assert code == exit_codes.PROBLEM and row["source"] == "configuration" and "has no front matter" in row["why"]
        shutil.copy(CONFIG / "playbooks" / "check-motor" / "SKILL.md", office.folder / "check-motor" / "SKILL.md")
        code, out, _ = await run("playbooks", "reload")
        assert code == exit_codes.OK and "check-motor: changed" in out and not office.degraded.reasons
        assert Path(office.planner.playbooks["check-motor"].path).is_relative_to(office.folder)
