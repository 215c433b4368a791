"""The core dies at each of its commits, before and after it, once and twice; afterwards nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.operation import OperationLane
from appliance.store import operations
from tests.crash.ledger_script import ALARM

MIGRATIONS = len(list((Path(operations.__file__).parent / "migrations").glob("*.sql")))
"""Commits of a new database before anything else; each is one."""

Kill = tuple[int, str]


class Lives:
    """Runs of the small core, each in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._root, self._count = process, folder, 0

    def fresh(self) -> Path:
        """A folder for one history."""
        self._count += 1
        folder = self._root / f"{self._count:04}"
        folder.mkdir()
        return folder

    def live(self, folder: Path, kill: Kill | None) -> int | None:
        """Run once; return the commits it took, or None if it died as ordered (or ended before that commit came)."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"folder": str(folder), "kill": kill}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["status"] in (0, signal.SIGKILL), answer
        assert kill is not None or answer["status"] == 0
        return None if answer["commits"] is None else int(answer["commits"])


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    # SIGKILL loses nothing that was written, so a RAM disk tests the same and is fifty times faster.
    ram = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="floorhand-crash-", dir=ram if ram.is_dir() and os.access(ram, os.W_OK) else None))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.ledger_script"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Lives(process, folder)
        assert process.stdin is not None
        process.stdin.close()
    shutil.rmtree(folder)


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def column(db: sqlite3.Connection, sql: str, *parameters: Any) -> list[Any]:
    return [row[0] for row in db.execute(sql, parameters)]


def check_whole(folder: Path) -> None:
    """What must hold at every moment, also right after a kill."""
    with closing(sqlite3.connect(f"{(folder / 'ledger.db').as_uri()}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        assert column(db, "PRAGMA integrity_check") == ["ok"]
        assert column(db, "PRAGMA foreign_key_check") == []
        if not column(db, "SELECT 1 FROM sqlite_schema WHERE name = 'operation'"):
            return
        for lane in OperationLane:
            operations.verify_chain(db, lane)
        admitted = column(db, "SELECT dedupe_key FROM admission")
        assert set(lines(folder / "acknowledged.txt")) <= set(admitted)
        assert len(admitted) == len(set(admitted))
        world = lines(folder / "world.txt")
        assert len(world) == len(set(world))  # no effect twice
        assert set(world) <= set(column(db, "SELECT action_id FROM effect"))  # none without its intent
        assert not set(world) & set(column(db, "SELECT action_id FROM effect WHERE status = 'none'"))
        assert set(column(db, "SELECT action_id FROM effect WHERE status = 'applied'")) <= set(world)
        started = db.execute(
            "SELECT count(*) AS open, count(DISTINCT turn.lane) AS lanes, count(turn.id) AS turns"
            " FROM admission LEFT JOIN turn ON turn.id = admission.turn_id WHERE admission.status = 'started'"
        ).fetchone()
        assert started["open"] == started["lanes"] == started["turns"]
        order = ["admission.queued", "admission.started", "admission.unknown", "admission.terminal"]
        for admission in column(db, "SELECT id FROM admission"):
            kinds = column(
                db,
                "SELECT kind FROM operation WHERE lane = 'P1' AND entity = ? AND kind LIKE 'admission.%' ORDER BY seq",
                admission,
            )
            assert kinds == sorted(set(kinds), key=order.index)


def check_ended(folder: Path, deaths: int) -> None:
    """What must hold once a life ended by itself."""
    check_whole(folder)
    with closing(sqlite3.connect(f"{(folder / 'ledger.db').as_uri()}?mode=ro", uri=True)) as db:
        assert set(column(db, "SELECT status FROM admission")) == {"terminal"}
        assert column(db, "SELECT count(*) FROM admission WHERE dedupe_key = ?", ALARM) == [1]
        assert column(db, "SELECT state FROM turn") == ["idle"]  # one turn, and it came to its end
        assert column(db, "SELECT status FROM confirmation") == ["yes"]
        states = dict(db.execute("SELECT step_id, state FROM action").fetchall())
        assert set(states) == {"cool", "confirm", "stop", "tell"}
        assert states["confirm"] == states["tell"] == "done"
        world = set(lines(folder / "world.txt"))
        for action, status, was_unknown, settled_by in db.execute(
            "SELECT action_id, status, was_unknown, settled_by FROM effect"
        ):
            assert status == ("applied" if action in world else "none")
            assert settled_by == ("verify" if was_unknown else "reply")
            assert deaths or not was_unknown
        interrupted = column(db, "SELECT id FROM admission WHERE outcome = 'interrupted'")
        assert sorted(column(db, "SELECT resumes FROM admission WHERE resumes IS NOT NULL")) == sorted(interrupted)
        assert len(interrupted) <= deaths


@pytest.fixture(scope="module")
def commits(lives: Lives) -> int:
    folder = lives.fresh()
    counted = lives.live(folder, None)
    check_ended(folder, 0)
    assert counted is not None and counted > 15
    return counted


@pytest.mark.req("R1", "R2", "R4", "R6", "S3", "T6", "T7", "Y1")
@pytest.mark.field("FC-R03", "FC-R12", "FC-R13")
@pytest.mark.parametrize("when", ["before", "after"])
def test_one_death_at_each_commit(lives: Lives, commits: int, when: str) -> None:
    unknown = 0
    for commit in range(1, commits + 1):
        folder = lives.fresh()
        assert lives.live(folder, (commit, when)) is None
        if (folder / "ledger.db").exists():
            check_whole(folder)
        lives.live(folder, None)
        check_ended(folder, 1)
        with closing(sqlite3.connect(folder / "ledger.db")) as db:
            unknown += column(db, "SELECT count(*) FROM effect WHERE was_unknown")[0]
    assert unknown == 2  # each of the two writes was in flight at exactly one of the deaths


@pytest.mark.req("R2", "R4")
def test_a_second_death_during_recovery(lives: Lives, commits: int) -> None:
    for commit in range(3, commits + 1):
        for again in (2, 4, 5):  # taking over, the turn resumed, and what it does next
            folder = lives.fresh()
            lives.live(folder, (commit, "after"))
            ended = lives.live(folder, (again, "before" if again % 2 else "after"))
            check_whole(folder)
            if ended is None:
                lives.live(folder, None)
            check_ended(folder, 2)


@pytest.mark.req("R4")
@pytest.mark.field("FC-R03")
def test_a_turn_that_kills_its_process_is_suspended(lives: Lives) -> None:
    """The same commit kills every life: the third restart gives the turn up instead of trying for ever."""
    folder = lives.fresh()
    first = (MIGRATIONS + 5, "after")  # then: origin, taking over, admission, turn, plan
    assert lives.live(folder, first) is None
    for _ in range(2):
        # Then: origin, taking over, the alarm again, the turn resumed, and it dies.
        assert lives.live(folder, (4, "after")) is None
        check_whole(folder)
    lives.live(folder, None)
    check_whole(folder)
    with closing(sqlite3.connect(folder / "ledger.db")) as db:
        assert db.execute("SELECT state, failure FROM turn").fetchall() == [("failed", "interrupted by 3 restarts in a row")]
        assert column(db, "SELECT DISTINCT outcome FROM admission") == ["interrupted"]
        assert column(db, "SELECT count(*) FROM operation WHERE kind = 'audit.turn_suspended'") == [1]
