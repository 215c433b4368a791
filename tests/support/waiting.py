"""Waiting for a condition of another process, with a deadline."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


async def until(condition: Callable[[], object], what: str, within_s: float = 30.0) -> None:
    """Return when ``condition()`` is true; fail saying ``what`` did not happen."""
    try:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110 - the condition belongs to another process or thread, which sets no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}") from None


async def pause(pause_s: float) -> None:
    """Return when a pause is over that the product itself asked for (``Unavailable.retry_after_s``)."""
    clock = asyncio.get_running_loop().time
    due_s = clock() + pause_s
    while (left_s := due_s - clock()) > 0:  # noqa: ASYNC110 - it is time itself that is waited for
        await asyncio.sleep(left_s)


class HeldUp:
    """How long the machine, busy with others, kept this process and its living children from running, from its making on.

    The waits of all their threads are added up; what a child waited that has ended meanwhile is not in it.
    """

    def __init__(self) -> None:
        self._before_ns = _waited_ns()

    def so_far_s(self) -> float:
        """Seconds until now."""
        return sum(now_ns - self._before_ns.get(task, 0) for task, now_ns in _waited_ns().items()) / 1e9


@contextmanager
def within(limit_s: float) -> Iterator[None]:
    """Fail if the block takes longer than ``limit_s``, not counting the time this process and its children stood ready and the
    machine, busy with others, did not let them run."""
    began_s, held_up = time.monotonic(), HeldUp()
    yield
    took_s, held_up_s = time.monotonic() - began_s, held_up.so_far_s()
    assert took_s - held_up_s < limit_s, f"it took {took_s:.2f} s, of which {held_up_s:.2f} s were the machine's"


def _waited_ns() -> dict[str, int]:
    """How long each thread of this process and of its descendants has waited for a processor: the second number of each, in ns
    (proc(5), sched-stats)."""
    waited_ns = {}
    processes = [os.getpid()]
    for pid in processes:
        for task in _listed(Path(f"/proc/{pid}/task")):
            try:
                waited_ns[task.name] = int((task / "schedstat").read_text("ascii").split()[1])
                processes += map(int, (task / "children").read_text("ascii").split())
            except (OSError, IndexError):  # it has ended meanwhile
                continue
    return waited_ns


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended meanwhile
        return []
