"""SIGKILL while something is remembered or committed: all of it is there afterwards, or none."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.memory.procedural import ProcedureRepository
from appliance.memory.shipped import blob_id
from tests.support.clock import ManualClock
from tests.support.memory import NOW, WordEncoder, count, draft, open_memory

ROOT = Path(__file__).parents[2]
_DEADLINE_S = 60.0

_REMEMBER = """
import asyncio, sys
from pathlib import Path
from tests.support.memory import WordEncoder, draft, open_memory

async def main():
    async with open_memory(Path(sys.argv[1]), WordEncoder()) as (memory, _):
        for n in range(10_000):
            await memory.remember(draft(f"event {n} {'x' * (n % 7)} word{n}", facts={"event": n}), key=f"k{n}")
            print(n, flush=True)

asyncio.run(main())
"""

_COMMIT = """
import asyncio, sys
from pathlib import Path
from appliance.memory.procedural import ProcedureRepository
from tests.support.clock import ManualClock
from tests.support.memory import NOW

async def main():
    folder = Path(sys.argv[1])
    repository = ProcedureRepository(folder / "procedures", ManualClock(NOW))
    await repository.open(folder / "seed")
    print("open", flush=True)
    for n in range(10_000):
        await repository.commit_file(f"reports/{n}.md", f"report {n}\\n", f"Report {n}")
        print(n, flush=True)

asyncio.run(main())
"""


def start(script: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-c", script, str(folder)),
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def kill_after(process: subprocess.Popen[str], lines: int, delay_s: float) -> list[str]:
    """Wait for ``lines`` of progress, then ``delay_s``, kill, and return everything it had said."""
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(lines)]
    try:
        process.wait(delay_s)
    except subprocess.TimeoutExpired:
        process.kill()
    rest, _ = process.communicate(timeout=_DEADLINE_S)
    assert process.returncode == -signal.SIGKILL
    return [line for line in (*said, *rest.splitlines()) if line]


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Spin until a path is there, as long as the process lives."""
    while not path.exists():
        assert process.poll() is None


def git(folder: Path, *arguments: str) -> str:
    """Git as a technician runs it."""
    return subprocess.run(("git", "-C", str(folder), *arguments), capture_output=True, text=True, check=True).stdout


