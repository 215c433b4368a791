"""A turn of three effects in the real runner, killed inside the second; started again in the same folder it goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from appliance.contracts.plan import Step
from appliance.contracts.tool import EffectDisposition, ToolCall, ToolContract
from appliance.execution.fields import Fields
from appliance.foundation.log import start_logging
from bench.deadly_effect import STEPS, happen, happened
from bench.durable_core import durable_core
from bench.noop_tool import Noop


class Arguments(Fields):
    """``step`` is what happens, ``what`` how people call it."""

    step: str
    what: str = "the effect"


class Result(Fields):
    """``step`` happened."""

    step: str


class Deadly:
    """Does what :func:`happen` does, and can tell afterwards whether it did."""

    contract: ClassVar[ToolContract] = replace(
        Noop.contract,
        name="deadly",
        schema=replace(Noop.contract.schema, arguments=Arguments, result=Result, required_fields=("step",)),
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, str]:
        """Let the effect happen."""
        happen(self._folder, arguments.step)
        return {"step": arguments.step}

    async def verify(self, call: ToolCall, arguments: Arguments) -> tuple[EffectDisposition, Mapping[str, str]]:
        """Look whether it has happened."""
        if arguments.step in happened(self._folder):
            return EffectDisposition.APPLIED, {"step": arguments.step}
        return EffectDisposition.NONE, {}


async def live(folder: Path) -> None:
    """One life: go on with the turn that was left, or begin it."""
    async with durable_core(folder) as core:
        runner = core.runner([Deadly(folder)])
        if core.recovered.resumed:
            turn = await core.turns.resume(core.recovered.resumed[0])
        else:
            admission = await core.admit("bench:kill", "console:bench")
            turn = await core.open(admission, [Step(step, "deadly", {"step": step}) for step in STEPS])
        outcome = await runner.run(turn)
        if outcome.kind != "finished":
            raise RuntimeError(f"the turn did not finish: {outcome}")


if __name__ == "__main__":
    start_logging("error")
    asyncio.run(live(Path(sys.argv[1])))
