"""Many open sessions in one process, by the real gate, turns and runner: what they hold in memory, and how fast they move.

Run as ``python -m bench.session_yard FOLDER SESSIONS [traced]``; prints one line of JSON. Half the questions of memory are about
sessions that wait for an answer (rows, and next to nothing else), half about sessions that run (a task that is inside a tool).
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import sqlite3
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import psutil

from appliance.contracts.admission import Admission, Outcome
from appliance.contracts.plan import Step
from appliance.contracts.tool import ToolCall, ToolContract
from appliance.contracts.turn import Turn, TurnEvent
from appliance.execution.tools.ask import Ask
from appliance.execution.turn_signal import TurnSignal
from appliance.foundation.log import start_logging
from bench.durable_core import DurableCore, durable_core
from bench.noop_tool import Arguments, Noop, Result
from bench.step_payload import PAYLOAD

T = TypeVar("T")
S = TypeVar("S")

_WAVE = 200  # sessions that are moved at once: the admission queue is bounded
_DOORS = 32  # requests that are handed in at once


@dataclass(frozen=True, slots=True)
class Yard:
    """What a run found. Memory is growth since the core was warm."""

    sessions: int
    waiting_bytes: int
    running_bytes: int
    admissions_s: float
    transitions: int
    transitions_s: float
    transactions: int
    statements: int
    reads: int
    hops: int
    unanswered: int


class Parked:
    """A tool that stays inside its call until it is let go."""

    contract: ClassVar[ToolContract] = replace(
        Noop.contract, name="parked", has_effect=False, sla=replace(Noop.contract.sla, max_execution_time_ms=45_000)
    )

    def __init__(self) -> None:
        self.inside = 0
        self.let_go = asyncio.Event()
        self.moved = asyncio.Event()

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, int]:
        """Stay."""
        self.inside += 1
        self.moved.set()
        await self.let_go.wait()
        return Result(number=arguments.number).model_dump()


class Sessions:
    """Opens sessions and leads them about. Those that are led to the parked tool go in together, once ``go`` is set."""

    def __init__(self, core: DurableCore) -> None:
        self._core = core
        self.parked = Parked()
        self.go = asyncio.Event()
        self.opened = 0
        self.moved = self.parked.moved
        self._runner = core.runner([Ask(core.clock, core.ids, core.wording), self.parked])

    async def admit(self, keys: Sequence[str]) -> list[Admission]:
        """Admit one sentence a session, several doors at once."""
        return await _spread(_DOORS, keys, lambda key: self._core.admit(key, f"console:{key}"))

    async def ask(self, admissions: Sequence[Admission]) -> list[Turn]:
        """Lead each session to an open question: three transitions."""
        return await _spread(_DOORS, admissions, self._asking)

    async def answer(self, turn: Turn) -> None:
        """Answer a session's question and end its turn: two transitions."""
        core = self._core
        (row,) = await core.database.fetch("SELECT id FROM confirmation WHERE turn_id = ?", (turn.id,))
        admission = await core.admit(f"answer:{turn.id}", f"answering:{turn.id}")
        answered = await core.turns.answer(row["id"], True, admission)
        await self._ran(answered)
        await core.turns.end(turn.id, TurnEvent.FINISHED, admission.id, Outcome.DONE)

    async def lead(self, admission: Admission) -> None:
        """Lead a session into the parked tool, as a task of its own does in the conductor; end it when it is let go."""
        step = Step("stay", "parked", {"number": 1, "payload": PAYLOAD})
        turn = await self._core.open(admission, [step])
        self.opened += 1
        self.moved.set()
        await self.go.wait()
        await self._ran(turn)
        await self._core.finish(turn)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait while sessions move until that is ``reached``."""
        while not reached():
            self.moved.clear()
            await self.moved.wait()

    async def _asking(self, admission: Admission) -> Turn:
        turn = await self._core.open(admission, [Step("ask", "ask", {"question": "Shall I go on?"})])
        outcome = await self._runner.run(turn, TurnSignal())
        assert outcome.kind == "waiting", outcome
        return await self._core.turns.end(turn.id, TurnEvent.ASKED, admission.id, Outcome.DONE)

    async def _ran(self, turn: Turn) -> None:
        outcome = await self._runner.run(turn, TurnSignal())
        assert outcome.kind == "finished", outcome


async def _spread(at_once: int, inputs: Sequence[S], work: Callable[[S], Awaitable[T]]) -> list[T]:
    """Do ``work`` for all inputs, so many at once; return what it returns, in order."""
    found: dict[int, T] = {}
    numbered = iter(enumerate(inputs))

    async def take() -> None:
        for number, each in numbered:
            found[number] = await work(each)

    await asyncio.gather(*(take() for _ in range(at_once)))
    return [found[number] for number in range(len(inputs))]


def _waves(count: int, name: str) -> Iterator[list[str]]:
    keys = [f"{name}:{number}" for number in range(count)]
    return (keys[first : first + _WAVE] for first in range(0, count, _WAVE))


class Memory:
    """Resident memory of this process, or what Python has allocated if that is traced."""

    def __init__(self, is_traced: bool) -> None:
        self._is_traced = is_traced
        self._process = psutil.Process()
        self._first = self._used()

    def grown(self) -> int:
        """Return bytes since the beginning."""
        return self._used() - self._first

    def _used(self) -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] if self._is_traced else int(self._process.memory_info().rss)


@dataclass
class Hops:
    """Counts what crosses from the event loop to another thread and back, and the statements that were executed there."""

    transactions: int = 0
    statements: int = 0
    reads: int = 0
    answers: int = 0


@contextmanager
def _counted(core: DurableCore, loop: Any, hops: Hops) -> Iterator[None]:
    """Count while inside: works handed to the writer, reads beside it, and calls back to the loop."""
    database, back = core.database, loop.call_soon_threadsafe
    transaction, fetch = database.transaction, database.fetch

    async def counting(work: Callable[[sqlite3.Connection], Any]) -> Any:
        hops.transactions += 1
        return await transaction(work)

    async def reading(sql: str, parameters: Sequence[Any] = ()) -> Any:
        hops.reads += 1
        return await fetch(sql, parameters)

    def calling(callback: Any, *arguments: Any, context: contextvars.Context | None = None) -> Any:
        hops.answers += 1
        return back(callback, *arguments, context=context)

    database.transaction = counting  # type: ignore[method-assign]
    database.fetch = reading  # type: ignore[method-assign]
    loop.call_soon_threadsafe = calling
    try:
        yield
    finally:
        del database.transaction, database.fetch, loop.call_soon_threadsafe


async def measure(folder: Path, sessions: int, *, is_traced: bool) -> Yard:
    """Open ``sessions`` sessions that wait, then as many that run, and end them all."""
    async with durable_core(folder) as core:
        yard = Sessions(core)
        for keys in _waves(_WAVE, "warm"):
            for turn in await yard.ask(await yard.admit(keys)):
                await yard.answer(turn)
        hops = await _hops(core, yard)
        memory = Memory(is_traced)
        admitting_s = moving_s = 0.0
        for keys in _waves(sessions, "waiting"):
            started_s = time.perf_counter()
            admissions = await yard.admit(keys)
            admitted_s = time.perf_counter()
            await yard.ask(admissions)
            admitting_s += admitted_s - started_s
            moving_s += time.perf_counter() - admitted_s
        del admissions
        await core.turns.abandon_unanswered()  # what looks for the unanswered keeps a stopwatch for each
        waiting_bytes = memory.grown()
        running: list[asyncio.Task[None]] = []
        for keys in _waves(sessions, "running"):
            running += [asyncio.create_task(yard.lead(admission)) for admission in await yard.admit(keys)]
            await yard.until(lambda: yard.opened == len(running))  # noqa: B023  (awaited here)
        yard.go.set()
        await yard.until(lambda: yard.parked.inside == sessions)
        running_bytes = memory.grown() - waiting_bytes
        yard.parked.let_go.set()
        await asyncio.gather(*running)
        (left,) = await core.database.fetch("SELECT count(*) AS count FROM turn WHERE state = 'confirming'")
        return Yard(
            sessions,
            waiting_bytes,
            running_bytes,
            round(sessions / admitting_s, 1),
            3 * sessions,
            round(3 * sessions / moving_s, 1),
            hops.transactions,
            hops.statements,
            hops.reads,
            hops.answers,
            sessions - left["count"],
        )


async def _hops(core: DurableCore, yard: Sessions) -> Hops:
    """Lead one session from its admission to its end, alone, and count."""
    hops = Hops()

    def look(tx: sqlite3.Connection) -> None:
        tx.set_trace_callback(lambda _: setattr(hops, "statements", hops.statements + 1))

    await core.database.transaction(look)
    with _counted(core, asyncio.get_running_loop(), hops):
        (turn,) = await yard.ask(await yard.admit(["hops"]))
        await yard.answer(turn)
    await core.database.transaction(lambda tx: tx.set_trace_callback(None))
    return hops


def main() -> None:
    """Measure in the folder that is named and print it."""
    start_logging("error")
    is_traced = "traced" in sys.argv[3:]
    if is_traced:
        tracemalloc.start()
    yard = asyncio.run(measure(Path(sys.argv[1]), int(sys.argv[2]), is_traced=is_traced))
    print(json.dumps(asdict(yard)), flush=True)


if __name__ == "__main__":
    main()
