"""The Modbus servers that are measured against, each a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from demo.process import Child

_SOURCE = Path(__file__).with_name("libmodbus_server.c")
_STARTS_WITHIN_S = 30.0


class CannotMeasure(Exception):
    """Something this measurement needs is not on this machine; the message says what to install."""


@asynccontextmanager
async def libmodbus_server(folder: Path) -> AsyncIterator[int]:
    """Compile and run the server in C; yield its port. It serves one connection at a time.

    Raises:
        CannotMeasure: there is no compiler or no libmodbus.
    """
    program = folder / "libmodbus_server"
    command = ["gcc", "-O2", "-o", str(program), str(_SOURCE), "-I/usr/include/modbus", "-lmodbus", "-lpthread"]
    try:
        compiler = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    except FileNotFoundError as error:
        raise CannotMeasure("there is no C compiler; apt-get install gcc libc6-dev libmodbus-dev") from error
    _, complaint = await compiler.communicate()
    if compiler.returncode != 0:
        raise CannotMeasure(f"the server in C does not compile; apt-get install libmodbus-dev: {complaint.decode()[-300:]}")
    async with _running(Child("libmodbus", [str(program)], folder / "libmodbus.log")) as child:
        yield int(child.reports[0]["port"])


@asynccontextmanager
async def simulator(folder: Path, plant: Mapping[str, Any]) -> AsyncIterator[Child]:
    """Run our own simulated plant on ``plant``; its first report is ``ready`` with the port, and it tells of every write."""
    file = folder / "simulated-plant.yaml"
    file.write_text(yaml.safe_dump(dict(plant)), encoding="utf-8")
    command = [sys.executable, "-m", "drivers.sim", "--plant", str(file), "--port", "0"]
    async with _running(Child("simulator", command, folder / "simulator.log")) as child:
        yield child


@asynccontextmanager
async def _running(child: Child) -> AsyncIterator[Child]:
    await child.start()
    try:
        await child.report(lambda report: report.get("event") == "ready", within_s=_STARTS_WITHIN_S)
        yield child
    finally:
        await child.stop()
