"""A damaged ledger: set aside, salvaged, and every loss counted. Damage is real, at random places of real files."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused, StorageFullError
from appliance.contracts.operation import OperationLane
from appliance.foundation.system_clock import SystemClock
from appliance.store import damage, holds, operations, salvage, stand_ins
from appliance.store.columns import to_json
from appliance.store.migrate import migrate
from appliance.store.page_file import read_log
from tests.support.ledger import ORIGIN, open_bench
from tests.support.old_ledger import (
    Rows,
    crashed_copy,
    page_count,
    pages_of,
    root_of,
    rows_of,
    spoil,
    write_history,
)
from tests.support.small_disk import small_disk

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(write_history(tmp_path_factory.mktemp("history")))


@pytest.fixture(scope="module")
def truth(history: Path) -> Rows:
    return rows_of(history)


@pytest.fixture
def ledger(history: Path, tmp_path: Path) -> Path:
    shutil.copyfile(history, tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


def mended(ledger: Path) -> dict[str, Any]:
    """Put it in order, check what must hold of every salvaged ledger, and return the account."""
    damage.suspect(ledger, "a test said so")
    salvage.mend(ledger, CLOCK, ORIGIN)
    with closing(sqlite3.connect(ledger)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        (newest,) = db.execute("SELECT account FROM salvage ORDER BY seq DESC").fetchone()
        audits = db.execute("SELECT payload FROM operation WHERE kind = 'audit.ledger_salvaged'").fetchall()
    account = to_json(newest)
    told = to_json(audits[-1][0])
    assert {name: told[name] for name in account} == account
    assert sorted(p.name for p in ledger.parent.iterdir() if ".salvag" in p.name or ".suspect" in p.name) == []
    return account


def check_account(ledger: Path, truth: Rows, account: dict[str, Any]) -> int:
    """Hold what is there against what there was: nothing invented, and as much of each table lost as was said. Return it."""
    now, lost = rows_of(ledger), 0
    for name, before in truth.items():
        after = now[name]
        if name == "hold":
            after = {row for row in after if row[2] != holds.ITSELF}  # its own, because of the loss
        if name in ("operation", "operation_head", "operation_lost", "alarm_feed", "appliance"):
            continue  # looked at lane by lane
        invented = after - before
        cut = account["cut"].get(name, 0)
        assert len(invented) <= account["stand_ins"].get(name, 0) + cut, (name, list(invented)[:2])
        stated = account["tables"].get(name, {"before": len(before), "after": len(before)})
        assert stated["before"] in (None, len(before)), (name, stated, len(before))
        if stated["before"] is None and "at_most" in stated:
            assert stated["at_most"] >= len(before)
        saved = len(after & before) + cut + account["dropped"].get(name, 0)
        assert stated["after"] == saved, (name, stated, saved)
        lost += len(before) - saved
    return lost


def check_lanes(ledger: Path, truth: Rows, account: dict[str, Any]) -> int:
    """Every number of every lane is there with its old content, listed as lost, or both listed and replaced."""
    now = {(row[0], row[1]): row for row in rows_of(ledger)["operation"]}
    old = {(row[0], row[1]): row for row in truth["operation"]}
    heads = {row[0]: row for row in truth["operation_head"]}
    lost = 0
    for lane in ("P0", "P1"):
        told = account["lanes"].get(lane, {"lost": [], "rechained_from": None, "is_newest_known": True})
        missing = {seq for first, last in told["lost"] for seq in range(first, last + 1)}
        lost += len(missing)
        acknowledged = heads[lane][3]
        highest = max((key[1] for key, row in now.items() if key[0] == lane and row[2] != "audit.ledger_salvaged"), default=0)
        for (_, seq), row in ((key, row) for key, row in old.items() if key[0] == lane):
            if not told["is_newest_known"] and seq > highest:
                lost += 1
            elif seq not in missing:
                assert now[lane, seq][2:7] == row[2:7], (lane, seq)  # all but the hashes
                if told["rechained_from"] is None or seq < told["rechained_from"]:
                    assert now[lane, seq] == row
            elif seq > acknowledged and told["rechained_from"] is not None:
                assert now[lane, seq][2] == "audit.operation_lost"
            else:
                assert (lane, seq) not in now
    return lost


def sequences(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return dict(db.execute("SELECT name, seq FROM sqlite_sequence").fetchall())


@pytest.mark.field("FC-D03")
@pytest.mark.parametrize("seed", range(8))
def test_pages_overwritten_at_random_cost_what_was_on_them_and_the_account_adds_up(
    ledger: Path, history: Path, truth: Rows, seed: int
) -> None:
    chosen = random.Random(seed)
    spoil(ledger, chosen.sample(range(2, page_count(ledger) + 1), chosen.randint(1, 12)), seed)
    account = mended(ledger)
    check_account(ledger, truth, account)
    check_lanes(ledger, truth, account)
    before, after = sequences(history), sequences(ledger)
    assert all(after[name] >= seq for name, seq in before.items())  # no number is ever given out again


def test_a_sound_ledger_comes_through_whole(ledger: Path, truth: Rows) -> None:
    account = mended(ledger)
    assert account["tables"] == {} and account["lanes"] == {} and account["stand_ins"] == {}
    assert check_account(ledger, truth, account) == 0
    now = rows_of(ledger)["operation"]
    assert truth["operation"] < now and len(now) == len(truth["operation"]) + 1


def test_a_lost_header_costs_nothing(ledger: Path, truth: Rows) -> None:
    spoil(ledger, [1], 1)
    with pytest.raises(sqlite3.DatabaseError), closing(sqlite3.connect(ledger)) as db:
        db.execute("SELECT count(*) FROM turn")
    account = mended(ledger)
    assert check_account(ledger, truth, account) + check_lanes(ledger, truth, account) == 0


def test_lost_index_pages_cost_nothing(ledger: Path, truth: Rows) -> None:
    spoil(ledger, [root_of(ledger, name) for name in ("admission_open", "turn_by_session", "memory_time", "delivery_of_turn")], 2)
    account = mended(ledger)
    assert check_account(ledger, truth, account) + check_lanes(ledger, truth, account) == 0


@pytest.mark.parametrize("table", ["admission", "turn", "action", "effect", "delivery", "memory"])
def test_a_lost_root_costs_nothing_as_its_leaves_are_known_by_their_looks(ledger: Path, truth: Rows, table: str) -> None:
    spoil(ledger, [root_of(ledger, table)], 3)
    account = mended(ledger)
    assert len(rows_of(ledger)[table]) == len(truth[table])
    assert check_account(ledger, truth, account) == 0


def test_a_lost_list_of_free_pages_brings_nothing_deleted_back(ledger: Path, truth: Rows) -> None:
    with ledger.open("r+b") as file:
        file.seek(32)
        file.write(b"\xff" * 8)
    account = mended(ledger)
    assert check_account(ledger, truth, account) == 0


def test_a_lost_schema_is_known_from_the_program(ledger: Path, truth: Rows) -> None:
    """Where the list of tables itself is gone, rows are known by their looks; what could be two tables' is left where it was."""
    spoil(ledger, [1], 4)
    spoil(ledger, [1], 4, keep_header=True)
    account = mended(ledger)
    now = rows_of(ledger)
    for name in ("admission", "turn", "action", "effect", "memory"):
        assert now[name] >= truth[name], name
    assert account["tables"].keys() & {"admission", "turn"} == set()


