"""What a figure was measured on: machine, versions, load."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from appliance.version import VERSION


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, kernel and Python."""
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=True),
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "kernel": platform.release(),
        "arch": platform.machine(),
    }


def describe_versions(libraries: Iterable[str], debian: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of everything that was measured or measured with: Python packages and Debian's."""
    return {
        "floorhand": VERSION,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: _version(name) for name in libraries},
        **{name: _debian_version(name) for name in debian},
    }


def load_average() -> list[float]:
    """Return the load of the last 1, 5 and 15 minutes, the bench's own included."""
    return [round(each, 2) for each in os.getloadavg()]


def _cpu_model() -> str:
    """Return what the machine calls itself: a board's device tree, else the processor's name."""
    board = Path("/proc/device-tree/model")
    if board.exists():
        return board.read_text("utf-8", "replace").rstrip("\0")
    for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _debian_version(package: str) -> str:
    try:
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return asked.stdout.strip() or "not installed"
