"""`make bench BENCH=field`: what the field drivers and an alarm's way into the ledger cost.

In: nothing but this machine. Out: `build/bench/field.json` and a table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from bench.alarm_latency import measure_alarm_latency
from bench.command import Bench, Measure, run
from bench.flood import measure_flood
from bench.mqtt_admission import measure_mqtt_admission
from bench.registers import measure_registers
from bench.tags import measure_tags


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


def _parts(is_quick: bool) -> Mapping[str, Measure]:
    size = QUICK if is_quick else FULL
    return {
        "registers": lambda f, folder, _: measure_registers(f, folder, rounds=size.rounds, slice_s=size.slice_s),
        "tags": lambda f, folder, _: measure_tags(f, folder, rounds=max(1, size.rounds // 4)),
        "alarms": lambda f, folder, disk: measure_alarm_latency(f, folder, disk, switches=size.switches, quiet_s=size.quiet_s),
        "mqtt": lambda f, folder, disk: measure_mqtt_admission(f, folder, disk, messages=size.messages),
        "flood": lambda f, folder, _: measure_flood(f, folder, messages=size.flood),
    }


BENCH = Bench(
    "field",
    "Measure the field drivers and the alarms' way in",
    _parts,
    libraries=("pymodbus", "paho-mqtt", "psutil"),
    debian=("mosquitto", "libmodbus5"),
)

if __name__ == "__main__":
    sys.exit(run(BENCH))
