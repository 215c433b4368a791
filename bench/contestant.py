"""One of those whose durable steps are compared: a process of its own that takes rounds when it is told to.

A round is a number of sessions that run at the same time, each with as many steps as it is told. What has to be there before the
first step (a turn, a workflow, a graph) is made ready outside the time that counts, and its seconds are told apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.servers import CannotMeasure
from demo.process import Child

_STARTS_WITHIN_S = 60.0
_ROUND_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Taken:
    """How a round went: all its steps within ``took_s``, one by one in ``steps_ms``, and ``around_s`` for what surrounds them."""

    steps: int
    took_s: float
    steps_ms: list[float]
    around_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def steps_s(self) -> float:
        """Steps a second."""
        return self.steps / self.took_s


Take = Callable[[str, int, int], Taken]
"""Takes a round of a kind, with a number of sessions and of steps in each."""


def serve(take: Take, about: Mapping[str, Any]) -> None:
    """Say ``about`` on standard output, then take a round for each order on standard input until that ends. For the child."""
    print(json.dumps({"event": "ready", **about}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        taken = take(order["kind"], order["sessions"], order["steps"])
        print(json.dumps({"event": "taken", **asdict(taken)}), flush=True)


class Contestant:
    """The parent's end of such a process."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @property
    def about(self) -> Mapping[str, Any]:
        """What the child said of itself when it was ready."""
        return self._child.reports[0]

    async def take(self, kind: str, sessions: int, steps: int) -> Taken:
        """Have a round taken.

        Raises:
            RuntimeError: the child ended instead; the message names its log.
            TimeoutError: it took too long.
        """
        since = len(self._child.reports)
        await self._child.order(kind=kind, sessions=sessions, steps=steps)
        report = dict(await self._child.report(lambda _: True, within_s=_ROUND_WITHIN_S, since=since))
        del report["event"]
        return Taken(**report)


def made(folder: Path) -> Path:
    """Make a folder and return it."""
    folder.mkdir(parents=True)
    return folder


@asynccontextmanager
async def contestant(name: str, folder: Path, *arguments: str, needs: str = "") -> AsyncIterator[Contestant]:
    """Start ``python -m bench.<name> FOLDER ARGUMENTS…``; end it afterwards. The folder is there.

    ``needs`` is the package it cannot do without.

    Raises:
        CannotMeasure: the child ended before it was ready.
    """
    log = folder / "log.txt"
    child = Child(name, [sys.executable, "-m", f"bench.{name}", str(folder), *arguments], log)
    await child.start()
    try:
        try:
            await child.report(lambda report: report.get("event") == "ready", within_s=_STARTS_WITHIN_S)
        except RuntimeError as error:
            last = log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
            raise CannotMeasure(f"{name} does not start: {last}; make setup-bench installs {needs or 'what it needs'}") from error
        yield Contestant(child)
    finally:
        await child.stop()
