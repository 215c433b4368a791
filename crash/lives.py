"""The parent's end of :mod:`crash.life`: servers that lead one life each at a time, and what came of a life."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from crash.books import Findings
from crash.kill_switch import Point, points_of
from crash.life import AT_REST, READY, Order

T = TypeVar("T")

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Lived:
    """What came of one life. ``points`` are those it passed, the deadly one last; ``recovery`` those before it was at rest."""

    has_died: bool
    points: list[Point]
    recovery: list[Point]
    ready_ms: float | None
    findings: Findings


class Broke(Exception):
    """A life ended neither by itself nor by its own kill."""


class Lives:
    """Leads lives, ``at_once`` of them side by side."""

    def __init__(self, servers: list[subprocess.Popen[str]]) -> None:
        """Use :func:`open_lives`."""
        self._free: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        for server in servers:
            self._free.put(server)
        self._pool = ThreadPoolExecutor(len(servers), thread_name_prefix="lives")
        self.count = 0

    def live(self, order: Order) -> Lived:
        """Lead one life in a process of its own.

        Raises:
            Broke: it did not come to its end; the folder's ``failure.txt`` says why.
        """
        server = self._free.get()
        try:
            assert server.stdin is not None and server.stdout is not None
            server.stdin.write(json.dumps(asdict(order)) + "\n")
            server.stdin.flush()
            line = server.stdout.readline()
        finally:
            self._free.put(server)
        if not line:
            raise Broke(f"the server of lives ended in {order.folder}")
        answer = json.loads(line)
        self.count += 1
        if answer["status"] not in (0, -signal.SIGKILL):
            raise Broke((Path(order.folder) / "failure.txt").read_text("utf-8").strip().splitlines()[-1])
        lines = order.trace.read_text("utf-8").splitlines() if order.trace.exists() else []
        ready_ms = next((float(each.split()[1]) for each in lines if each.startswith(READY)), None)
        until = lines.index(AT_REST) if AT_REST in lines else len(lines)
        findings = Findings(**answer["findings"])
        return Lived(answer["status"] != 0, points_of(lines), points_of(lines[:until]), ready_ms, findings)

    def each(self, work: Callable[[T], None], cases: Iterable[T]) -> Iterator[None]:
        """Do ``work`` for every case, several side by side; yield after each. What one raises is raised here."""
        futures: list[Future[None]] = [self._pool.submit(work, case) for case in cases]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Wait for the lives under way."""
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def open_lives(at_once: int) -> Iterator[Lives]:
    """Start the servers; end them afterwards."""
    command = [sys.executable, "-m", "crash.life"]
    servers = [
        subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(at_once)
    ]
    lives = Lives(servers)
    try:
        yield lives
    finally:
        lives.close()
        for server in servers:
            with server:
                assert server.stdin is not None
                server.stdin.close()
