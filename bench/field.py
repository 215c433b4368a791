"""`make bench BENCH=field`: what the field drivers and an alarm's way into the ledger cost.

In: nothing but this machine. Out: `build/bench/field.json` and a table.

A reach that is missed is said in both and does not fail the run: figures are for people to judge. A measurement that cannot be
taken is named with the reason, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from appliance.foundation.log import start_logging
from bench.alarm_latency import measure_alarm_latency
from bench.figures import Findings, print_findings, write_json
from bench.flood import measure_flood
from bench.fsync import Disk
from bench.machine import describe_machine, describe_versions, load_average
from bench.mqtt_admission import measure_mqtt_admission
from bench.registers import measure_registers
from bench.servers import CannotMeasure
from bench.tags import measure_tags

OUTPUT = Path("build/bench/field.json")
PARTS = ("registers", "tags", "alarms", "mqtt", "flood")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rounds: int
    slice_s: float
    switches: int
    quiet_s: float
    messages: int
    flood: int


FULL = Size(rounds=15, slice_s=0.4, switches=200, quiet_s=30.0, messages=200, flood=20_000)
QUICK = Size(rounds=4, slice_s=0.1, switches=12, quiet_s=2.0, messages=12, flood=400)

Measure = Callable[[Findings, Path], Awaitable[None]]


def _parts(size: Size, disk: Disk) -> dict[str, Measure]:
    """Return the measurements in order."""
    return {
        "registers": lambda f, folder: measure_registers(f, folder, rounds=size.rounds, slice_s=size.slice_s),
        "tags": lambda f, folder: measure_tags(f, folder, rounds=max(1, size.rounds // 4)),
        "alarms": lambda f, folder: measure_alarm_latency(f, folder, disk, switches=size.switches, quiet_s=size.quiet_s),
        "mqtt": lambda f, folder: measure_mqtt_admission(f, folder, disk, messages=size.messages),
        "flood": lambda f, folder: measure_flood(f, folder, messages=size.flood),
    }


async def _measure(size: Size, only: list[str], folder: Path) -> Findings:
    findings = Findings()
    disk = Disk(folder)
    disk.probe()
    for name, measure in _parts(size, disk).items():
        if only and name not in only:
            continue
        print(f"bench: {name}", file=sys.stderr, flush=True)
        place = folder / name
        place.mkdir(parents=True)
        try:
            await measure(findings, place)
        except (CannotMeasure, RuntimeError, OSError) as error:
            findings.missing[name] = str(error) or type(error).__name__
    findings.figures["fsync_ms"] = disk.quantiles(50, 99)
    return findings


async def _until_told_to_stop(measuring: Coroutine[None, None, Findings]) -> Findings:
    """Await ``measuring``; SIGTERM cancels it as SIGINT does, so that whatever it started is ended."""
    task = asyncio.ensure_future(measuring)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def main() -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.field", description="Measure the field drivers and the alarms' way in")
    parser.add_argument(
        "--quick", action="store_true", help="a short run that shows that everything works; its figures mean little"
    )
    parser.add_argument("--only", action="append", default=[], choices=PARTS, help="measure this part; may be repeated")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    start_logging("error")
    folder = options.output.parent / "field-work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    about = {"bench": "field", "is_quick": options.quick, "at_utc": datetime.now(UTC).isoformat(timespec="seconds")}
    about |= {"machine": describe_machine(), "versions": describe_versions(), "load_before": load_average()}
    findings = asyncio.run(_until_told_to_stop(_measure(QUICK if options.quick else FULL, options.only, folder)))
    write_json(options.output, {**about, "load_after": load_average(), **findings.to_json()})
    print_findings("field", findings)
    print(options.output)
    if not findings.missing:
        shutil.rmtree(folder)
    return 1 if findings.missing else 0


if __name__ == "__main__":
    sys.exit(main())