def kill_holders(lock: Path) -> None:
    """Kill the gits that still hold a repository's lock, found by the descriptor they inherited."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if any(fd.readlink() == lock for fd in (entry / "fd").iterdir()):
                os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.req("M5")
@pytest.mark.parametrize("seed", range(3))
async def test_no_memory_is_ever_half_there(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    said = kill_after(start(_REMEMBER, tmp_path), chance.randint(1, 20), chance.uniform(0.0, 0.02))
    answered = int(said[-1]) + 1
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        assert (await ledger.fetch("PRAGMA integrity_check"))[0][0] == "ok"
        stored = await count(ledger, "memory")
        assert answered <= stored <= answered + 1
        assert await count(ledger, "memory_vector") == await count(ledger, "operation") == stored
        bodies = await ledger.fetch("SELECT count(*) FROM memory m JOIN memory_text t ON t.rowid = m.seq")
        assert bodies[0][0] == stored
        held = await memory.status()
        assert held["memories"]["episodic"] == stored
        for n in range(stored + 1):  # the same keys again, as a recovered turn would
            await memory.remember(draft(f"event {n} {'x' * (n % 7)} word{n}", facts={"event": n}), key=f"k{n}")
        assert await count(ledger, "memory") == stored + 1
        assert await count(ledger, "memory_rejected") == 0


@pytest.mark.req("M4")
@pytest.mark.parametrize("seed", range(4))
async def test_the_repository_is_whole_after_a_kill_in_mid_commit(tmp_path: Path, seed: int) -> None:
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed/p.md").write_text("# P\n")
    chance = random.Random(seed)
    process = start(_COMMIT, tmp_path)
    # Odd ones die as under systemd: the core and the git it runs. Even ones leave git alive, to end after its owner.
    said = kill_after(process, chance.randint(2, 5), chance.uniform(0.0, 0.06))
    if seed % 2:
        kill_holders(tmp_path / "procedures.lock")
    answered = int(said[-1]) + 1
    repository = ProcedureRepository(tmp_path / "procedures", ManualClock(NOW))
    await repository.open(tmp_path / "seed")
    try:
        for n in range(answered + 1):
            commit = await repository.commit_file(f"reports/{n}.md", f"report {n}\n", f"Report {n}")
            assert await repository.find_commit(f"reports/{n}.md", f"report {n}\n") == commit
        subjects = [e.subject for e in await repository.log(limit=100)]
        assert sorted(s for s in subjects if s.startswith("Report")) == sorted(f"Report {n}" for n in range(answered + 1))
        assert len(subjects) == answered + 2
    finally:
        await repository.close()
    assert git(tmp_path / "procedures", "fsck", "--full", "--strict", "--no-dangling") == ""
    assert git(tmp_path / "procedures", "status", "--short") == ""


@pytest.mark.req("M4")
@pytest.mark.parametrize("seed", range(2))
async def test_a_kill_while_the_repository_is_made(tmp_path: Path, seed: int) -> None:
    for n in range(12):
        (tmp_path / f"seed/p{n}").mkdir(parents=True)
        (tmp_path / f"seed/p{n}/SKILL.md").write_text(f"# P{n}\n")
    chance = random.Random(seed)
    process = start(_COMMIT, tmp_path)
    wait_for(tmp_path / "procedures", process)
    kill_after(process, 0, chance.uniform(0.0, 0.12))
    if seed % 2:
        kill_holders(tmp_path / "procedures.lock")
    repository = ProcedureRepository(tmp_path / "procedures", ManualClock(NOW))
    await repository.open(tmp_path / "seed")
    try:
        subjects = [e.subject for e in await repository.log()]
        assert len([s for s in subjects if s.startswith("Take over")]) == 1
    finally:
        await repository.close()
    for folder in ("playbooks", "shipped"):
        held = git(tmp_path / "procedures", "ls-tree", "-r", "--format=%(objectname) %(path)", "HEAD", folder).splitlines()
        blobs = [blob_id(b"# P%d\n" % n) for n in range(12)]
        assert set(held) == {f"{blob} {folder}/p{n}/SKILL.md" for n, blob in enumerate(blobs)}
    assert git(tmp_path / "procedures", "fsck", "--full", "--strict", "--no-dangling") == ""
    assert git(tmp_path / "procedures", "status", "--short") == ""


@pytest.mark.req("M4")
@pytest.mark.parametrize("left", ["index.lock", "HEAD.lock", "refs/heads/main.lock", "file not added", "added, not committed"])
async def test_every_step_of_a_commit_can_be_the_last(tmp_path: Path, left: str) -> None:
    """What a kill leaves at each step, made by hand, since a random kill seldom meets the short ones."""
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed/p.md").write_text("# P\n")
    folder = tmp_path / "procedures"
    repository = ProcedureRepository(folder, ManualClock(NOW))
    await repository.open(tmp_path / "seed")
    repository._git.close()
    if left.endswith(".lock"):
        (folder / ".git" / left).write_bytes(b"")
    else:
        (folder / "reports").mkdir()
        (folder / "reports/1.md").write_text("report 1\n")
        if left.startswith("added"):
            git(folder, "add", "reports/1.md")
    repository = ProcedureRepository(folder, ManualClock(NOW))
    await repository.open(tmp_path / "seed")
    try:
        commit = await repository.commit_file("reports/1.md", "report 1\n", "Report 1")
        assert await repository.commit_file("reports/1.md", "report 1\n", "Report 1") == commit
        touching = [e for e in await repository.log() if "reports/1.md" in e.paths]
        assert [(e.id, e.subject) for e in touching] == [(commit, "Report 1")]
    finally:
        await repository.close()
