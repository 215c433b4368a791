"""The warden: a small single-threaded process that forks a worker for each call and kills it when its time is over (S6).

Its clock is its own: a core whose event loop hangs still has its tools killed. When the core ends, the socket between them does,
and the warden kills its workers and ends too; when the warden is killed, the kernel kills its workers.

Run as ``python -m appliance.execution.workers.warden_process FD SCRATCH [MODULE …]``; modules are loaded before the first fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.contracts.clock import Clock
from appliance.execution.workers.tool_worker import work
from appliance.execution.workers.warden_words import LONGEST_SAID_BYTES, STOP_PATIENCE_S, Ended, line_of
from appliance.foundation.parent import adopt_orphans
from appliance.foundation.system_clock import SystemClock

_PREFIX = "call-"
_PIECE_BYTES = 65_536


@dataclass(slots=True)
class _Worker:
    """A call under way. ``due_ns`` is when it will be killed, None once it was; ``ended`` is why."""

    id: int
    pid: int
    pidfd: int
    answer: int
    scratch: str
    due_ns: int | None
    ended: Ended = Ended.ITSELF
    said: bytearray = field(default_factory=bytearray)


class WardenProcess:
    """Serves one core until it hangs up."""

    def __init__(self, core: socket.socket, scratch: Path, clock: Clock) -> None:
        self._core = core
        self._scratch = scratch
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, _Worker] = {}
        self._heard = b""
        self._to_say = b""
        self._is_open = True

    def serve(self) -> None:
        """Fork, watch and kill until the core hangs up; then kill what is left."""
        self._core.setblocking(False)
        self._selector.register(self._core, selectors.EVENT_READ, self._hear)
        for left in self._scratch.glob(f"{_PREFIX}*"):  # of a warden that was killed
            shutil.rmtree(left, ignore_errors=True)
        self._say({"ready": True})
        while self._is_open:
            for key, _ in self._selector.select(self._patience_s()):
                ready: Callable[[], None] = key.data
                ready()
            self._kill_overdue()
        for worker in list(self._workers.values()):
            self._kill(worker, Ended.STOPPED)
            self._bury(worker)

    def _patience_s(self) -> float | None:
        due_ns = min((worker.due_ns for worker in self._workers.values() if worker.due_ns is not None), default=None)
        return None if due_ns is None else max(due_ns - self._clock.monotonic_ns(), 0) / 1e9

    # the core -------------------------------------------------------------------------------------------------------
    def _hear(self) -> None:
        self._flush()
        try:
            heard = self._core.recv(_PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if not heard:
            self._is_open = False
            return
        *lines, self._heard = (self._heard + heard).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "stop" in message:
                self._stop(message["stop"])
            else:
                self._begin(message)

    def _say(self, message: Mapping[str, Any]) -> None:
        self._to_say += line_of(message)
        self._flush()

    def _flush(self) -> None:
        """Send what there is to say, as far as the core takes it: one that hangs must not keep a worker alive."""
        with contextlib.suppress(BlockingIOError, OSError):
            while self._to_say:
                self._to_say = self._to_say[self._core.send(self._to_say) :]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._to_say else 0)
        self._selector.modify(self._core, wanted, self._hear)

    # workers --------------------------------------------------------------------------------------------------------
    def _begin(self, order: Mapping[str, Any]) -> None:
        due_ns = self._clock.monotonic_ns() + int(order["bound_ms"]) * 1_000_000
        scratch = tempfile.mkdtemp(prefix=_PREFIX, dir=self._scratch)
        answer, said = os.pipe()
        warden = os.getpid()
        pid = os.fork()
        if pid == 0:
            work(order, scratch, said, warden)
        os.close(said)
        os.set_blocking(answer, False)
        worker = _Worker(order["id"], pid, os.pidfd_open(pid), answer, scratch, due_ns)
        self._workers[worker.id] = worker
        self._selector.register(worker.pidfd, selectors.EVENT_READ, lambda: self._bury(worker))
        self._selector.register(answer, selectors.EVENT_READ, lambda: self._listen(worker))

    def _stop(self, call: int) -> None:
        worker = self._workers.get(call)
        if worker is not None and worker.ended is Ended.ITSELF:
            worker.ended = Ended.STOPPED
            worker.due_ns = self._clock.monotonic_ns() + int(STOP_PATIENCE_S * 1e9)
            _send(worker, signal.SIGTERM)

    def _listen(self, worker: _Worker) -> None:
        """Take in what a worker says. A pipe that is closed says nothing more; the worker may still have to be waited for."""
        while worker.id in self._workers:  # else it was buried a moment ago
            try:
                piece = os.read(worker.answer, _PIECE_BYTES)
            except BlockingIOError:
                return
            if not piece:
                self._selector.unregister(worker.answer)
                return
            worker.said += piece[: LONGEST_SAID_BYTES + 1 - len(worker.said)]
            if len(worker.said) > LONGEST_SAID_BYTES:
                self._selector.unregister(worker.answer)
                self._kill(worker, Ended.FLOOD)
                return

    def _kill_overdue(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for worker in list(self._workers.values()):
            if worker.due_ns is not None and worker.due_ns <= now_ns:
                self._kill(worker, Ended.TIMEOUT if worker.ended is Ended.ITSELF else worker.ended)

    def _kill(self, worker: _Worker, why: Ended) -> None:
        """Kill a worker; it is buried when the kernel says that it is dead."""
        worker.ended = why
        worker.due_ns = None
        _send(worker, signal.SIGKILL)

    def _bury(self, worker: _Worker) -> None:
        """Kill what a dead worker left behind, remove its scratch folder and tell the core."""
        if worker.answer in self._selector.get_map():
            self._listen(worker)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        del self._workers[worker.id]
        self._kill_orphans()
        for descriptor in (worker.pidfd, worker.answer):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
            os.close(descriptor)
        shutil.rmtree(worker.scratch, ignore_errors=True)
        said = bytes(worker.said).decode("utf-8", "replace") if worker.ended is not Ended.FLOOD else ""
        why = "" if status == 0 else f"signal {-status}" if status < 0 else f"exit code {status}"
        self._say({"id": worker.id, "ended": worker.ended, "why": why, "said": said})

    def _kill_orphans(self) -> None:
        """Kill the children of dead workers that had left their session: they are this process' own by now."""
        known = {worker.pid for worker in self._workers.values()}
        while left := _children() - known:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _send(worker: _Worker, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # dead already, and buried soon
        signal.pidfd_send_signal(worker.pidfd, how)


def _children() -> set[int]:
    """Return the processes whose parent this one is: from the kernel's list of them where it keeps one (proc(5), ``children``),
    else from the fourth field of every ``/proc/PID/stat``."""
    try:
        return set(map(int, Path("/proc/thread-self/children").read_text("ascii").split()))
    except FileNotFoundError:
        pass
    own, found = str(os.getpid()), set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text("utf-8", "replace")
                if stat.rpartition(")")[2].split()[1] == own:
                    found.add(int(entry.name))
    return found


def main() -> None:
    """Serve the core at the other end of the descriptor that is named."""
    adopt_orphans()
    for told_to_all in (signal.SIGINT, signal.SIGTERM):  # it ends with the core, which may let calls end first, and then hangs up
        signal.signal(told_to_all, signal.SIG_IGN)
    for module in sys.argv[3:]:
        with contextlib.suppress(Exception):  # whoever calls its tool is told
            importlib.import_module(module)
    with socket.socket(fileno=int(sys.argv[1])) as core:
        WardenProcess(core, Path(sys.argv[2]), SystemClock()).serve()


if __name__ == "__main__":
    main()
