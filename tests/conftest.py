"""What holds for every test: nothing it started is left behind.

Parts with a wider scope than one test (a broker shared by a module) are there before the look round and are not counted.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

_LEAVE_WITHIN_S = 5.0  # a thread or process that was told to end may need a moment


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.fixturenames.insert(0, "_no_task_left")  # first in, so it looks after every other fixture is gone


@pytest.fixture
async def _no_task_left() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    left = {task for task in asyncio.all_tasks() - before - {asyncio.current_task()} if not task.done()}
    if left:
        await asyncio.wait(left, timeout=_LEAVE_WITHIN_S)
    assert not (names := [repr(task) for task in left if not task.done()]), f"tasks left behind: {names}"


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    threads, children = _threads(), _children()
    yield
    ends = time.monotonic() + _LEAVE_WITHIN_S
    for thread in _threads() - threads:
        thread.join(max(0.0, ends - time.monotonic()))
    left_threads = [thread.name for thread in _threads() - threads if thread.is_alive()]
    while (left := _children() - children) and time.monotonic() < ends:
        threading.Event().wait(0.05)  # a child's end cannot be waited for by anyone but its owner
    assert not left_threads, f"threads left behind: {left_threads}"
    assert not left, f"child processes left behind: {[_command(pid) for pid in left]}"


def _threads() -> set[threading.Thread]:
    """Return the threads of this process but those of the event loop's own pool, which end with the loop, after this look."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


def _children() -> set[int]:
    """Return the living children of this process, zombies included: an unreaped child is a leak too."""
    own = os.getpid()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _parent(entry) == own:
            found.add(int(entry.name))
    return found


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None  # it ended while being looked at


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        words = ""
    return f"{pid} {words.strip()[:200] or '(zombie)'}"
