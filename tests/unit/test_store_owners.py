"""Ownership: one living owner, whatever died before it and however."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance.contracts.errors import OwnedElsewhere
from appliance.contracts.store import Transaction
from appliance.foundation.system_clock import SystemClock
from appliance.store import owners
from appliance.store.database import Database
from tests.support.clock import ManualClock

_OWNER = """
import asyncio, os, signal, sys
from pathlib import Path
from appliance.foundation.system_clock import SystemClock
from appliance.store import owners
from appliance.store.database import Database

async def main():
    clock = SystemClock()
    database = await Database.open(Path(sys.argv[1]), clock)
    await database.transaction(lambda tx: owners.take_ownership(tx, clock, sys.argv[2]))
    if sys.argv[3] == "fork":
        here, there = os.pipe()
        if os.fork() == 0:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 0), os.dup2(nowhere, 1)
            os.write(there, b"!")
            os.execvp("sleep", ["sleep", "60"]) if sys.argv[4] == "exec" else signal.pause()
        os.read(here, 1)
    print("owns", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@asynccontextmanager
async def another_owner(path: Path, instance: str, *how: str) -> AsyncIterator[Process]:
    """A core in a process group of its own that owns the file until it is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _OWNER, str(path), instance, *(how or ("alone", ""))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
        env={**os.environ, "PYTHONPATH": "."},
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"owns\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def take(path: Path, instance: str) -> owners.Ownership:
    """Open, take over, close without a receipt."""
    clock = SystemClock()
    database = await Database.open(path, clock)
    try:
        return await database.transaction(lambda tx: owners.take_ownership(tx, clock, instance))
    finally:
        await database.close()


@pytest.mark.req("R2")
async def test_a_living_owner_is_named_and_a_killed_one_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with another_owner(path, "first") as first:
        with pytest.raises(OwnedElsewhere, match="first") as refused:
            await Database.open(path, SystemClock())
        assert refused.value.facts == {"pid": first.pid, "instance": "first"}
        first.kill()
        await first.wait()
        taken = await take(path, "second")
    assert (taken.epoch, taken.previous_epoch, taken.previous_clean) == (2, 1, False)


@pytest.mark.req("R2")
@pytest.mark.parametrize("how", ["exec", "stay"])
async def test_a_child_that_outlives_the_owner_does_not_keep_the_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "ledger.db"
    async with another_owner(path, "first", "fork", how) as first:
        first.kill()
        await first.wait()
        assert (await take(path, "second")).epoch == 2


@pytest.mark.req("R2")
async def test_a_second_open_in_this_process_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    first = await Database.open(tmp_path / "ledger.db", ManualClock())
    for path in (tmp_path / "ledger.db", tmp_path / "link" / "ledger.db"):
        with pytest.raises(OwnedElsewhere):
            await Database.open(path, ManualClock())
    await first.close()


@pytest.mark.req("R2", "R4")
async def test_a_receipt_tells_a_clean_end(tmp_path: Path) -> None:
    clock = ManualClock()
    database = await Database.open(tmp_path / "ledger.db", clock)

    def again(tx: Transaction) -> owners.Ownership:
        return owners.take_ownership(tx, clock, "core")

    first = await database.transaction(again)
    assert (first.previous_epoch, first.previous_clean) == (None, True)
    second = await database.transaction(again)
    assert (second.previous_epoch, second.previous_clean) == (1, False)
    await database.transaction(lambda tx: owners.release(tx, clock, second.epoch))
    third = await database.transaction(again)
    assert (third.previous_epoch, third.previous_clean) == (2, True)
    await database.close()


def living() -> tuple[int, str]:
    return os.getppid(), owners.start_ticks(os.getppid())


@pytest.mark.req("R2")
@pytest.mark.field("FC-R10")
@pytest.mark.parametrize(
    ("boot_id", "ticks", "pid", "lives"),
    [
        ("boot-1", "own", None, True),
        ("boot-0", "own", None, False),  # a power cut: the same pid means nothing
        ("boot-1", "1", None, False),  # the pid was given to another process
        ("boot-1", "", 2**22 + 1, False),  # no such process: above the kernel's largest pid
    ],
)
async def test_a_stale_owner_is_recognised_without_the_lock(
    tmp_path: Path, boot_id: str, ticks: str, pid: int | None, lives: bool
) -> None:
    clock = ManualClock()
    database = await Database.open(tmp_path / "ledger.db", clock)
    parent, parent_ticks = living()

    def left_behind(tx: Transaction) -> None:
        row = (pid or parent, parent_ticks if ticks == "own" else ticks, boot_id)
        tx.execute("INSERT INTO owner (instance, pid, pid_started, boot_id, started_utc) VALUES ('other', ?, ?, ?, '2026')", row)

    await database.transaction(left_behind)
    if lives:
        with pytest.raises(OwnedElsewhere, match="other") as refused:
            await database.transaction(lambda tx: owners.take_ownership(tx, clock, "core"))
        assert refused.value.facts == {"pid": parent, "instance": "other"}
    else:
        taken = await database.transaction(lambda tx: owners.take_ownership(tx, clock, "core"))
        assert (taken.epoch, taken.previous_clean) == (2, False)
    await database.close()


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert owners.start_ticks(child.pid) == ""
    assert owners.start_ticks(os.getpid()) != ""
