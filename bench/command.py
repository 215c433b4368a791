"""``python -m bench.<name>``: takes the measurements that were asked for, writes them as JSON and prints them.

A reach that is missed is said in both and does not fail the run: figures are for people to judge. A measurement that cannot be
taken is named with the reason, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from appliance.foundation.log import start_logging
from bench.figures import Findings, print_findings, write_json
from bench.fsync import Disk
from bench.machine import describe_machine, describe_versions, load_average
from bench.servers import CannotMeasure

OUTPUT = Path("build/bench")

Measure = Callable[[Findings, Path, Disk], Awaitable[None]]
"""Fills in findings, in a folder of its own, on the disk that is probed."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One command. ``parts`` returns its measurements by name and in order, small ones if it is told to be quick."""

    name: str
    says: str
    parts: Callable[[bool], Mapping[str, Measure]]
    libraries: Sequence[str]
    debian: Sequence[str] = ()


def run(bench: Bench) -> int:
    """Measure, write, print; return the exit code."""
    names = tuple(bench.parts(True))
    parser = argparse.ArgumentParser(prog=f"python -m bench.{bench.name}", description=bench.says)
    parser.add_argument(
        "--quick", action="store_true", help="a short run that shows that everything works; its figures mean little"
    )
    parser.add_argument("--only", action="append", default=[], choices=names, help="measure this part; may be repeated")
    parser.add_argument("--output", type=Path, default=OUTPUT / f"{bench.name}.json")
    options = parser.parse_args()
    start_logging("error")
    folder = options.output.parent / f"{bench.name}-work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    about = {"bench": bench.name, "is_quick": options.quick, "at_utc": datetime.now(UTC).isoformat(timespec="seconds")}
    about |= {"machine": describe_machine(), "versions": describe_versions(bench.libraries, bench.debian)}
    about["load_before"] = load_average()
    parts = {name: part for name, part in bench.parts(options.quick).items() if not options.only or name in options.only}
    findings = asyncio.run(_until_told_to_stop(_measure(parts, folder)))
    write_json(options.output, {**about, "load_after": load_average(), **findings.to_json()})
    print_findings(bench.name, findings)
    print(options.output)
    if not findings.missing:
        shutil.rmtree(folder)
    return 1 if findings.missing else 0


async def _measure(parts: Mapping[str, Measure], folder: Path) -> Findings:
    findings = Findings()
    disk = Disk(folder)
    disk.probe()
    for name, measure in parts.items():
        print(f"bench: {name}", file=sys.stderr, flush=True)
        place = folder / name
        place.mkdir(parents=True)
        try:
            await measure(findings, place, disk)
        except (CannotMeasure, RuntimeError, OSError) as error:
            findings.missing[name] = str(error) or type(error).__name__
    findings.figures["fsync_ms"] = disk.quantiles(50, 99)
    return findings


async def _until_told_to_stop(measuring: Coroutine[None, None, Findings]) -> Findings:
    """Await ``measuring``; SIGTERM cancels it as SIGINT does, so that whatever it started is ended."""
    task = asyncio.ensure_future(measuring)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
