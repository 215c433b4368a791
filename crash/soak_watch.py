"""What the core uses while it is soaked: memory, descriptors, threads, the length of its log and of its queue, life by life."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_EVERY_S = 0.5
_WAITING_EVERY = 4  # samples: counting asks the core itself
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. ``age_s`` is since the process was ready, ``waiting`` how many inputs are queued."""

    at_s: float
    age_s: float
    rss_mb: float
    fds: int
    threads: int
    wal_mb: float
    waiting: int


@dataclass(slots=True)
class Life:
    """One process from READY to its end."""

    number: int
    ready_s: float
    ended_by: str = ""
    samples: list[Sample] = field(default_factory=list)

    def slope(self, of: Callable[[Sample], float], warm_up_s: float, least_s: float) -> float | None:
        """Return the growth a minute after the warm-up; None for a life too short to tell."""
        late = [sample for sample in self.samples if sample.age_s >= warm_up_s]
        if not late or late[-1].age_s - late[0].age_s < least_s:
            return None
        return slope([sample.age_s for sample in late], [of(sample) for sample in late]) * 60


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of the line that fits best (least squares)."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((each - mean_x) ** 2 for each in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread if spread else 0.0


class Watch:
    """Looks twice a second."""

    def __init__(self, write_ahead_log: Path, count_waiting: Callable[[], Awaitable[int]]) -> None:
        self._log, self._count_waiting, self._began_s = write_ahead_log, count_waiting, time.monotonic()
        self.lives: list[Life] = []

    async def follow(self, life: Life, pid: int) -> None:
        """Look at a process until it is ended, or this is cancelled."""
        self.lives.append(life)
        ready_at_s, waiting = time.monotonic(), 0
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            while not life.ended_by and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                if len(life.samples) % _WAITING_EVERY == 0:
                    waiting = await self._count_waiting()
                now_s = time.monotonic()
                life.samples.append(
                    Sample(
                        round(now_s - self._began_s, 2),
                        round(now_s - ready_at_s, 2),
                        round(process.memory_info().rss / 2**20, 2),
                        process.num_fds(),
                        process.num_threads(),
                        round(self._log_mb(), 2),
                        waiting,
                    )
                )
                await asyncio.sleep(_EVERY_S)

    def _log_mb(self) -> float:
        try:
            return self._log.stat().st_size / 2**20
        except FileNotFoundError:
            return 0.0

    def samples(self) -> list[Sample]:
        """Every sample, in order."""
        return [sample for life in self.lives for sample in life.samples]


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Return values as a row of bars, the highest of each stretch."""
    if not values:
        return ""
    step = max(1, -(-len(values) // width))
    peaks = [max(values[start : start + step]) for start in range(0, len(values), step)]
    low, high = min(peaks), max(peaks)
    return "".join(_BARS[round((peak - low) / (high - low) * (len(_BARS) - 1)) if high > low else 0] for peak in peaks)
