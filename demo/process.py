"""A child process that reports in JSON lines and takes orders the same way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Report = Mapping[str, Any]

_LAST_WORDS_S = 5.0


class Child:
    """One process of the site. Its standard output is kept as reports when it is JSON, its errors go to ``log``."""

    def __init__(self, name: str, command: list[str], log: Path, environ: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.reports: list[Report] = []
        self._command = command
        self._log = log
        self._environ = {**os.environ, **(environ or {})}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    @property
    def pid(self) -> int:
        """Process id of the running child."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process; it may be started again after it ended."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environ,
                limit=1 << 20,
            )
        self._reader = asyncio.create_task(self._read(self._process), name=f"read {self.name}")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            try:
                report = json.loads(line)
            except ValueError:
                continue  # an ordinary line for people
            if isinstance(report, dict):
                async with self._changed:
                    self.reports.append(report)
                    self._changed.notify_all()
        await process.wait()
        async with self._changed:
            self._changed.notify_all()

    async def order(self, **order: Any) -> None:
        """Send one JSON line to the child."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()

    async def report(self, wanted: Callable[[Report], bool], *, within_s: float, since: int = 0) -> Report:
        """Return the first report from index ``since`` on that is ``wanted``.

        Raises:
            TimeoutError: none came within ``within_s``.
            RuntimeError: the child ended instead.
        """
        async with asyncio.timeout(within_s), self._changed:
            while True:
                for report in self.reports[since:]:
                    if wanted(report):
                        return report
                if not self.is_running:
                    raise RuntimeError(f"{self.name} ended; see {self._log}")
                await self._changed.wait()

    async def ended(self, within_s: float) -> int:
        """Return the exit code once the child has ended by itself.

        Raises:
            TimeoutError: it still runs after ``within_s``.
        """
        assert self._process is not None
        async with asyncio.timeout(within_s):
            await self._process.wait()
        return await self.stop()

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        await self._end(signal.SIGKILL, 5.0)

    async def stop(self, within_s: float = 15.0) -> int:
        """SIGTERM, SIGKILL after ``within_s``; return the exit code (negative: the signal)."""
        return await self._end(signal.SIGTERM, within_s)

    async def _end(self, how: signal.Signals, within_s: float) -> int:
        process = self._process
        if process is None:
            return 0
        if process.returncode is None:
            process.send_signal(how)
            try:
                async with asyncio.timeout(within_s):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=_LAST_WORDS_S)
            self._reader.cancel()  # a child of the child may still hold the pipe open; nobody waits for its end
            await asyncio.gather(self._reader, return_exceptions=True)
        assert process.returncode is not None
        return process.returncode
