"""Steps of turns through the real runner, and the same transactions without it: a contestant of ``bench.ledger``.

``runner`` counts what :class:`~appliance.execution.runner.Runner` needs for the steps of turns that were admitted, opened and
planned before. ``replay`` hands the writer the same transactions with the same bytes, for turns that were opened the same way,
the reads as well as the writes: a look for a stop, a hold or a lost lease is part of the transaction that it may keep from
beginning a step. ``replay_writes`` leaves the reads out. ``writers`` are sessions that each append one small record after the
other, ``paced`` the same with pauses in between.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Step
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.execution.turn_signal import TurnSignal
from appliance.foundation.log import start_logging
from appliance.store import actions, operations
from bench.contestant import Taken, serve
from bench.durable_core import DurableCore, durable_core
from bench.noop_tool import Noop
from bench.statement_record import RecordingLedger, Replay, Script, renamed
from bench.step_payload import PAYLOAD

_PAUSE_S = 0.2  # of a paced writer, on average: 200 of them write a thousand records a second


def plan_of(steps: int) -> list[Step]:
    """Return as many steps that do nothing."""
    return [Step(f"s{number}", "noop", {"number": number, "payload": PAYLOAD}) for number in range(steps)]


class Rounds:
    """Takes rounds on one open ledger."""

    def __init__(self, core: DurableCore) -> None:
        self._core = core
        self._calls: dict[str, list[float]] = {}
        self._tool = Noop(lambda turn, number, at_s: self._calls[turn].append(at_s))
        self._runner = core.runner([self._tool])
        self._keys = itertools.count()
        self._replay = Replay()
        self._scripts: dict[tuple[str, int], tuple[Script, list[str]]] = {}

    async def take(self, kind: str, sessions: int, steps: int) -> Taken:
        """Take one round."""
        if kind in ("writers", "paced"):
            return await self._write(sessions, steps, _PAUSE_S if kind == "paced" else 0.0)
        if kind != "runner":
            await self._record(kind, steps)
        started_s = time.perf_counter()
        turns = await asyncio.gather(*(self._opened(lane, steps) for lane in range(sessions)))
        opened_s = time.perf_counter()
        runs = [self._run_of(turn) if kind == "runner" else await self._replay_of(kind, steps, turn) for turn in turns]
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        steps_ms = [each for many in await asyncio.gather(*(run() for run in runs)) for each in many]
        ended_s, ended_cpu_s = time.perf_counter(), time.process_time()
        await asyncio.gather(*(self._core.finish(turn) for turn in turns))
        around_s = opened_s - started_s + time.perf_counter() - ended_s
        return Taken(sessions * steps, ended_s - began_s, steps_ms, around_s, ended_cpu_s - began_cpu_s)

    async def _opened(self, lane: int, steps: int) -> Turn:
        admission = await self._core.admit(f"bench:{next(self._keys)}", f"console:{lane}")
        return await self._core.open(admission, plan_of(steps))

    def _run_of(self, turn: Turn) -> Callable[[], Awaitable[list[float]]]:
        async def run() -> list[float]:
            calls = self._calls[turn.id] = []
            outcome = await self._runner.run(turn, TurnSignal())
            if outcome.kind != "finished":
                raise RuntimeError(f"the bench's own turn did not finish: {outcome}")
            return _between([*calls, time.perf_counter()])

        return run

    async def _write(self, writers: int, records: int, pause_s: float) -> Taken:
        clock = self._core.clock

        def note(tx: Transaction) -> None:
            operations.append(tx, clock, OperationLane.P2, "bench.noted", "writer", {"payload": PAYLOAD})

        async def write() -> list[float]:
            times_ms = []
            for _ in range(records):
                if pause_s:
                    await asyncio.sleep(random.uniform(0.0, 2 * pause_s))  # the measurement's own rhythm
                started_s = time.perf_counter()
                await self._core.database.transaction(note)
                times_ms.append((time.perf_counter() - started_s) * 1000)
            return times_ms

        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        many = await asyncio.gather(*(write() for _ in range(writers)))
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        return Taken(writers * records, took_s, [each for times_ms in many for each in times_ms], 0.0, cpu_s)

    # the same without a runner ----------------------------------------------------------------------------------------
    async def _record(self, kind: str, steps: int) -> None:
        """Run one turn through the runner and keep what it wrote, once for each length."""
        if (kind, steps) in self._scripts:
            return
        await self._core.database.transaction(self._replay.prepare)
        recording = RecordingLedger(self._core.database)
        turn = await self._opened(0, steps)
        self._calls[turn.id] = []
        await self._core.runner([self._tool], recording).run(turn, TurnSignal())
        script = recording.script(only_writes=kind == "replay_writes")
        self._scripts[kind, steps] = script, await self._names(turn)
        await self._core.finish(turn)

    async def _replay_of(self, kind: str, steps: int, turn: Turn) -> Callable[[], Awaitable[list[float]]]:
        script, names = self._scripts[kind, steps]
        own = renamed(script, dict(zip(names, await self._names(turn), strict=True)))
        works = [self._replay.work(statements) for statements in own]

        async def run() -> list[float]:
            times_s = [time.perf_counter()]
            for work in works:
                await self._core.database.transaction(work)
                times_s.append(time.perf_counter())
            return _between(times_s)

        return run

    async def _names(self, turn: Turn) -> list[str]:
        """Return the ids by which a turn's rows are known."""
        stored = await self._core.database.transaction(lambda tx: actions.of_turn(tx, turn.id))
        return [turn.id, *(action.id for action in stored)]


def _between(times_s: Sequence[float]) -> list[float]:
    return [(end - start) * 1000 for start, end in itertools.pairwise(times_s)]


def main() -> None:
    """Open a ledger in the folder that is named and take rounds."""
    start_logging("warning")
    with asyncio.Runner() as loop:
        opening = durable_core(Path(sys.argv[1]))
        core = loop.run(opening.__aenter__())
        rounds = Rounds(core)
        try:
            serve(lambda kind, sessions, steps: loop.run(rounds.take(kind, sessions, steps)), {})
        finally:
            loop.run(opening.__aexit__(None, None, None))


if __name__ == "__main__":
    main()
