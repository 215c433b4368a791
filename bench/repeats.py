"""What becomes of an effect whose process is killed after it happened and before that was recorded: does it happen again?

Each runs three effects, is killed by SIGKILL inside the second, and is started again in the way its documentation says.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from bench.deadly_effect import DEADLY, STEPS, happened
from bench.figures import Findings
from bench.servers import CannotMeasure

_WHO = {"floorhand": "kill_ours", "dbos": "kill_dbos", "langgraph": "kill_langgraph"}
_LIFE_WITHIN_S = 60.0


async def measure_repeats(findings: Findings, folder: Path) -> None:
    """Fill in ``repeats_effect`` by contestant, and what happened, in order, in ``effects_after_kill``."""
    for name, module in _WHO.items():
        place = folder / name
        place.mkdir()
        first, second = await _live(module, place), await _live(module, place)
        effects = happened(place)
        if first != -signal.SIGKILL or second != 0 or effects[-1:] != [STEPS[-1]]:
            raise CannotMeasure(f"{name} ended with {first}, then {second}, after {effects}: see {place}/log.txt")
        findings.figures.setdefault("repeats_effect", {})[name] = effects.count(DEADLY) > 1
        findings.figures.setdefault("effects_after_kill", {})[name] = " ".join(effects)


async def _live(module: str, folder: Path) -> int:
    """Return the exit code of one life."""
    with (folder / "log.txt").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", f"bench.{module}", str(folder), stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL
        )
    try:
        async with asyncio.timeout(_LIFE_WITHIN_S):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
