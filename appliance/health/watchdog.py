"""Three watchdogs: the manager's (fed by progress), the event loop's, and the one over the start.

A process that hangs is worse than one that ends: systemd starts it again, and the ledger says where it was.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from appliance.contracts.clock import Clock
from appliance.health.sd_notify import ServiceNotifier

EXIT_TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h: the service manager starts us again
LOOP_CHECK_S = 10.0
LOOP_MISSES = 3
START_LIMIT_S = 300.0
_FEEDS_PER_WATCHDOG = 3  # sd_watchdog_enabled(3) asks for twice at least; a third covers one lost datagram


class Progress:
    """Count of the conductor's steps, and whether any step is due.

    ``is_idle`` says that no turn runs and none waits: then no step can be expected, and none is missed.
    """

    def __init__(self, clock: Clock, is_idle: Callable[[], bool]) -> None:
        self._clock = clock
        self.is_idle = is_idle
        self.beats = 0
        self._beat_mono_ns = clock.monotonic_ns()

    def beat(self) -> None:
        """Say that a step was made."""
        self.beats += 1
        self._beat_mono_ns = self._clock.monotonic_ns()

    def silent_s(self) -> float:
        """Seconds since the last step."""
        return (self._clock.monotonic_ns() - self._beat_mono_ns) / 1e9


class ManagerWatchdog:
    """Passes the conductor's progress on to the service manager; work without progress gives no sign of life."""

    def __init__(self, progress: Progress, notifier: ServiceNotifier) -> None:
        self._progress = progress
        self._notifier = notifier

    async def run(self) -> None:
        """Feed for ever; waits for ever when the manager wants no signs of life."""
        limit_s = self._notifier.watchdog_s
        if limit_s is None:
            await asyncio.Event().wait()
            return
        passed_on = -1
        while True:
            if self._progress.beats != passed_on or self._progress.is_idle():
                passed_on = self._progress.beats
                self._notifier.alive()
            await asyncio.sleep(limit_s / _FEEDS_PER_WATCHDOG)


class LoopWatchdog:
    """Ends the process when the event loop stops turning: ``misses`` checks in a row, ``check_s`` apart.

    The check runs on a thread of its own, since a stuck loop cannot look at itself. Stacks of all threads go to ``report``.
    """

    def __init__(
        self,
        *,
        check_s: float = LOOP_CHECK_S,
        misses: int = LOOP_MISSES,
        report: TextIO | None = None,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        self._check_s = check_s
        self._misses = misses
        self._report = report
        self._end = end
        self._turned = threading.Event()
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        watcher = threading.Thread(target=self._watch, args=(loop,), name="loop watchdog", daemon=True)
        watcher.start()
        try:
            await asyncio.Event().wait()
        finally:
            self._stopped.set()
            self._turned.set()
            watcher.join()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        missed = 0
        while not self._stopped.is_set():
            self._turned.clear()
            loop.call_soon_threadsafe(self._turned.set)
            if self._turned.wait(self._check_s):
                missed = 0
                self._stopped.wait(self._check_s)
                continue
            missed += 1
            if missed >= self._misses:
                dump_stacks(f"the event loop did not turn for {missed * self._check_s:g} s", self._report)
                self._end(EXIT_TRY_AGAIN)
                return


class StartWatchdog:
    """Ends the process when the start takes longer than ``limit_s``. Use as a context round the start."""

    def __init__(
        self, *, limit_s: float = START_LIMIT_S, report: TextIO | None = None, end: Callable[[int], None] = os._exit
    ) -> None:
        self._limit_s = limit_s
        self._report = report
        self._end = end
        self._started = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="start watchdog", daemon=True)

    def __enter__(self) -> StartWatchdog:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.started()

    def started(self) -> None:
        """The start is over; may be called more than once."""
        self._started.set()
        self._watcher.join()

    def _watch(self) -> None:
        if not self._started.wait(self._limit_s):
            dump_stacks(f"the start was not over after {self._limit_s:g} s", self._report)
            self._end(EXIT_TRY_AGAIN)


def dump_stacks(why: str, report: TextIO | None = None) -> None:
    """Write ``why`` and the stack of every thread to ``report`` (standard error by default)."""
    report = sys.stderr if report is None else report
    report.write(f"watchdog: {why}; stacks follow\n")
    report.flush()
    faulthandler.dump_traceback(file=report, all_threads=True)
