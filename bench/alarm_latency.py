"""From a coil in the PLC to a durable alarm in a running core, beside a thirty-line script, at a 50 ms poll.

A coil is switched by a write to the simulated PLC, which tells the moment at which it was applied (CLOCK_MONOTONIC). For the core
the clock stops when the event is committed and another process can read it from the ledger; for the script, when its MQTT
message has arrived. Both poll the same PLC at the same time: they see the same switches and share the machine. The script keeps
nothing and says nothing; the core holds a conversation about each alarm meanwhile, which is why CPU is also taken while nothing
happens.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pymodbus.client import AsyncModbusTcpClient

from bench.figures import Findings
from bench.fsync import Disk
from bench.gateway import PlainClient, plain_client
from bench.ledger_watch import LedgerWatch
from bench.plants import coil_plant
from bench.quantiles import quantile, quantiles
from bench.running_core import GATEWAY, PASSWORDS, USER, Cost, cost_of, running_broker, running_core
from bench.servers import CannotMeasure, simulator
from demo.process import Child

POLL_S = 0.05
COILS = 50
MOST_BEYOND_FSYNC_MS = POLL_S * 1000 + 10
MOST_CPU_VS_SCRIPT = 1.5
SCRIPT_TOPIC = "plant/bench/script"  # what the shipped rules of the broker let a gateway publish
_SCRIPT = Path(__file__).with_name("alarm_script.py")
_WAITS_S = (0.3, 0.7)  # between two switches, so that they fall anywhere between two polls
_SEEN_WITHIN_S = 10.0
_STARTS_WITHIN_S = 30.0

Switch = tuple[int, bool]
"""A coil and its new state."""


@dataclass(slots=True)
class Timeline:
    """CLOCK_MONOTONIC in ns of every switch where it was applied and where it arrived, one list a coil and state."""

    applied: dict[Switch, list[int]] = field(default_factory=dict)
    script: dict[Switch, list[int]] = field(default_factory=dict)
    core: dict[Switch, list[int]] = field(default_factory=dict)
    stamped: dict[Switch, list[int]] = field(default_factory=dict)

    def latencies_ms(self, arrived: dict[Switch, list[int]], who: str) -> list[float]:
        """Return what each switch took.

        Raises:
            CannotMeasure: some never arrived, or something arrived twice.
        """
        times_ms: list[float] = []
        for switch, moments_ns in self.applied.items():
            came = arrived.get(switch, [])
            if len(came) != len(moments_ns):
                raise CannotMeasure(f"{who}: coil {switch[0]} turned {switch[1]} {len(moments_ns)} times, {len(came)} came")
            times_ms += [(end - start) / 1e6 for start, end in zip(moments_ns, came, strict=True)]
        return times_ms


async def measure_alarm_latency(findings: Findings, folder: Path, disk: Disk, *, switches: int, quiet_s: float) -> None:
    """Fill in ``alarm_latency_ms``, ``script_alarm_latency_ms``, and what core and script cost."""
    disk.probe()
    timeline = Timeline()
    async with simulator(folder, coil_plant(COILS, POLL_S)) as plant, running_broker(folder) as broker:
        plc_port = int(plant.reports[0]["port"])
        async with (
            running_core(folder / "alarm", coil_plant(COILS, POLL_S, plc_port), broker.port) as core,
            _script(folder, plc_port, broker.port) as script,
        ):
            with plain_client(broker.port, USER) as listener, LedgerWatch(core.database) as watch:
                _listen_to_script(listener, timeline)
                first = (core.cost(), cost_of(script))
                await asyncio.sleep(quiet_s)  # the measurement itself: what polling costs while nothing happens
                quiet = (core.cost(), cost_of(script))
                await _switch_coils(plc_port, plant, timeline, switches)
                await asyncio.to_thread(watch.wait, lambda rows: len(rows) >= switches, _SEEN_WITHIN_S)
                busy = (core.cost(), cost_of(script))
            for row in watch.rows:
                switch = (int(row.alarm_id.removeprefix("coil_")), row.change == "raised")
                timeline.core.setdefault(switch, []).append(row.seen_ns)
                timeline.stamped.setdefault(switch, []).append(row.stamped_ns)
    _note_cost(findings, first, quiet, busy)
    disk.probe()
    _note_latency(findings, timeline, disk.times_ms)


def _note_latency(findings: Findings, timeline: Timeline, fsyncs_ms: list[float]) -> None:
    ours_ms, script_ms = timeline.latencies_ms(timeline.core, "core"), timeline.latencies_ms(timeline.script, "script")
    figures = findings.figures
    figures["alarm_latency_ms"] = quantiles(ours_ms, 50, 95, 99)
    figures["alarm_stamped_ms"] = quantiles(timeline.latencies_ms(timeline.stamped, "core"), 50, 95, 99)
    figures["script_alarm_latency_ms"] = quantiles(script_ms, 50, 95, 99)
    for name, value in figures["alarm_latency_ms"].items():
        findings.compare(f"alarm_latency_vs_script.{name}", value, figures["script_alarm_latency_ms"][name])
    says = f"p99 less one fsync (its p99) at most {MOST_BEYOND_FSYNC_MS:g} ms: a poll and 10 ms"
    findings.reach("alarm_latency", quantile(ours_ms, 99) - quantile(fsyncs_ms, 99), MOST_BEYOND_FSYNC_MS, says)


def _note_cost(findings: Findings, first: tuple[Cost, Cost], quiet: tuple[Cost, Cost], busy: tuple[Cost, Cost]) -> None:
    figures = findings.figures
    for prefix, before, after in (("", quiet, busy), ("quiet_", first, quiet)):
        ours, script = (now.percent_since(then) for now, then in zip(after, before, strict=True))
        figures[f"{prefix}cpu_percent"], figures[f"script_{prefix}cpu_percent"] = round(ours, 2), round(script, 2)
        figures[f"{prefix}cpu_vs_script"] = findings.compare(f"{prefix}cpu_vs_script", ours, script)
    figures["rss_mb"], figures["script_rss_mb"] = (round(each.rss_mb, 1) for each in busy)
    findings.compare("rss_vs_script", busy[0].rss_mb, busy[1].rss_mb)
    says = f"CPU of the core at most {MOST_CPU_VS_SCRIPT:g} x the script's, alarms included"
    findings.reach("cpu_vs_script", figures["cpu_vs_script"], MOST_CPU_VS_SCRIPT, says)


async def _switch_coils(plc_port: int, plant: Child, timeline: Timeline, switches: int) -> None:
    """Turn one coil after the other on and off again; note when the PLC applied each."""
    since = len(plant.reports)
    client = AsyncModbusTcpClient("127.0.0.1", port=plc_port)
    await client.connect()
    try:
        for number in range(switches):
            coil, is_on = number // 2 % COILS, number % 2 == 0
            await client.write_coil(coil, is_on, device_id=1)
            await asyncio.sleep(random.uniform(*_WAITS_S))  # the measurement's own rhythm
    finally:
        client.close()
    await plant.report(lambda _: _writes(plant, since) == switches, within_s=_SEEN_WITHIN_S, since=0)
    for report in plant.reports[since:]:
        if report.get("event") == "write_received":
            timeline.applied.setdefault((int(report["address"]), bool(report["value"])), []).append(int(report["mono_ns"]))


def _writes(plant: Child, since: int) -> int:
    return sum(report.get("event") == "write_received" for report in plant.reports[since:])


def _listen_to_script(listener: PlainClient, timeline: Timeline) -> None:
    def take(payload: bytes, arrived_ns: int) -> None:
        told = json.loads(payload)
        timeline.script.setdefault((told["coil"], told["on"]), []).append(arrived_ns)

    listener.listen(SCRIPT_TOPIC, take)


@asynccontextmanager
async def _script(folder: Path, plc_port: int, mqtt_port: int) -> AsyncIterator[psutil.Process]:
    arguments = [str(plc_port), str(mqtt_port), GATEWAY, PASSWORDS[GATEWAY], str(COILS)]
    child = Child("script", [sys.executable, str(_SCRIPT), *arguments], folder / "script.log")
    await child.start()
    try:
        await child.report(lambda report: report.get("event") == "ready", within_s=_STARTS_WITHIN_S)
        yield psutil.Process(child.pid)
    finally:
        await child.stop()
