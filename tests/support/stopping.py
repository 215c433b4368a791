"""A bench for turns that are stopped: a file to mark, something to look at, and a bell to ring."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.contracts.interrupt import Cause
from appliance.contracts.plan import Step
from appliance.contracts.store import Transaction
from appliance.contracts.tool import SlaContract, ToolCall
from appliance.contracts.turn import Turn
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.spill import Spill
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.say import Say
from appliance.execution.turn_signal import TurnSignal
from appliance.store import actions, interrupts
from tests.support.approvals import free_hands
from tests.support.effect_file import Look, MarkFile
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import Tickets
from tests.support.waiting import HeldUp

FINISHED = RunOutcome("finished")
STOPPED = RunOutcome("stopped", cause=Cause.USER, by="anna", reason="wrong machine")
STOPPED_UNKNOWN = "I stopped while the mark. I do not know whether it happened. Please check at the machine and settle it."
MARK = Step("write", "mark", {"line": "one"})
AFTER = Step("done", "say", {"text": "Written: {steps.write.line}."})


class Yard:
    """A bench with a file to mark, something to look at, and a bell. ``more`` tools can be added before the first run."""

    def __init__(self, bench: Bench, path: Path) -> None:
        self.bench = bench
        self.path = path
        self.mark = MarkFile(path)
        self.mark.contract = replace(MarkFile.contract, sla=SlaContract(30_000))  # type: ignore[misc]
        self.look = Look()
        self.look.contract = replace(Look.contract, sla=SlaContract(30_000))  # type: ignore[misc]
        self.bell = TurnSignal()
        self.inside = asyncio.Event()
        self.release = asyncio.Event()
        self.progress: list[str] = []
        self.approvals = free_hands()
        self.tickets = Tickets()
        self.spill = Spill(path.parent / "spill")
        self.more: list[AnyTool] = []
        self._runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        if self._runner is None:
            bench = self.bench
            words = [Say(bench.clock, bench.ids), Ask(bench.clock, bench.ids, phrasing())]
            tools = [*words, CreateWorkOrder(bench.clock), self.mark, self.look, *self.more]
            self._runner = Runner(
                bench.database, Toolbox(tools), bench.clock, bench.ids, bench.epoch, phrasing(),
                progress=self.progress.append, settle_waits=lambda: [0.0], retry_waits=lambda: iter([0.0] * 9),
                approvals=self.approvals, escalator=self.tickets, spill=self.spill,
            )  # fmt: skip
        return self._runner

    async def turn(self, *steps: Step, **context: Any) -> Turn:
        return await open_turn(self.bench.database, self.bench.clock, self.bench.ids, steps, context=context)

    async def stop(self, step: str | None = None, *, ring: bool = True) -> None:
        """Want the turn to stop, or one step of it."""

        def ask(tx: Transaction) -> None:
            found = {a.step_id: a.id for a in actions.of_turn(tx, "tr_1")}
            interrupts.ask(
                tx, self.bench.clock, self.bench.ids, "tr_1", cause=Cause.USER, by="anna", reason="wrong machine",
                action_id=found[step] if step else None,
            )  # fmt: skip

        await self.bench.database.transaction(ask)
        if ring:
            self.bell.ring()

    async def hang(self, call: ToolCall | None = None) -> Mapping[str, Any]:
        """Go on only when released; a cancellation is obeyed."""
        self.inside.set()
        await self.release.wait()
        return {"seen": "released"}

    async def ignore_stop(self, call: ToolCall | None = None) -> Mapping[str, Any]:
        """Go on only when released, whoever cancels."""
        self.inside.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue
        return {"seen": "released"}

    def looking(self, way: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """Have the looking tool do something else."""

        async def run(call: ToolCall, arguments: Any) -> Mapping[str, Any]:
            self.look.calls.append(call)
            return await way()

        self.look.run = run  # type: ignore[method-assign]

    async def stop_inside(self, turn: Turn, step: str | None = None) -> tuple[RunOutcome, float]:
        """Run until the tool is inside its call, stop, and return what came of it and how long it took, in s, without
        what the machine held it up."""
        running = asyncio.create_task(self.runner.run(turn, self.bell))
        await self.inside.wait()
        await self.stop(step, ring=False)
        began_s, held_up = time.monotonic(), HeldUp()
        self.bell.ring()
        outcome = await running
        return outcome, time.monotonic() - began_s - held_up.so_far_s()

    async def stop_inside_by_dying(self, turn: Turn) -> str:
        """Run until the tool is inside its call, end as a process does that is told to, and return the first step's state."""
        running = asyncio.create_task(self.runner.run(turn, self.bell))
        await self.inside.wait()
        running.cancel()
        await asyncio.wait({running})
        return next(iter((await self.states()).values()))

    async def states(self) -> dict[str, str]:
        return {row["step_id"]: row["state"] for row in await self.bench.rows("SELECT * FROM action ORDER BY position")}

    async def result(self, step: str) -> dict[str, Any]:
        found = await self.bench.database.transaction(lambda tx: actions.of_turn(tx, "tr_1"))
        return dict(next(a.result or {} for a in found if a.step_id == step))

    async def said(self) -> list[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]

    async def effect(self) -> dict[str, Any]:
        return await self.bench.one("SELECT * FROM effect")

    async def open_wishes(self) -> int:
        return len(await self.bench.rows("SELECT 1 FROM interrupt WHERE handled_utc IS NULL"))


@asynccontextmanager
async def open_yard(folder: Path) -> AsyncIterator[Yard]:
    """Open a bench with everything on it; whoever was given up may end afterwards."""
    async with open_bench(folder) as bench:
        yard = Yard(bench, folder / "effects.txt")
        yield yard
        yard.release.set()
        for _ in range(3):
            await asyncio.sleep(0)