def test_a_list_of_tables_that_is_no_text_is_damage_like_any_other(ledger: Path, truth: Rows) -> None:
    """SQLite quotes it in its error, which Python's driver then cannot read."""
    spoilt = ledger.read_bytes().replace(b"CREATE TABLE turn", b"CREATE \xa5ABLE turn", 1)
    assert spoilt != ledger.read_bytes()
    ledger.write_bytes(spoilt)
    with pytest.raises(UnicodeDecodeError), closing(sqlite3.connect(ledger)) as db:
        db.execute("SELECT name FROM sqlite_schema")
    with closing(sqlite3.connect(ledger)) as db:
        assert damage.check(db, CLOCK, damage.LOOK_S)
    assert damage.examine(ledger, CLOCK)
    salvage.mend(ledger, CLOCK, ORIGIN)
    assert damage.examine(ledger, CLOCK) == ""
    assert rows_of(ledger)["turn"] >= truth["turn"]


def test_cells_of_a_page_are_judged_one_by_one(ledger: Path, truth: Rows) -> None:
    leaf = next(n for n in pages_of(ledger, (13,)) if n > 40)
    content = bytearray(ledger.read_bytes())
    end = leaf * 4096
    content[end - 40 : end] = b"\xfe" * 40  # the first cell that was written lies at the page's end
    ledger.write_bytes(content)
    account = mended(ledger)
    assert check_account(ledger, truth, account) <= 2


