"""`make bench BENCH=sessions`: what an open conversation costs in memory, and how fast conversations are admitted and moved.

In: nothing but this machine. Out: `build/bench/sessions.json` and a table.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.command import Bench, Measure, run
from bench.contestant import made
from bench.figures import Findings
from bench.fsync import Disk
from bench.servers import CannotMeasure
from bench.session_yard import Yard

_SESSIONS, _QUICK_SESSIONS = 5_000, 400
_TRACED_SESSIONS = 1_000  # tracing makes everything several times as slow, and what it says does not depend on the number
MOST_BYTES = 100_000  # requirement S9
ARTICLE_BYTES = 22_000_000  # the article, for a session that is a process
_WITHIN_S = 900.0


async def measure_sessions(findings: Findings, folder: Path, disk: Disk, *, sessions: int) -> None:
    """Fill in memory, rates and hops."""
    resident = await _yard(made(folder / "resident"), sessions)
    disk.probe()
    traced = await _yard(made(folder / "traced"), min(sessions, _TRACED_SESSIONS), "traced")
    note(findings, resident, traced)


def note(findings: Findings, resident: Yard, traced: Yard) -> None:
    """Turn what the two runs found into figures and reaches."""
    figures = findings.figures
    figures["sessions"] = resident.sessions
    figures["bytes_a_session"] = round(resident.running_bytes / resident.sessions)
    figures["bytes_a_waiting_session"] = round(resident.waiting_bytes / resident.sessions)
    figures["python_bytes_a_session"] = round(traced.running_bytes / traced.sessions)
    figures["python_bytes_a_waiting_session"] = round(traced.waiting_bytes / traced.sessions)
    figures["admissions_s"] = resident.admissions_s
    figures["transitions_s"] = resident.transitions_s
    figures["transactions_a_conversation"] = resident.transactions
    figures["statements_a_conversation"] = resident.statements
    figures["hops_a_conversation"] = resident.hops
    figures["reads_a_conversation"] = resident.reads
    figures["sessions_lost"] = resident.unanswered
    findings.compare("article_bytes_vs_ours", ARTICLE_BYTES, figures["bytes_a_session"])
    largest = max(figures["bytes_a_session"], figures["python_bytes_a_session"])
    findings.reach(
        "bytes_a_session", largest, MOST_BYTES, f"a session that runs at most {MOST_BYTES // 1000} kB, resident or traced"
    )
    says = f"of {resident.sessions} open questions none is lost"
    findings.reach("sessions_lost", resident.unanswered, 0, says)
    crossed = resident.transactions + resident.reads
    says = f"of {resident.statements} statements: one for each of {resident.transactions} transactions and {resident.reads} reads"
    findings.reach("hops", resident.hops, crossed, says)


async def _yard(folder: Path, sessions: int, *arguments: str) -> Yard:
    """Run the yard in a process of its own."""
    command = [sys.executable, "-m", "bench.session_yard", str(folder), str(sessions), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_WITHIN_S):
            told, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise CannotMeasure(complaint.decode("utf-8", "replace").strip().rpartition("\n")[2])
    return Yard(**json.loads(told))


def _parts(is_quick: bool) -> Mapping[str, Measure]:
    sessions = _QUICK_SESSIONS if is_quick else _SESSIONS
    return {"sessions": lambda f, folder, disk: measure_sessions(f, folder, disk, sessions=sessions)}


BENCH = Bench("sessions", "Measure open sessions in one process", _parts, libraries=("psutil",))

if __name__ == "__main__":
    sys.exit(run(BENCH))
