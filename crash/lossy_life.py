"""Lives of the product on the lossy file system, with Python's own SQLite: one fork each, so that nothing survives in memory.

Reads one order a line, ``{"folder", "name", "seed", "steps"}``, and answers with ``{"told": [[what, value], …], "status": …}``
when the life is over, by itself or since the power failed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from appliance.contracts.errors import FloorhandError
from crash.power_work import live

_LONGEST_S = 30.0
_FELL = 3


def run(order: dict[str, Any]) -> dict[str, Any]:
    """Live once; return what was told to somebody."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _live(order, writing)
    os.close(writing)
    told = b""
    while select.select([reading], [], [], _LONGEST_S)[0] and (chunk := os.read(reading, 1 << 16)):
        told += chunk
    os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return {"told": [json.loads(line) for line in told.splitlines()], "status": status}


def _live(order: dict[str, Any], writing: int) -> None:
    def tell(what: str, value: Any) -> None:
        os.write(writing, json.dumps([what, value]).encode() + b"\n")

    status = 1
    try:
        asyncio.run(live(Path(order["folder"]), order["name"], order["seed"], order["steps"], tell))
        status = 0
    except FloorhandError:
        status = _FELL  # what is expected of it when the disk is gone
    finally:
        os._exit(status)  # whatever thread still waits for a disk that is gone


def main() -> None:
    """Answer orders until the input ends."""
    logging.disable()  # a disk that goes away is what is wanted here, thousands of times
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
