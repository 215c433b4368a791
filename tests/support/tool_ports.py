"""What the shipped tools need besides the rooms, for tests that are about something else."""

from __future__ import annotations

from typing import Any

from appliance.execution.tools.notify import Receivers

VITALS: dict[str, Any] = {
    "cpu_temperature_degc": 52.4, "load_1min": 0.3, "memory_total_bytes": 4_000, "memory_available_bytes": 1_640,
    "own_memory_bytes": 100, "data_free_bytes": 300, "data_total_bytes": 1_000, "throttling": [],
}  # fmt: skip
"""A machine that is well."""

TOOL_PORTS: dict[str, Any] = {
    "receivers": Receivers(("maintenance",), "floorhand/line-3/notices", "line-3"),
    "read_vitals": lambda: VITALS,
}