# the log before it is folded in ---------------------------------------------------------------------------------------------
async def live_copy(folder: Path, commits: int = 12) -> tuple[Path, list[int]]:
    """A ledger whose newest commits are only in its log; returns it and where in the log each ends."""
    ends: list[int] = []
    async with open_bench(folder) as bench:
        path = bench.database.path
        log = path.with_name(f"{path.name}-wal")
        await bench.database.transaction(lambda tx: tx.execute("PRAGMA user_version").fetchone())
        for number in range(commits):
            await bench.database.transaction(
                lambda tx, number=number: operations.append(
                    tx, bench.clock, OperationLane.P0, "alarm.raised", f"a-{number}", {"number": number}
                )
            )
            ends.append(log.stat().st_size)
        copy = crashed_copy(path, folder / "crashed")
    return copy, ends


async def test_commits_behind_a_damaged_frame_are_missed_and_said_to_be(tmp_path: Path) -> None:
    copy, ends = await live_copy(tmp_path)
    with copy.with_name("ledger.db-wal").open("r+b") as file:
        file.seek(ends[5] + 1000)
        file.write(b"\xff" * 64)
    assert "5 commits at the end of the write-ahead log cannot be read" in damage.examine(copy, CLOCK)
    salvage.mend(copy, CLOCK, ORIGIN)
    with closing(sqlite3.connect(copy)) as db:
        account = to_json(db.execute("SELECT account FROM salvage").fetchone()[0])
        kept = [row[0] for row in db.execute("SELECT entity FROM operation WHERE lane = 'P0' ORDER BY seq")]
        (epoch,) = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'owner'").fetchone()
    assert account["lost_commits"] == 5
    assert kept == [f"a-{number}" for number in range(6)]
    assert epoch > salvage.SEQUENCE_LEAP  # the lost part may have given numbers out
    assert copy.with_name("ledger.db.damaged-1-wal").stat().st_size > ends[-1] - 1


async def test_a_last_commit_torn_by_a_power_cut_is_no_damage(tmp_path: Path) -> None:
    copy, ends = await live_copy(tmp_path)
    with copy.with_name("ledger.db-wal").open("r+b") as file:
        file.truncate(ends[-1] - 100)
    assert damage.examine(copy, CLOCK) == ""
    with copy.with_name("ledger.db-wal").open("r+b") as file:
        file.seek(ends[-2] + 2000)
        file.write(b"\x00" * 512)
    assert damage.examine(copy, CLOCK) == ""


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_only_in_the_log_comes_through(tmp_path: Path, seed: int) -> None:
    """The main file is spoilt under pages that the log has newer: nothing is lost."""
    copy, _ = await live_copy(tmp_path)
    before = rows_of(crashed_copy(copy, tmp_path / "twin"))
    in_log = sorted(read_log(copy.with_name("ledger.db-wal"), 4096).pages)
    pages = [page for page in random.Random(seed).sample(in_log, min(6, len(in_log))) if 1 < page <= page_count(copy)]
    spoil(copy, pages, seed)
    account = mended(copy)
    assert check_account(copy, before, account) == 0
    assert rows_of(copy)["operation"] >= before["operation"]


