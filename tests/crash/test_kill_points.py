"""The core dies at every commit and every effect of the reference story, once and twice; afterwards nothing is lost or doubled.

The long run is ``python -m crash``; here is the short one. Everything between the doors and the outside world is real.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crash.kill_points import HISTORY_ROWS, READY_WITHIN_S, campaign
from crash.life import LEDGER, Order
from crash.lives import Lives, open_lives
from crash.tally import Tally
from crash.world import ACKNOWLEDGED, MACHINE, REPORTS


def silent(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def tally() -> Tally:
    return campaign(True, silent)


@pytest.mark.req("R1", "R2", "R4", "R5", "R6", "S3", "T6", "T7", "X7")
@pytest.mark.field("FC-R02", "FC-R03", "FC-R12", "FC-R13", "FC-D03")
def test_nothing_is_lost_and_nothing_is_done_twice(tally: Tally) -> None:
    assert tally.faults == []
    found = tally.to_json()
    assert found["ok"] and (found["lost"], found["doubled"], found["broken"]) == (0, 0, 0)
    assert found["points"] > 150 and found["histories"] > 120


@pytest.mark.req("T7", "R6")
def test_an_effect_cut_off_is_called_unknown_and_settled_as_the_world_shows(tally: Tally) -> None:
    for effect in (MACHINE, REPORTS):
        before, after = tally.outcomes[f"before {effect}"], tally.outcomes[f"after {effect}"]
        assert before.unknown_not_done >= 1 and after.unknown_done >= 1


@pytest.mark.req("R5")
def test_what_may_have_been_heard_is_said_again_with_its_mark(tally: Tally) -> None:
    for channel in ("spoken", "published"):
        assert tally.outcomes[f"after {channel}"].repeated >= 1
        assert tally.outcomes[f"before {channel}"].histories >= 1


@pytest.mark.req("R4", "R8")
def test_a_recovery_is_ready_within_five_seconds_of_a_long_history(tally: Tally) -> None:
    assert tally.history_rows >= HISTORY_ROWS
    assert 0 < tally.history_ready_ms < READY_WITHIN_S * 1e3


@pytest.mark.parametrize(
    ("sabotage", "kind", "says"),
    [
        ("replay", "doubled", "happened more often than it was intended"),
        ("early", "lost", "was acknowledged and is not recorded"),
        ("unmarked", "doubled", "went out again without a mark"),
    ],
)
def test_the_campaign_finds_a_fault(lives: Lives, tmp_path: Path, sabotage: str, kind: str, says: str) -> None:
    """Each at a point where the fault shows."""
    fatal = {"replay": f"after {REPORTS} 1", "early": f"after {ACKNOWLEDGED} 2", "unmarked": "after spoken 1"}[sabotage]
    died = lives.live(Order(str(tmp_path), 0, fatal, sabotage))
    assert died.has_died and died.findings.ok == (sabotage != "early")
    found = (died if sabotage == "early" else lives.live(Order(str(tmp_path), 1, "", sabotage))).findings
    assert any(says in each for each in getattr(found, kind)), found


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with open_lives(1) as opened:
        yield opened


def rows(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / LEDGER)) as db:
        return db.execute(sql).fetchall()


@pytest.mark.req("R4")
@pytest.mark.field("FC-R03")
def test_a_turn_that_kills_its_process_is_suspended(lives: Lives, tmp_path: Path) -> None:
    """The third restart in a row with the same turn active gives it up instead of trying for ever, and says so."""
    for life in range(3):
        died = lives.live(Order(str(tmp_path), life, "after commit *admission.started*"))
        assert died.has_died and died.findings.ok
    last = lives.live(Order(str(tmp_path), 3))
    suspended = rows(tmp_path, "SELECT state, failure FROM turn WHERE intent = 'alarm_raised'")
    assert suspended == [("failed", "interrupted by 3 restarts in a row")]
    assert rows(tmp_path, "SELECT count(*) FROM operation WHERE kind = 'audit.turn_suspended'") == [(1,)]
    assert rows(tmp_path, "SELECT count(*) FROM delivery WHERE text LIKE 'I was interrupted too often%'") == [(1,)]
    assert not last.findings.doubled


@pytest.mark.req("R4")
def test_only_a_clean_end_leaves_a_receipt(lives: Lives, tmp_path: Path) -> None:
    lives.live(Order(str(tmp_path), 0, "after machine 1"))
    lives.live(Order(str(tmp_path), 1))
    assert rows(tmp_path, "SELECT ended_utc IS NOT NULL FROM owner ORDER BY epoch") == [(0,), (1,)]


@pytest.mark.field("FC-D03")
def test_no_id_is_used_twice(lives: Lives, tmp_path: Path) -> None:
    """Neither after a kill nor after rows are gone: the database itself counts on."""
    lives.live(Order(str(tmp_path), 0, "after machine 1"))
    lives.live(Order(str(tmp_path), 1))
    with closing(sqlite3.connect(tmp_path / LEDGER)) as db:
        counted = {row[0] for row in db.execute("SELECT name FROM sqlite_sequence")}
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%    seq INTEGER PRIMARY KEY%'")}
        autoincrement = {
            row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%PRIMARY KEY AUTOINCREMENT%'")
        }
        ids = [row[0] for row in db.execute("SELECT entity FROM operation WHERE kind = 'admission.queued'")]
    assert tables <= autoincrement and {"admission", "effect", "delivery"} <= counted
    assert len(ids) == len(set(ids)) > 10
