"""From a gateway's publish to the core's acknowledgement, which is sent only after the alarm is durable.

The acknowledgement is seen on the wire, by a relay between core and broker that adds about a tenth of a millisecond each way.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from bench.ack_watch import watching_acks
from bench.figures import Findings
from bench.fsync import Disk
from bench.gateway import alarm_message, plain_client
from bench.plants import gateway_plant
from bench.quantiles import quantiles
from bench.running_core import running_broker, running_core
from bench.servers import CannotMeasure, libmodbus_server

_ALARMS = 100
_WAITS_S = (0.05, 0.15)  # between two messages
_ACKED_WITHIN_S = 20.0


async def measure_mqtt_admission(findings: Findings, folder: Path, disk: Disk, *, messages: int) -> None:
    """Fill in ``mqtt_admit_ms``."""
    times_ms = []
    disk.probe()
    async with (
        libmodbus_server(folder) as plc_port,
        running_broker(folder) as broker,
        watching_acks(broker.port) as acks,
        running_core(folder / "mqtt", gateway_plant(_ALARMS, plc_port), acks.port),
    ):
        with plain_client(broker.port) as gateway:
            for number in range(messages):
                pair = number // 2
                payload = alarm_message(pair % _ALARMS, pair, "cleared" if number % 2 else "raised")
                before = len(acks.acked_ns)
                published_ns = time.monotonic_ns()
                gateway.publish(payload)
                if not await acks.wait(before + 1, _ACKED_WITHIN_S):
                    raise CannotMeasure(f"message {number} was not acknowledged within {_ACKED_WITHIN_S:g} s")
                times_ms.append((acks.acked_ns[before] - published_ns) / 1e6)
                await asyncio.sleep(random.uniform(*_WAITS_S))
    disk.probe()
    found = quantiles(times_ms, 50, 99)
    findings.figures["mqtt_admit_ms"] = found
    fsync_ms = disk.quantiles(50, 99)
    for name, value in found.items():
        findings.compare(f"mqtt_admit_vs_fsync.{name}", value, fsync_ms[name])
