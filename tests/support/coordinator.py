"""A real coordinator in a process of its own, an appliance's side of sync to go with it, and a network that loses things."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from appliance.contracts.operation import OperationLane
from appliance.coordination.availability import Availability
from appliance.foundation.supervisor import Degraded
from appliance.store import operations
from appliance.sync.downlink import Downlink
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.settings import SyncSettings
from appliance.sync.uplink import Uplink
from tests.support.clock import CountingIds, ManualClock
from tests.support.ledger import Bench, open_bench

_END_S = 10.0
QUICK = {"first_contact_s": 0.01, "retry_first_s": 0.005, "retry_longest_s": 0.04, "poll_s": 0.02, "total_timeout_s": 5.0}


class CoordinatorProcess:
    """``python -m appliance.coordinator`` on ``folder/coordinator.db``; keeps its port over restarts."""

    def __init__(self, folder: Path, *extra: str) -> None:
        self.database = folder / "coordinator.db"
        self.token_file = folder / "admin-token"
        self.port = 0
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if '--tls-cert' in self._extra else ''}://127.0.0.1:{self.port}"

    @property
    def admin_token(self) -> str:
        return self.token_file.read_text(encoding="utf-8").strip()

    def start(self) -> Self:
        """Start and return once it listens."""
        arguments = ["--database", str(self.database), "--admin-token-file", str(self.token_file), "--port", str(self.port)]
        command = [sys.executable, "-m", "appliance.coordinator", *arguments, "--log-level", "error", *self._extra]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the coordinator ended with {self._process.wait(_END_S)}"
        self.port = int(json.loads(line)["port"])
        return self

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            process.send_signal(number)
            return process.wait(_END_S)

    def ask(self, token: str | None, method: str, path: str, **request: Any) -> httpx.Response:
        """Ask with a token, or with none."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30, verify=False) as client:
            return client.request(method, path, headers=headers | request.pop("headers", {}), **request)

    def admin(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Ask as the administrator."""
        return self.ask(self.admin_token, method, path, **request)

    def enrol(self, name: str) -> str:
        """Enrol a device and return its token."""
        answer = self.admin("POST", "/v1/devices", json={"name": name})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """Read its database from beside."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, parameters)]


@contextmanager
def running_coordinator(folder: Path, *extra: str) -> Iterator[CoordinatorProcess]:
    """Start a coordinator; end it however the test left it."""
    coordinator = CoordinatorProcess(folder, *extra)
    try:
        yield coordinator.start()
    finally:
        coordinator.kill()


class Network(httpx.AsyncBaseTransport):
    """A real network that can be cut, and that loses requests and replies by dice. ``seen`` are the requests that set out."""

    def __init__(self, *, lost_requests: float = 0.0, lost_replies: float = 0.0, seed: int = 1) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self._dice = random.Random(seed)
        self.lost_requests = lost_requests
        self.lost_replies = lost_replies
        self.is_cut = False
        self.lost = 0
        self.seen: list[tuple[str, str, dict[str, Any]]] = []
        self.before: Callable[[httpx.Request], Awaitable[None]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else {}
        self.seen.append((request.method, request.url.path, body))
        if self.before is not None:
            await self.before(request)
        if self.is_cut or self._dice.random() < self.lost_requests:
            self.lost += 1
            raise httpx.ConnectError("the request was lost", request=request)
        response = await self._inner.handle_async_request(request)
        await response.aread()
        if self.is_cut or self._dice.random() < self.lost_replies:  # what was under way at the cut is lost too
            self.lost += 1
            raise httpx.ReadError("the reply was lost", request=request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def pushes(self) -> list[dict[str, Any]]:
        return [body for method, path, body in self.seen if (method, path) == ("POST", "/v1/operations")]


@dataclass
class Side:
    """The appliance's side, running: a real ledger, its uplink and downlink."""

    device: str
    bench: Bench
    uplink: Uplink
    downlink: Downlink
    availability: Availability
    degraded: Degraded
    network: Network
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def write(self, lane: OperationLane, count: int, kind: str = "test.noted", **payload: Any) -> None:
        """Commit ``count`` operations, each in a transaction of its own handed in together, and notify."""

        async def one(number: int) -> None:
            content = {"n": number, "text": "Motor 3 läuft heiß — 电机三过热", **payload}
            await self.bench.database.transaction(
                lambda tx: operations.append(tx, self.bench.clock, lane, kind, f"entity-{number}", content)
            )

        await asyncio.gather(*(one(number) for number in range(count)))
        self.uplink.notify()

    async def log(self) -> list[dict[str, Any]]:
        """The operation log as it should arrive."""
        columns = "lane, seq, kind, entity, payload, at_utc, clock_synced, prev_hash, hash"
        return await self.bench.rows(f"SELECT {columns} FROM operation ORDER BY lane, seq")

    async def kinds(self, *wanted: str) -> list[str]:
        """Kinds of P1 entries in order, only those asked for."""
        return [kind for kind in await self.bench.kinds(OperationLane.P1) if kind in wanted]


@asynccontextmanager
async def appliance_side(
    folder: Path,
    url: str,
    token: str,
    *,
    network: Network | None = None,
    device: str = "line-3",
    clock: ManualClock | None = None,
    ids: CountingIds | None = None,
    **settings: Any,
) -> AsyncIterator[Side]:
    """Open the ledger in ``folder`` and run sync on it; leaving is a crash: tasks are cancelled wherever they are."""
    network = network or Network()
    chosen = SyncSettings(coordinator=url, device=device, token=token, **QUICK | settings)
    async with open_bench(folder, clock=clock, ids=ids, origin=device) as bench:
        degraded = Degraded()
        link = HttpCoordinator(chosen, transport=network)
        availability = Availability(bench.database, bench.clock, degraded)
        uplink = Uplink(bench.database, link, bench.clock, chosen, availability, degraded)
        downlink = Downlink(bench.database, link, bench.clock, chosen, availability)
        side = Side(device, bench, uplink, downlink, availability, degraded, network)
        side.tasks = [asyncio.create_task(uplink.run()), asyncio.create_task(downlink.run())]
        try:
            yield side
        finally:
            for task in side.tasks:
                task.cancel()
            ended = await asyncio.gather(*side.tasks, return_exceptions=True)
            await link.close()
            await network.aclose()
            for error in ended:
                if error is not None and not isinstance(error, asyncio.CancelledError):
                    raise error


async def eventually(condition: Callable[[], bool | Awaitable[bool]], within_s: float = 20.0) -> None:
    """Return as soon as the condition holds; fail after ``within_s``."""
    deadline = time.monotonic() + within_s
    while True:
        holds = condition()
        if isinstance(holds, Awaitable):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.01)


def arrived(coordinator: CoordinatorProcess, device: str = "line-3") -> list[dict[str, Any]]:
    """What the coordinator holds of a device, in the form of :meth:`Side.log`."""
    columns = "lane, seq, kind, entity, payload, at_utc, clock_synced, prev_hash, hash"
    return coordinator.rows(f"SELECT {columns} FROM operation WHERE device = ? ORDER BY lane, seq", device)
