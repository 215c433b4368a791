"""Everything the runtime adds round a tool that does nothing: intent, call, end, the ledger included.

One turn of effects at a time through the real runner, and beside each as many durable commits of one small record on the same
ledger: what the steps cost is compared with what the disk cost in the very same seconds.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from bench.durable_core import durable_core
from bench.figures import Findings
from bench.fsync import Disk
from bench.ledger_ours import Rounds
from bench.quantiles import quantiles

_STEPS = 20  # of a turn, and commits beside it
_MORE_MS = 1.0  # what may be added to two commits


async def measure_overhead(findings: Findings, folder: Path, disk: Disk, *, turns: int) -> None:
    """Fill in ``tool_overhead_ms`` and ``commit_ms``."""
    steps_ms: list[float] = []
    commits_ms: list[float] = []
    async with durable_core(folder) as core:
        rounds = Rounds(core)
        for kind in ("runner", "writers"):  # what is loaded or compiled by the first is not counted
            await rounds.take(kind, 1, _STEPS)
        for _ in range(turns):
            steps_ms += (await rounds.take("runner", 1, _STEPS)).steps_ms
            commits_ms += (await rounds.take("writers", 1, _STEPS)).steps_ms
    disk.probe()
    note(findings, steps_ms, commits_ms)


def note(findings: Findings, steps_ms: list[float], commits_ms: list[float]) -> None:
    """Turn what was measured into figures and reaches."""
    figures = findings.figures
    figures["tool_overhead_ms"] = quantiles(steps_ms, 50, 99)
    figures["tool_overhead_ms"]["mean"] = round(statistics.fmean(steps_ms), 3)
    figures["commit_ms"] = quantiles(commits_ms, 50, 99)
    for percentile in ("p50", "p99"):
        bound_ms = round(2 * figures["commit_ms"][percentile] + _MORE_MS, 3)
        says = f"round a tool that does nothing at most two durable commits and 1 ms: {bound_ms:g} ms ({percentile})"
        findings.reach(f"tool_overhead_{percentile}_ms", figures["tool_overhead_ms"][percentile], bound_ms, says)
    findings.compare("tool_overhead_vs_commit", figures["tool_overhead_ms"]["p50"], figures["commit_ms"]["p50"])
