"""Two hundred sessions that write at the same time: how long each waits until its record is on disk.

``crowded``: every writer hands in the next record as soon as it has its answer, so that 200 always wait. ``paced``: each pauses
in between, a thousand records a second together.
"""

from __future__ import annotations

from pathlib import Path

from bench.contestant import contestant, made
from bench.figures import Findings
from bench.fsync import Disk
from bench.quantiles import quantile, quantiles

WRITERS = 200
MOST_BEYOND_FSYNC_MS = 12.0  # the article: 8 to 12 ms under 200 concurrent sessions
_PROBES = 100


async def measure_writers(findings: Findings, folder: Path, disk: Disk, *, rounds: int, records: int) -> None:
    """Fill in ``writers_200_p99_ms``, ``writers_200_beyond_fsync_ms`` and the same for paced writers."""
    own = Disk(folder)
    times_ms: dict[str, list[float]] = {"writers": [], "paced": []}
    rates: list[float] = []
    async with contestant("ledger_ours", made(folder / "ours")) as ours:
        await ours.take("writers", WRITERS, records)  # warms up
        for _ in range(rounds):
            own.probe(_PROBES)
            for kind, times in times_ms.items():
                taken = await ours.take(kind, WRITERS, records)
                times += taken.steps_ms
                if kind == "writers":
                    rates.append(taken.steps_s)
    disk.times_ms += own.times_ms
    fsync_p99_ms = quantile(own.times_ms, 99)
    figures = findings.figures
    figures["writers_200_records_s"] = round(quantile(rates, 50))
    for kind, prefix in (("writers", "writers_200"), ("paced", "writers_200_paced")):
        found = quantiles(times_ms[kind], 50, 99)
        figures[f"{prefix}_p50_ms"], figures[f"{prefix}_p99_ms"] = found["p50"], found["p99"]
        figures[f"{prefix}_beyond_fsync_ms"] = round(found["p99"] - fsync_p99_ms, 3)
    says = f"p99 less one fsync (its p99) at most {MOST_BEYOND_FSYNC_MS:g} ms with {WRITERS} writers that never pause"
    findings.reach("writers_200", figures["writers_200_beyond_fsync_ms"], MOST_BEYOND_FSYNC_MS, says)
