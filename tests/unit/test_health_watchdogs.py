"""Word to the service manager, and the three watchdogs."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.health.sd_notify import ServiceNotifier
from appliance.health.watchdog import EXIT_TRY_AGAIN, LoopWatchdog, ManagerWatchdog, Progress, StartWatchdog
from tests.support.clock import ManualClock

pytestmark = pytest.mark.req("R8", "O6")

ABSTRACT = f"@floorhand-test-{os.getpid()}"


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket and its address as NOTIFY_SOCKET says it."""
    address = ABSTRACT if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + address[1:] if request.param == "abstract" else address)
        listening.settimeout(5)
        yield listening, address


def test_the_manager_hears_every_word(manager: tuple[socket.socket, str]) -> None:
    listening, address = manager
    notifier = ServiceNotifier({"NOTIFY_SOCKET": address})
    assert notifier.is_supervised
    notifier.ready("epoch 3\nX=1")
    notifier.status("degraded: voice")
    notifier.alive()
    notifier.stopping()
    heard = [listening.recv(500).decode() for _ in range(4)]
    assert heard == ["READY=1\nSTATUS=epoch 3 X=1", "STATUS=degraded: voice", "WATCHDOG=1", "STOPPING=1"]


def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        notifier = ServiceNotifier(environ)
        notifier.ready("x")
        notifier.alive()
    assert not ServiceNotifier({}).is_supervised


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"WATCHDOG_USEC": "90000000"}, 90.0),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": str(os.getpid())}, 90.0),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({}, None),
    ],
)
def test_how_often_the_manager_wants_a_sign(environ: dict[str, str], wanted: float | None) -> None:
    assert ServiceNotifier({"NOTIFY_SOCKET": "/x", **environ}).watchdog_s == wanted


@pytest.mark.field("FC-R09")
@pytest.mark.parametrize("manager", ["path"], indirect=True)
async def test_signs_of_life_need_progress_while_there_is_work(manager: tuple[socket.socket, str]) -> None:
    listening, address = manager
    listening.setblocking(False)
    loop = asyncio.get_running_loop()
    notifier = ServiceNotifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "60000"})
    is_idle = False
    progress = Progress(ManualClock(), lambda: is_idle)
    feeding = asyncio.create_task(ManagerWatchdog(progress, notifier).run())

    async def sign(within_s: float) -> bytes:
        async with asyncio.timeout(within_s):
            return await loop.sock_recv(listening, 100)

    assert await sign(5) == b"WATCHDOG=1"
    with pytest.raises(TimeoutError):  # work, and no step made: silence for several periods
        await sign(0.3)
    progress.beat()
    assert await sign(5) == b"WATCHDOG=1"
    is_idle = True
    assert [await sign(5), await sign(5)] == [b"WATCHDOG=1", b"WATCHDOG=1"]
    feeding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await feeding


def test_progress_knows_its_age() -> None:
    clock = ManualClock()
    progress = Progress(clock, lambda: True)
    clock.advance(7)
    assert progress.silent_s() == 7
    progress.beat()
    assert (progress.silent_s(), progress.beats) == (0, 1)


STUCK_LOOP = """
import asyncio, threading
from appliance.health.watchdog import LoopWatchdog
async def main():
    watch = asyncio.create_task(LoopWatchdog(check_s=0.05, misses=3).run())
    await asyncio.sleep(0)
    threading.Event().wait(30)   # the loop is held
asyncio.run(main())
"""

STUCK_START = """
import threading
from appliance.health.watchdog import StartWatchdog
with StartWatchdog(limit_s=0.1):
    threading.Event().wait(30)
"""


@pytest.mark.field("FC-R09")
@pytest.mark.parametrize(
    ("script", "why"), [(STUCK_LOOP, "the event loop did not turn"), (STUCK_START, "the start was not over")]
)
def test_a_stuck_process_ends_with_75_and_its_stacks(script: str, why: str) -> None:
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=25, check=False)
    assert ended.returncode == EXIT_TRY_AGAIN
    assert why in ended.stderr
    assert 'File "<string>"' in ended.stderr


async def test_a_turning_loop_is_left_alone() -> None:
    ended: list[int] = []
    watching = asyncio.create_task(LoopWatchdog(check_s=0.02, misses=1, end=ended.append).run())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await asyncio.Event().wait()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert ended == []


def test_a_start_that_is_over_is_left_alone() -> None:
    ended: list[int] = []
    with StartWatchdog(limit_s=0.05, end=ended.append) as watchdog:
        watchdog.started()
        assert not threading.Event().wait(0.2)
    assert ended == []
