"""The procedure repository, on the real git command."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.memory import Tier
from appliance.memory import git_command
from appliance.memory.procedural import ProcedureRepository
from appliance.memory.shipped import blob_id, decide_import
from tests.support.clock import ManualClock
from tests.support.memory import NOW, SCOPE, open_memory

SHIPPED = {
    "over-temperature/SKILL.md": "# Motor over temperature\nCheck the fan, then reset the motor below 60 degC.\n",
    "over-temperature/steps.yaml": "steps: []\n",
    "low-pressure/SKILL.md": "# Low pressure\n清洗滤网，检查水泵。\n",
}
REPORT = "reports/2026/motor_3.md"


def ship(folder: Path, files: dict[str, str]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, "utf-8")
    return folder


@asynccontextmanager
async def opened(tmp_path: Path, clock: ManualClock | None = None) -> AsyncIterator[ProcedureRepository]:
    repository = ProcedureRepository(tmp_path / "procedures", clock or ManualClock(NOW))
    await repository.open(tmp_path / "seed")
    try:
        yield repository
    finally:
        await repository.close()


@pytest.fixture(autouse=True)
def seed(tmp_path: Path) -> Path:
    return ship(tmp_path / "seed", SHIPPED)


def git(tmp_path: Path, *arguments: str) -> str:
    """Git as a technician runs it in the folder."""
    return subprocess.run(
        ("git", "-C", str(tmp_path / "procedures"), "-c", "user.name=T", "-c", "user.email=t@t", *arguments),
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


@pytest.mark.req("M4")
async def test_the_first_open_takes_over_the_shipped_playbooks(tmp_path: Path) -> None:
    async with opened(tmp_path) as repository:
        head = await repository.head()
        (first,) = await repository.log()
        assert first.id == head and len(head) == 40
        assert first.at_utc == NOW
        assert (repository.worktree / "playbooks/over-temperature/steps.yaml").read_text() == "steps: []\n"
        assert await repository.read("playbooks/low-pressure/SKILL.md") == SHIPPED["low-pressure/SKILL.md"]
    async with opened(tmp_path) as repository:
        assert await repository.head() == head
    assert git(tmp_path, "log", "--format=%an <%ae>").strip() == "Floorhand <floorhand@localhost>"
    assert git(tmp_path, "status", "--short") == ""


@pytest.mark.req("M4")
async def test_a_report_is_one_commit_however_often_it_is_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as repository:
        first = await repository.commit_file(REPORT, "fan capacitor dead\n", "Report motor_3")
        assert await repository.commit_file(REPORT, "fan capacitor dead\n", "Report motor_3") == first
        assert await repository.find_commit(REPORT, "fan capacitor dead\n") == first
        assert await repository.find_commit(REPORT, "something else") is None
        assert await repository.find_commit("reports/none.md", "fan capacitor dead\n") is None
        second = await repository.commit_file(REPORT, "fan replaced\n", "Report motor_3, closed")
        third = await repository.commit_file(REPORT, "fan capacitor dead\n", "Back again")
        assert len({first, second, third}) == 3
        assert await repository.find_commit(REPORT, "fan capacitor dead\n") == third
        assert await repository.find_commit(REPORT, "fan replaced\n") == second
        assert await repository.read(REPORT, second) == "fan replaced\n"
        assert [e.subject for e in await repository.log(grep="report MOTOR_3")] == ["Report motor_3, closed", "Report motor_3"]
    assert git(tmp_path, "fsck", "--full", "--strict") == ""


async def test_commits_at_the_same_time_are_made_one_after_the_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as repository:
        made = await asyncio.gather(*(repository.commit_file(f"reports/{n}.md", f"{n}", f"Report {n}") for n in range(8)))
        assert len(set(made)) == 8
        assert len(await repository.log()) == 9


@pytest.mark.parametrize(
    "path",
    [
        "../out.md",
        "/etc/passwd",
        "a/../../out",
        "",
        ".",
        ".git/config",
        "a/.GIT/hooks/x",
        "a\x00b",
        "a\nb",
        "a\\b",
        "link/x",
        "reports/.git./x",
    ],
)
async def test_a_path_that_leaves_is_refused(tmp_path: Path, path: str) -> None:
    async with opened(tmp_path) as repository:
        (repository.worktree / "link").symlink_to(tmp_path)
        with pytest.raises(Refused, match="does not name a file"):
            await repository.commit_file(path, "x", "m")
        with pytest.raises(Refused):
            await repository.find_commit(path, "x")
        with pytest.raises(Refused):
            await repository.read(path)
    assert not (tmp_path / "out.md").exists()


@pytest.mark.parametrize("name", ["reports/-rf.md", "reports/:(top)x.md", "reports/a b*?.md", "reports/报告.md", "-"])
async def test_names_are_names_and_nothing_else(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as repository:
        commit = await repository.commit_file(name, "x", "--amend")
        assert await repository.find_commit(name, "x") == commit
        (entry, *_) = await repository.log()
        assert (entry.subject, entry.paths) == ("--amend", (name,))


async def test_a_commit_that_is_not_one_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as repository:
        for commit in ("--output=x", "HEAD~1", "", "main"):
            with pytest.raises(Refused):
                await repository.read(REPORT, commit)


class TestShippedPlaybooksThatChange:
    PLAYBOOK = "over-temperature/SKILL.md"

    async def test_an_unedited_one_follows(self, tmp_path: Path) -> None:
        async with opened(tmp_path):
            pass
        ship(tmp_path / "seed", {self.PLAYBOOK: "# New\n", "jam/SKILL.md": "# Jam\n"})
        (tmp_path / "seed/low-pressure/SKILL.md").unlink()
        async with opened(tmp_path) as repository:
            assert await repository.read(f"playbooks/{self.PLAYBOOK}") == "# New\n"
            assert await repository.read("playbooks/jam/SKILL.md") == "# Jam\n"
            assert not (repository.worktree / "playbooks/low-pressure/SKILL.md").exists()
            assert len(await repository.log()) == 2

    @pytest.mark.parametrize("committed", [True, False], ids=["committed", "in the folder"])
    async def test_an_edited_one_stays_and_the_new_one_lies_beside(self, tmp_path: Path, committed: bool) -> None:
        async with opened(tmp_path) as repository:
            (repository.worktree / "playbooks" / self.PLAYBOOK).write_text("# Ours\n")
        if committed:
            git(tmp_path, "commit", "--quiet", "--all", "--message", "our way")
        ship(tmp_path / "seed", {self.PLAYBOOK: "# New\n"})
        async with opened(tmp_path) as repository:
            assert await repository.read(f"playbooks/{self.PLAYBOOK}") == "# Ours\n"
            assert await repository.read(f"shipped/{self.PLAYBOOK}") == "# New\n"
            subjects = [e.subject for e in await repository.log()]
            assert subjects[1] == ("our way" if committed else "Edits found in the folder at start")
        async with opened(tmp_path) as repository:
            assert [e.subject for e in await repository.log()] == subjects
        assert "kept as edited here: over-temperature/SKILL.md" in git(tmp_path, "log", "-1", "--format=%B")

    @pytest.mark.parametrize(
        ("new", "base", "mine", "expected"),
        [
            ("b", "a", "a", "write"), (None, "a", "a", "remove"), ("b", None, None, "write"), ("b", "a", "c", "kept"),
            ("b", "a", None, "kept"), (None, "a", "c", "kept"), ("b", None, "c", "kept"), ("b", "a", "b", ""),
            ("a", "a", "c", ""),
        ],
    )  # fmt: skip
    def test_every_case_of_the_rule(self, new: str | None, base: str | None, mine: str | None, expected: str) -> None:
        new_, base_, mine_ = ({} if v is None else {"p": v} for v in (new, base, mine))
        what = decide_import(new_, base_, mine_)
        assert [name for name in ("write", "remove", "kept") if getattr(what, name)] == ([expected] if expected else [])

    def test_blob_ids_are_those_of_git(self) -> None:
        assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


async def test_an_edit_in_the_folder_is_committed_before_it_is_replaced(tmp_path: Path) -> None:
    async with opened(tmp_path) as repository:
        await repository.commit_file(REPORT, "one\n", "Report")
        (repository.worktree / REPORT).write_text("by hand\n")
        await repository.commit_file(REPORT, "two\n", "Report again")
        assert await repository.find_commit(REPORT, "by hand\n") is not None
        assert await repository.read(REPORT) == "two\n"


class TestTheMachinesOwnConfiguration:
    async def test_hooks_and_settings_of_the_user_are_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = ship(
            tmp_path / "home", {".gitconfig": "[user]\nname=Somebody\n[commit]\ngpgSign=true\n[core]\nhooksPath=/hooks\n"}
        )
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
        monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere"))
        async with opened(tmp_path) as repository:
            hook = repository.worktree / ".git/hooks/pre-commit"
            ship(hook.parent, {hook.name: f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n"})
            hook.chmod(0o755)
            await repository.commit_file(REPORT, "x", "m")
        assert not (tmp_path / "ran").exists() and not (tmp_path / "elsewhere").exists()
        assert set(git(tmp_path, "log", "--format=%an").split()) == {"Floorhand"}

    async def test_no_git_is_named_with_its_cure(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(Unavailable, match="apt install git"):
            await ProcedureRepository(tmp_path / "procedures", ManualClock()).open(tmp_path / "seed")

    async def test_a_git_that_hangs_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async with opened(tmp_path) as repository:
            fake = tmp_path / "git"
            fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
            fake.chmod(0o755)
            monkeypatch.setattr(repository._git, "_git", str(fake))
            monkeypatch.setattr(git_command, "_BOUND_S", 0.5)
            with pytest.raises(Unavailable, match="took longer"):
                await repository.head()
            with pytest.raises(ProcessLookupError):
                os.kill(int((tmp_path / "pid").read_text()), 0)

    async def test_a_second_owner_is_turned_away(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(git_command, "_BOUND_S", 0.1)
        async with opened(tmp_path):
            with pytest.raises(Unavailable, match="another program holds"):
                await ProcedureRepository(tmp_path / "procedures", ManualClock()).open(tmp_path / "seed")


class TestAfterAPowerCut:
    async def _given_reports(self, tmp_path: Path) -> list[str]:
        repository = ProcedureRepository(tmp_path / "procedures", ManualClock(NOW))
        await repository.open(tmp_path / "seed")
        made = [await repository.commit_file(f"reports/{n}.md", f"report {n}\n", f"Report {n}") for n in range(4)]
        repository._git.close()  # no clean close: the mark stays
        return made

    async def test_a_dead_gits_lock_is_removed(self, tmp_path: Path) -> None:
        made = await self._given_reports(tmp_path)
        (tmp_path / "procedures/.git/index.lock").write_bytes(b"half an index")
        async with opened(tmp_path) as repository:
            assert await repository.head() == made[-1]
            await repository.commit_file(REPORT, "x", "m")

    @pytest.mark.parametrize("torn", [b"", b"\x78\x01torn"], ids=["empty", "torn"])
    async def test_torn_objects_are_set_aside_and_the_files_committed_again(self, tmp_path: Path, torn: bytes) -> None:
        made = await self._given_reports(tmp_path)
        folder = tmp_path / "procedures/.git"
        for name in (made[-1], blob_id(b"report 3\n")):
            path = folder / "objects" / name[:2] / name[2:]
            path.chmod(0o644)
            path.write_bytes(torn)
        async with opened(tmp_path) as repository:
            subjects = [e.subject for e in await repository.log()]
            assert subjects[:2] == ["Found in the folder after a repair", "Report 2"]
            assert await repository.read("reports/3.md") == "report 3\n"
            found = await repository.commit_file("reports/3.md", "report 3\n", "Report 3")
            assert found == await repository.head()
        assert git(tmp_path, "fsck", "--full") == ""
        assert {p.name for p in (folder / "floorhand-damaged").iterdir()} >= {made[-1], blob_id(b"report 3\n")}

    @pytest.mark.parametrize("broken", ["refs/heads/main", "HEAD", "index"])
    async def test_an_empty_reference_or_index_is_found_again(self, tmp_path: Path, broken: str) -> None:
        made = await self._given_reports(tmp_path)
        (tmp_path / "procedures/.git" / broken).write_bytes(b"")
        async with opened(tmp_path) as repository:
            assert await repository.head() == made[-1]
            assert await repository.commit_file("reports/3.md", "report 3\n", "Report 3") == made[-1]
        assert git(tmp_path, "status", "--short") == ""

    async def test_when_no_commit_is_whole_the_files_are_still_there(self, tmp_path: Path) -> None:
        await self._given_reports(tmp_path)
        for path in (tmp_path / "procedures/.git/objects").glob("[0-9a-f][0-9a-f]/*"):
            path.chmod(0o644)
            path.write_bytes(b"")
        async with opened(tmp_path) as repository:
            assert [e.subject for e in await repository.log()] == ["Found in the folder after a repair"]
            assert await repository.read("reports/0.md") == "report 0\n"
        assert git(tmp_path, "fsck", "--full") == ""


class TestHowDoI:
    @pytest.mark.req("M4", "M6")
    @pytest.mark.parametrize(
        ("question", "path"),
        [
            ("how do I reset the motor after over temperature", "playbooks/over-temperature/SKILL.md"),
            ("怎么清洗滤网", "playbooks/low-pressure/SKILL.md"),
        ],
    )
    async def test_is_answered_from_playbooks(self, tmp_path: Path, question: str, path: str) -> None:
        async with opened(tmp_path) as repository, open_memory(tmp_path, None, procedures=repository) as (memory, _):
            await repository.commit_file(REPORT, "the motor was reset\n", "Report motor_3")
            answer = await memory.recall(question, scope=SCOPE, asset="", fault="", now=NOW, budget_ms=20_000)
            head = await repository.head()
        assert answer.route is Tier.PROCEDURAL and not answer.degraded
        assert answer.found[0].id == path
        assert answer.found[0].cite.startswith(f"{path}@") and len(answer.found[0].cite.split("@")[1]) == 12
        assert answer.found[0].verified and head
        assert all(not f.id.startswith("shipped/") for f in answer.found)

    @pytest.mark.req("M4")
    async def test_reports_are_found_by_their_commit_message(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as repository:
            commit = await repository.commit_file(REPORT, "capacitor dead\n", "Incident gearbox squeal")
            (hit, *_) = await repository.search(["gearbox", "squeal"], 5)
            assert (hit.path, hit.commit, hit.share, hit.is_approved) == (REPORT, commit, 1.0, False)
            assert await repository.search(["nothing like it"], 5) == []
            assert await repository.search([], 5) == []

    async def test_with_no_procedure_the_answer_says_what_it_is_instead(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as repository, open_memory(tmp_path, None, procedures=repository) as (memory, _):
            answer = await memory.recall("how do I dance the polka", scope=SCOPE, asset="", fault="", now=NOW, budget_ms=20_000)
        assert answer.found == ()
        assert answer.degraded.startswith("no procedures found; no sentence encoder is loaded")
