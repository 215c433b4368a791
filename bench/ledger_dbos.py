"""Steps of DBOS workflows, each recorded before the next: a contestant of ``bench.ledger``. Argument: ``shipped`` or ``wal``."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

from dbos import DBOS

from bench.contestant import Taken, serve
from bench.dbos_process import configured, mode_of, use_wal
from bench.step_payload import PAYLOAD


def _carry(number: int) -> str:
    return PAYLOAD


def main() -> None:
    """Launch DBOS in the folder that is named and take rounds."""
    if sys.argv[2] == "wal":
        use_wal()
    step: Any = DBOS.step()(_carry)

    def count(steps: int) -> list[float]:
        times_s = [time.perf_counter()]
        for number in range(steps):
            step(number)
            times_s.append(time.perf_counter())
        return times_s

    workflow: Any = DBOS.workflow()(count)

    def take(_: str, sessions: int, steps: int) -> Taken:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        if sessions == 1:
            many = [workflow(steps)]
        else:
            handles = [DBOS.start_workflow(workflow, steps) for _ in range(sessions)]
            many = [handle.get_result() for handle in handles]
        whole_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        took_s = max(times_s[-1] for times_s in many) - min(times_s[0] for times_s in many)
        steps_ms = [(end - start) * 1000 for times_s in many for start, end in itertools.pairwise(times_s)]
        return Taken(sessions * steps, took_s, steps_ms, whole_s - took_s, cpu_s)

    with configured(Path(sys.argv[1])) as file:
        DBOS.launch()
        serve(take, {"mode": mode_of(file)})


if __name__ == "__main__":
    main()
