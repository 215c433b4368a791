"""Vital signs of the machine, read from /proc and /sys. What a machine does not tell is None, never a guess."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Bits of the firmware's get_throttled answer (Raspberry Pi documentation, vcgencmd): now, and since boot 16 bits higher.
_THROTTLE_BITS = {0: "under_voltage", 1: "frequency_capped", 2: "throttled", 3: "soft_temperature_limit"}
_SINCE_BOOT_SHIFT = 16


@dataclass(frozen=True, slots=True)
class Vitals:
    """One look at the machine. ``throttling`` is None where the firmware cannot be asked, empty when all is well."""

    cpu_temperature_degc: float | None
    load_1min: float
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    own_memory_bytes: int | None
    data_free_bytes: int | None
    data_total_bytes: int | None
    throttling: tuple[str, ...] | None

    def to_json(self) -> Mapping[str, Any]:
        """Return the fields as JSON knows them."""
        return asdict(self)


def read_vitals(data_dir: Path, *, sys_root: Path = Path("/sys"), proc_root: Path = Path("/proc")) -> Vitals:
    """Look once; a few small file reads, no waiting. ``data_dir`` names the partition whose room is told."""
    memory = _table_kb(proc_root / "meminfo")
    own = _table_kb(proc_root / "self/status")
    disk = shutil.disk_usage(data_dir) if data_dir.exists() else None
    return Vitals(
        cpu_temperature_degc=_hottest_degc(sys_root),
        load_1min=os.getloadavg()[0],
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        own_memory_bytes=own.get("VmRSS"),
        data_free_bytes=disk.free if disk else None,
        data_total_bytes=disk.total if disk else None,
        throttling=_throttling(sys_root),
    )


def _hottest_degc(sys_root: Path) -> float | None:
    """Hottest thermal zone; the kernel gives millidegrees (Documentation/driver-api/thermal/sysfs-api)."""
    readings = [_number(zone) for zone in sorted(sys_root.glob("class/thermal/thermal_zone*/temp"))]
    known = [millidegrees / 1000 for millidegrees in readings if millidegrees is not None]
    return max(known, default=None)


def _throttling(sys_root: Path) -> tuple[str, ...] | None:
    """Ask the Pi's firmware driver; older kernels only have the under-voltage alarm of its hwmon."""
    firmware = sys_root / "devices/platform/soc/soc:firmware/get_throttled"
    if (text := _text(firmware)) is not None:
        bits = int(text, 16)
        now = [name for bit, name in _THROTTLE_BITS.items() if bits >> bit & 1]
        before = [f"{name}_since_boot" for bit, name in _THROTTLE_BITS.items() if bits >> (bit + _SINCE_BOOT_SHIFT) & 1]
        return (*now, *before)
    for monitor in sorted(sys_root.glob("class/hwmon/hwmon*")):
        if _text(monitor / "name") == "rpi_volt":
            return ("under_voltage",) if _number(monitor / "in0_lcrit_alarm") else ()
    return None


def _table_kb(path: Path) -> dict[str, int]:
    """Return the ``Name:   123 kB`` lines of a /proc file in bytes."""
    table: dict[str, int] = {}
    for line in (_text(path) or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            table[name] = int(words[0]) * 1024
    return table


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
