"""Tools that run in a process of their own and misbehave there in every way a test asks for."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from appliance.contracts.errors import Refused, Unavailable, Uncertain
from appliance.contracts.tool import (
    AccessLevel,
    EffectDisposition,
    Isolation,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution.fields import Fields

_SLEEPER = "import time; time.sleep(600)"


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class RoughArguments(Fields):
    do: str = "answer"
    text: str = ""


class RoughResult(Fields):
    seen: Any = None


def contract(name: str, *, has_effect: bool, bound_ms: int) -> ToolContract:
    """A contract of a tool in a process of its own."""
    return ToolContract(
        name=name,
        description="Do something rough",
        schema=SchemaContract(RoughArguments, RoughResult),
        sla=SlaContract(bound_ms),
        security=SecurityContract(AccessLevel.INTERNAL, "field"),
        telemetry=TelemetryContract(f"{name}.started", f"{name}.done", f"{name}.failed"),
        has_effect=has_effect,
        isolation=Isolation.PROCESS,
    )


class Rough:
    """``do`` names what happens. Before that, the processes it started write their ids into ``folder``, a line each."""

    contract: ClassVar[ToolContract] = contract("rough", has_effect=False, bound_ms=20_000)

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    async def run(self, call: ToolCall, arguments: RoughArguments) -> Mapping[str, Any]:
        self._note("pids", os.getpid())
        self._note("cwd", Path.cwd())
        return {"seen": await getattr(self, arguments.do)(arguments.text)}

    def _note(self, name: str, what: object) -> None:
        with (self._folder / name).open("a", encoding="utf-8") as noted:
            noted.write(f"{what}\n")

    async def answer(self, text: str) -> Any:
        return text

    async def environment(self, text: str) -> Any:
        return {"env": dict(os.environ), "cwd": str(Path.cwd()), "fds": _open_descriptors()}

    async def nap(self, text: str) -> Any:
        await asyncio.Event().wait()

    async def say_when_stopped(self, text: str) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "just done"

    async def spin_in_c(self, text: str) -> Any:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock: nothing of Python runs meanwhile

    async def spin(self, text: str) -> Any:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            pass

    async def fork_children(self, text: str) -> Any:
        (Path.cwd() / "left behind").write_text("x")
        for own_session in (False, True):
            child = subprocess.Popen([sys.executable, "-c", _SLEEPER], start_new_session=own_session)  # noqa: ASYNC220
            self._note("pids", child.pid)
        daemon = "import os, sys, time\nif os.fork() == 0:\n os.setsid()\n print(os.getpid(), flush=True)\n time.sleep(600)"
        done = subprocess.Popen([sys.executable, "-c", daemon], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
        assert done.stdout is not None
        self._note("pids", done.stdout.readline().strip())
        if not text:
            await asyncio.Event().wait()
        return text

    async def flood_stdout(self, text: str) -> Any:
        for _ in range(200):
            os.write(1, b"x" * 65_536)
            os.write(2, b"y" * 65_536)
        return "flooded"

    async def flood_result(self, text: str) -> Any:
        return "x" * 2_000_000

    async def segfault(self, text: str) -> Any:
        ctypes.string_at(0)

    async def leave(self, text: str) -> Any:
        os._exit(7)

    async def junk(self, text: str) -> Any:
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b'{"value": [1, 2')
            except OSError:
                continue
        os._exit(0)

    async def nonsense(self, text: str) -> Any:
        return threading.Lock()

    async def fault(self, text: str) -> Any:
        raise KeyError("a mistake")

    async def refuse(self, text: str) -> Any:
        raise Refused(text)

    async def be_away(self, text: str) -> Any:
        raise Unavailable(text, retry_after_s=7.0)

    async def be_unsure(self, text: str) -> Any:
        raise Uncertain(text)


class RoughEffect(Rough):
    """The same with an effect: a line in ``folder``/effects, written before anything else happens. It can be looked for."""

    contract: ClassVar[ToolContract] = contract("rough_effect", has_effect=True, bound_ms=20_000)

    async def run(self, call: ToolCall, arguments: RoughArguments) -> Mapping[str, Any]:
        self._note("effects", json.dumps(call.action_id))
        return await super().run(call, arguments)

    async def verify(self, call: ToolCall, arguments: RoughArguments) -> tuple[EffectDisposition, Mapping[str, Any]]:
        effects = self._folder / "effects"
        if not effects.exists():
            return EffectDisposition.NONE, {}
        if arguments.text == "hang in verify":
            await asyncio.Event().wait()
        return EffectDisposition.APPLIED, {"seen": effects.read_text("utf-8").strip()}
