"""A disk that is really full, or takes no writes: what is promised is kept, what is not taken is refused, and it recovers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.admission.gate import Gate
from appliance.contracts.admission import PRIORITY_ALARM, Door, RequestKind
from appliance.contracts.errors import StorageFullError, Unavailable
from appliance.foundation.id_source import SystemIds
from appliance.foundation.system_clock import SystemClock
from appliance.store import operations, reserve
from appliance.store.database import Database
from appliance.store.faults import StorageFault
from tests.support.foreign import holding
from tests.support.ledger import request
from tests.support.small_disk import SmallDisk, small_disk

DISK, RESERVE = 10 * 1024 * 1024, 2 * 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    monkeypatch.setattr(reserve, "_MARGIN_BYTES", 256 * 1024)
    monkeypatch.setattr(reserve, "_TRY_EVERY_NS", 0)
    with small_disk(tmp_path / "card", DISK) as mounted:
        yield mounted


class Ledger:
    """An open ledger on the disk with a gate before it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.gate = Gate(
            database,
            SystemClock(),
            SystemIds(SystemClock()),
            limit=100_000,
            lane_limit=100_000,
            refuses_talk=database.refuses_talk,
        )
        self.told: list[str] = []
        database.on_trouble = self.told.append

    async def talk(self, key: str) -> None:
        await self.gate.admit(request(key))

    async def alarm(self, key: str) -> None:
        await self.gate.admit(
            replace(request(key), door=Door.MQTT, kind=RequestKind.ALARM, lane=f"asset:{key}", priority=PRIORITY_ALARM)
        )

    async def keys(self) -> list[str]:
        return [row["dedupe_key"] for row in await self.database.fetch("SELECT dedupe_key FROM admission ORDER BY seq")]

    async def fill_up(self, key: str) -> list[str]:
        """Admit alarms until none is taken any more; return those that were."""
        taken = []
        for number in range(100_000):
            try:
                await self.alarm(f"{key}-{number}")
            except StorageFullError:
                return taken
            taken.append(f"{key}-{number}")
        raise AssertionError("the disk does not fill")


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Ledger]:
    clock = SystemClock()
    database = await Database.open(folder / "ledger.db", clock, reserve_bytes=RESERVE)
    try:
        await database.transaction(lambda tx: operations.set_origin(tx, clock, "line-3"))
        yield Ledger(database)
    finally:
        await database.close()


def reserve_of(folder: Path) -> Path:
    return folder / "ledger.db.reserve"


@pytest.mark.field("FC-D01")
async def test_on_a_full_disk_alarms_are_recorded_talk_is_refused_and_it_recovers_without_a_restart(disk: SmallDisk) -> None:
    async with opened(disk.folder) as ledger:
        await ledger.talk("before")
        assert reserve_of(disk.folder).stat().st_blocks * 512 >= RESERVE
        disk.fill()
        assert disk.free_bytes == 0
        for number in range(20):
            await ledger.alarm(f"alarm-{number}")
        assert not reserve_of(disk.folder).exists()
        with pytest.raises(StorageFullError, match="kept for alarms") as refused:
            await ledger.talk("refused")
        assert "Free space" in refused.value.cure
        assert ledger.database.fault is StorageFault.FULL
        disk.make_room()
        await ledger.talk("after")
        assert reserve_of(disk.folder).stat().st_blocks * 512 >= RESERVE
        assert ledger.database.fault is None
        assert ledger.told[-1] == ""
        assert await ledger.keys() == ["before", *(f"alarm-{n}" for n in range(20)), "after"]


