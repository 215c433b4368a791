"""Opening everything over a ledger in trouble: damaged, copied, on a full disk, on one that takes no writes."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance import opening
from appliance.contracts.errors import OwnedElsewhere, Refused, StorageFullError, Unavailable
from appliance.data_folder import FILES_UMASK, prepare_data_folder
from appliance.opening import Opened, open_everything
from appliance.settings import Settings, load_settings
from appliance.store import holds, owners, reserve, witness
from tests.support.ledger import ORIGIN
from tests.support.old_ledger import root_of, spoil, write_history
from tests.support.small_disk import small_disk

SHIPPED = Path("config")


def settings_of(data: Path) -> Settings:
    return load_settings(SHIPPED, {"FLOORHAND_DATA": str(data)}).model_copy(update={"origin": ORIGIN})


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Opened]:
    async with contextlib.AsyncExitStack() as stack:
        yield await open_everything(settings_of(data), stack)


async def said(now: Opened) -> list[str]:
    rows = await now.ledger.fetch("SELECT text FROM delivery WHERE status = 'pending' AND turn_id IS NULL ORDER BY seq")
    return [row["text"] for row in rows]


def open_to_others(folder: Path, name: str) -> list[str]:
    """Files of a ledger that were made here and that others may read."""
    made = (path for path in folder.glob(f"{name}*") if "damaged" not in path.name)
    return [path.name for path in made if stat.S_IMODE(path.stat().st_mode) & 0o007]


async def audits(now: Opened) -> list[str]:
    rows = await now.ledger.fetch("SELECT kind FROM operation WHERE kind LIKE 'audit.%' AND kind <> 'audit.noted' ORDER BY seq")
    return [row["kind"] for row in rows]


async def test_a_damaged_ledger_is_salvaged_said_and_named_until_a_person_takes_note(tmp_path: Path) -> None:
    path = settings_of(tmp_path).database
    (await write_history(tmp_path, 20)).rename(path)
    spoil(path, [1, root_of(path, "turn"), root_of(path, "sqlite_autoindex_turn_1")], 3)
    async with opened(tmp_path) as now:
        assert "audit.ledger_salvaged" in await audits(now)
        assert any("records were damaged" in text for text in await said(now))
        assert "was damaged" in now.degraded.reasons["ledger"]
        facts = await now.standing.look()
        assert facts["salvages"][0]["set_aside"] == f"{path.name}.damaged-1"
        assert (tmp_path / f"{path.name}.damaged-1").exists()
    async with opened(tmp_path) as now:
        assert "was damaged" in now.degraded.reasons["ledger"]
        assert len([text for text in await said(now) if "records were damaged" in text]) == 1
        await now.standing.settle_salvage(1, "anna", "looked after it")
        assert "ledger" not in now.degraded.reasons
    async with opened(tmp_path) as now:
        assert "ledger" not in now.degraded.reasons


async def test_a_file_that_is_no_database_is_set_aside_and_nothing_is_for_others(tmp_path: Path) -> None:
    path = settings_of(tmp_path).database
    path.write_bytes(b"not a database" * 1000)
    before = os.umask(FILES_UMASK)
    try:
        async with opened(tmp_path) as now:
            assert "was damaged" in now.degraded.reasons["ledger"]
            assert now.recovered.ownership.epoch > 1  # nobody knows what had been given out
    finally:
        os.umask(before)
    assert (tmp_path / f"{path.name}.damaged-1").read_bytes() == b"not a database" * 1000
    assert open_to_others(tmp_path, path.name) == []


@pytest.mark.field("FC-D04")
async def test_a_copied_card_is_said_named_and_audited_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "fingerprint", lambda: "board=1111 card=aaaa")
    async with opened(tmp_path / "first") as now:
        assert "identity" not in now.degraded.reasons
    shutil.copytree(tmp_path / "first", tmp_path / "second", symlinks=True)
    monkeypatch.setattr(opening, "fingerprint", lambda: "board=2222 card=bbbb")
    for start in (1, 2):
        async with opened(tmp_path / "second") as now:
            assert "may be a copy" in now.degraded.reasons["identity"]
            assert len([text for text in await said(now) if "may be a copy" in text]) == start
            assert (await audits(now)).count("audit.machine_changed") == 1
            # What was on hold meanwhile where it came from is not known here.
            with pytest.raises(Refused, match="on hold by floorhand"):
                await now.ledger.transaction(holds.require_none)
            assert (await audits(now)).count("audit.hold_began") == 1
            assert any("I am on hold" in text for text in await said(now))
    monkeypatch.setattr(opening, "fingerprint", lambda: "board=1111 card=aaaa")
    async with opened(tmp_path / "first") as now:
        assert "identity" not in now.degraded.reasons


@pytest.mark.req("R2")
async def test_the_opened_ledger_is_fenced_witnessed_and_has_its_reserve(tmp_path: Path) -> None:
    async with opened(tmp_path) as now:
        epoch = now.recovered.ownership.epoch
        assert witness.read(now.ledger.path) == epoch
        assert now.ledger.path.with_name(f"{now.ledger.path.name}.reserve").stat().st_size == reserve.RESERVE_BYTES
        with pytest.raises(OwnedElsewhere, match=str(os.getpid())):
            async with opened(tmp_path):
                pass
        await now.ledger.transaction(lambda tx: owners.take_ownership(tx, now.clock, "newer"))
        with pytest.raises(OwnedElsewhere):
            await now.ledger.transaction(lambda tx: None)


async def test_a_read_only_disk_is_unavailable_until_it_is_writable(tmp_path: Path) -> None:
    with small_disk(tmp_path / "card", 64 * 1024 * 1024) as disk:
        async with opened(disk.folder) as now:
            first = now.recovered.ownership.epoch
        disk.remount("ro")
        if not os.access(disk.folder, os.W_OK):
            with pytest.raises(Unavailable, match="cannot be written now"):
                prepare_data_folder(disk.folder)
        with pytest.raises(Unavailable) as refused:
            async with opened(disk.folder):
                pass
        assert not isinstance(refused.value, StorageFullError)
        disk.remount("rw")
        async with opened(disk.folder) as now:
            assert now.recovered.ownership.epoch == first + 1


@pytest.mark.field("FC-D01")
async def test_a_start_on_a_disk_that_is_full_gets_through_and_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "card", 64 * 1024 * 1024) as disk:
        async with opened(disk.folder):
            pass
        disk.fill()
        assert disk.free_bytes == 0
        async with opened(disk.folder) as now:
            assert "kept for alarms" in now.ledger.refuses_talk()
            assert "ledger" in now.degraded.reasons
            disk.make_room()
            await now.ledger.keep_house()
            assert now.ledger.refuses_talk() == ""
            assert "ledger" not in now.degraded.reasons


@pytest.mark.req("T3")
async def test_a_learned_playbook_with_a_fault_is_named_and_costs_neither_the_others_nor_the_reports(tmp_path: Path) -> None:
    async with opened(tmp_path) as now:
        names = now.playbooks.names
    learned = tmp_path / "procedures" / "playbooks" / "learned"
    shutil.copytree(SHIPPED / "playbooks" / "check-motor", learned)
    head = (learned / "SKILL.md").read_text("utf-8")
    changed = head.replace("name: check-motor", "name: learned").replace("access: operator", "access: internal")
    changed = changed.replace("[motor check]", "[learned look]").replace("[电机检查]", "[学来的]")
    (learned / "SKILL.md").write_text(changed, "utf-8")
    async with opened(tmp_path) as now:
        assert now.playbooks.names == names
        assert "calls create_work_order, which needs operator" in now.degraded.reasons["playbook:learned"]
        assert "procedures" not in now.degraded.reasons