# around it ------------------------------------------------------------------------------------------------------------------
def test_a_salvage_that_dies_half_way_is_finished_by_the_next_start(
    ledger: Path, truth: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before anything is moved, and between any two moves: the damaged file or the finished one, never neither."""
    spoil(ledger, [root_of(ledger, "turn")], 5)
    log = ledger.with_name("ledger.db-wal")
    log.write_bytes(b"")
    damage.suspect(ledger, "a test said so")
    renamed = Path.rename
    for survived in range(5):
        count = 0

        def dying(self: Path, target: Path, survived: int = survived) -> Path:
            nonlocal count
            if self.parent == ledger.parent and (count := count + 1) > survived:
                raise KeyboardInterrupt
            return renamed(self, target)

        monkeypatch.setattr(Path, "rename", dying)
        try:
            salvage.mend(ledger, CLOCK, ORIGIN)
        except KeyboardInterrupt:
            continue
        finally:
            monkeypatch.setattr(Path, "rename", renamed)
    salvage.mend(ledger, CLOCK, ORIGIN)
    with closing(sqlite3.connect(ledger)) as db:
        ((account,),) = db.execute("SELECT account FROM salvage").fetchall()  # once, however often it was begun
    assert check_account(ledger, truth, to_json(account)) == 0
    assert {"ledger.db.damaged-1", "ledger.db.damaged-1-wal"} <= {path.name for path in ledger.parent.iterdir()}


def test_each_damaged_file_is_kept(ledger: Path) -> None:
    for seed in (1, 2):
        spoil(ledger, [root_of(ledger, "delivery")], seed)
        mended(ledger)
    assert [path.name for path in sorted(ledger.parent.glob("*.damaged-?"))] == ["ledger.db.damaged-1", "ledger.db.damaged-2"]


def test_a_file_of_a_newer_version_is_not_salvaged_but_refused(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as db:
        db.execute("PRAGMA user_version = 999")
    damage.suspect(ledger, "a test said so")
    before = ledger.read_bytes()
    with pytest.raises(Refused, match="schema 999"):
        salvage.mend(ledger, CLOCK, ORIGIN)
    assert ledger.read_bytes() == before


def test_without_room_for_what_is_saved_nothing_is_moved(ledger: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "card", ledger.stat().st_size + 600_000) as disk:
        place = disk.folder / "ledger.db"
        shutil.copyfile(ledger, place)
        damage.suspect(place, "a test said so")
        before = place.read_bytes()
        with pytest.raises(StorageFullError):
            salvage.mend(place, CLOCK, ORIGIN)
        assert place.read_bytes() == before
        assert sorted(path.name for path in disk.folder.iterdir()) == ["ledger.db", "ledger.db.suspect"]


def test_whatever_must_be_referred_to_has_a_stand_in() -> None:
    """Rows are dropped only where they are nothing by themselves: a flood's members, a memory's vector, a salvage's numbers."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        migrate(db)
        tables = [row[0] for row in db.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")]
        without = set()
        for table in tables:
            needed = {row["name"] for row in db.execute(f"PRAGMA table_info('{table}')") if row["notnull"] or row["pk"]}
            parents = {row["table"] for row in db.execute(f"PRAGMA foreign_key_list('{table}')") if row["from"] in needed}
            without |= {(table, parent) for parent in parents - stand_ins.STAND_INS.keys()}
        assert without == {("flood_member", "flood"), ("memory_vector", "memory"), ("operation_lost", "salvage")}
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("INSERT INTO effect (action_id, turn_id, tool, arguments, status, epoch, intended_utc)"
                   " VALUES ('ac_1', 'tr_1', 'write_tag', '{}', 'intended', 7, '')")  # fmt: skip
        made = stand_ins.complete(db, "2026-03-02T08:00:00.000000+00:00")["stand_ins"]
        assert made.keys() == stand_ins.STAND_INS.keys()
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
