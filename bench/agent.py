"""`make bench BENCH=agent`: how long it takes from what was said to a plan, and what the runtime adds round a tool.

In: nothing but this machine. Out: `build/bench/agent.json` and a table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from bench.agent_overhead import measure_overhead
from bench.agent_planning import measure_planning
from bench.command import Bench, Measure, run

_UTTERANCES, _QUICK_UTTERANCES = 1_000, 60
_TURNS, _QUICK_TURNS = 50, 2


def _parts(is_quick: bool) -> Mapping[str, Measure]:
    count = _QUICK_UTTERANCES if is_quick else _UTTERANCES
    turns = _QUICK_TURNS if is_quick else _TURNS
    return {
        "planning": lambda f, folder, _: measure_planning(f, folder, count=count),
        "overhead": lambda f, folder, disk: measure_overhead(f, folder, disk, turns=turns),
    }


BENCH = Bench("agent", "Measure plans and what the runtime adds to a tool", _parts, libraries=("hassil", "pydantic"))

if __name__ == "__main__":
    sys.exit(run(BENCH))
