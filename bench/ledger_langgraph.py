"""Nodes of a LangGraph graph, checkpointed synchronously in WAL with FULL: a contestant of ``bench.ledger``."""

from __future__ import annotations

import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.contestant import Taken, serve
from bench.langgraph_process import State, looping_graph, mode_of, open_checkpoints, thread
from bench.step_payload import PAYLOAD

_calls: dict[str, list[float]] = {}


def _step(state: State) -> State:
    _calls[state["payload"][len(PAYLOAD) :]].append(time.perf_counter())
    return {"done": state["done"] + 1, "payload": state["payload"]}


def main() -> None:
    """Open the checkpoints in the folder that is named and take rounds."""
    db = open_checkpoints(Path(sys.argv[1]))
    graph = looping_graph(db, _step)
    names = (str(number) for number in itertools.count())

    def run(name: str, steps: int) -> list[float]:
        _calls[name] = times_s = []
        begun: State = {"done": 0, "steps": steps, "payload": PAYLOAD + name}
        graph.invoke(begun, thread(name, steps), durability="sync")
        times_s.append(time.perf_counter())
        return times_s

    def take(_: str, sessions: int, steps: int) -> Taken:
        mine = list(itertools.islice(names, sessions))
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(sessions) as pool:
            many = list(pool.map(run, mine, [steps] * sessions))
        whole_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        took_s = max(times_s[-1] for times_s in many) - min(times_s[0] for times_s in many)
        steps_ms = [(end - start) * 1000 for times_s in many for start, end in itertools.pairwise(times_s)]
        return Taken(sessions * steps, took_s, steps_ms, whole_s - took_s, cpu_s)

    serve(take, {"mode": mode_of(db)})


if __name__ == "__main__":
    main()