@pytest.mark.field("FC-D01")
async def test_when_the_reserve_is_used_up_too_nothing_promised_is_lost_and_nothing_is_half_done(disk: SmallDisk) -> None:
    async with opened(disk.folder) as ledger:
        disk.fill()
        taken = await ledger.fill_up("first")
        assert len(taken) > 200
        assert ledger.database.fault is StorageFault.USED_UP  # nobody says any more that alarms are taken
        assert await ledger.keys() == taken
        disk.make_room()
        await ledger.alarm("again")
        assert await ledger.keys() == [*taken, "again"]
    with contextlib.closing(sqlite3.connect(disk.folder / "ledger.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.field("FC-D01", "FC-R06")
async def test_who_reads_for_so_long_that_the_log_takes_all_room_is_named(disk: SmallDisk) -> None:
    async with opened(disk.folder) as ledger:
        await ledger.talk("before")
        with holding(ledger.database.path, "BEGIN") as let_go:
            disk.fill()
            await ledger.fill_up("alarm")
            assert ledger.database.fault is StorageFault.USED_UP
            assert "python" in ledger.database.trouble and "keeps reading" in ledger.database.trouble
            let_go()
        disk.make_room()
        await ledger.talk("after")
        assert ledger.database.fault is None


@pytest.mark.field("FC-D02")
async def test_making_room_needs_no_room(disk: SmallDisk) -> None:
    """Rows can be deleted and the log be cut on a disk that is full to the last byte, reserve and all."""
    async with opened(disk.folder) as ledger:
        await ledger.database.transaction(lambda tx: tx.execute("CREATE TABLE pile (text TEXT) STRICT") and None)
        await ledger.database.transaction(
            lambda tx: tx.executemany("INSERT INTO pile VALUES (?)", [("x" * 900,)] * 1000) and None
        )
        disk.fill()
        assert disk.free_bytes == 0
        for upto in range(100, 1001, 100):  # in slices, as what is old is forgotten
            await ledger.database.transaction(
                lambda tx, upto=upto: tx.execute("DELETE FROM pile WHERE rowid <= ?", (upto,)) and None
            )
        assert (await ledger.database.fetch("SELECT count(*) FROM pile"))[0][0] == 0
        await ledger.fill_up("more")  # what was freed inside the file is used again
        assert len(await ledger.keys()) > 200


@pytest.mark.field("FC-D01", "FC-D02")
async def test_a_start_on_a_disk_that_is_full_to_the_last_byte_gets_through(disk: SmallDisk) -> None:
    async with opened(disk.folder) as ledger:
        await ledger.talk("before")
    disk.fill()
    assert disk.free_bytes == 0
    async with opened(disk.folder) as ledger:
        await ledger.alarm("alarm")
        with pytest.raises(StorageFullError):
            await ledger.talk("refused")
        disk.make_room()
        await ledger.talk("after")
        assert await ledger.keys() == ["before", "alarm", "after"]


@pytest.mark.field("FC-D01")
async def test_the_reserve_comes_back_by_housekeeping_alone(disk: SmallDisk) -> None:
    async with opened(disk.folder) as ledger:
        disk.fill()
        await ledger.alarm("alarm")
        assert not reserve_of(disk.folder).exists()
        disk.make_room()
        await ledger.database.keep_house()
        assert reserve_of(disk.folder).exists()
        assert ledger.database.fault is None


# a disk that takes no writes ------------------------------------------------------------------------------------------------
_WRITER = """
import asyncio, resource, signal, sys
from pathlib import Path
from appliance.contracts.errors import Unavailable, StorageFullError
from appliance.foundation.system_clock import SystemClock
from appliance.store.database import Database

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    database = await Database.open(Path(sys.argv[1]), SystemClock())
    told = []
    database.on_trouble = told.append
    await database.transaction(lambda tx: tx.execute("CREATE TABLE note (text TEXT) STRICT") and None)
    for line in iter(sys.stdin.readline, ""):
        command = line.strip()
        if command == "break":  # from here on every write beyond this file position fails with an I/O error
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        elif command == "mend":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        elif command == "write":
            try:
                await database.transaction(lambda tx: tx.execute("INSERT INTO note VALUES ('x')") and None)
                print("written", flush=True)
            except StorageFullError as error:
                print("full", error.message, flush=True)
            except Unavailable as error:
                print("unavailable", database.fault, error.message, flush=True)
        elif command == "read":
            rows = await database.fetch("SELECT count(*) FROM note")
            print("read", rows[0][0], flush=True)
        elif command == "told":
            print("told", [bool(why) for why in told], flush=True)
    await database.close()

asyncio.run(main())
"""


async def test_a_disk_that_fails_while_running_is_named_reading_goes_on_and_it_recovers(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WRITER, str(tmp_path / "ledger.db")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert child.stdin is not None and child.stdout is not None

    async def tell(command: str, answer: str = "") -> str:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"{command}\n".encode())
        return (await child.stdout.readline()).decode().strip() if answer else ""

    assert await tell("write", "?") == "written"
    await tell("break")
    failed = [await tell("write", "?") for _ in range(3)]
    assert all(line.startswith("unavailable unwritable the storage does not answer") for line in failed), failed
    assert await tell("read", "?") == "read 1"
    await tell("mend")
    assert await tell("write", "?") == "written"
    assert await tell("read", "?") == "read 2"
    assert await tell("told", "?") == "told [True, False]"
    child.stdin.close()
    assert await child.wait() == 0


async def test_a_ledger_on_a_read_only_disk_is_unavailable_and_opens_once_it_is_writable(disk: SmallDisk) -> None:
    async with opened(disk.folder) as ledger:
        await ledger.talk("before")
    disk.remount("ro")
    with pytest.raises(Unavailable) as refused:
        await Database.open(disk.folder / "ledger.db", SystemClock(), reserve_bytes=RESERVE)
    assert not isinstance(refused.value, StorageFullError)
    disk.remount("rw")
    async with opened(disk.folder) as ledger:
        assert await ledger.keys() == ["before"]
