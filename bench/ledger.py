"""`make bench BENCH=ledger`: what it costs that nothing is lost and nothing done twice.

In: nothing but this machine. Out: `build/bench/ledger.json` and a table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from bench.command import Bench, Measure, run
from bench.ledger_steps import measure_steps
from bench.ledger_writers import measure_writers
from bench.repeats import measure_repeats

_ROUNDS, _QUICK_ROUNDS = 15, 2
_WRITER_ROUNDS, _QUICK_WRITER_ROUNDS = 12, 1
_RECORDS = 10  # of one writer in a round


def _parts(is_quick: bool) -> Mapping[str, Measure]:
    rounds = _QUICK_ROUNDS if is_quick else _ROUNDS
    writer_rounds = _QUICK_WRITER_ROUNDS if is_quick else _WRITER_ROUNDS
    return {
        "steps": lambda f, folder, disk: measure_steps(f, folder, disk, rounds=rounds, is_quick=is_quick),
        "writers": lambda f, folder, disk: measure_writers(f, folder, disk, rounds=writer_rounds, records=_RECORDS),
        "repeats": lambda f, folder, _: measure_repeats(f, folder),
    }


BENCH = Bench(
    "ledger",
    "Measure durable steps against others that make them durable",
    _parts,
    libraries=("dbos", "langgraph", "langgraph-checkpoint-sqlite", "sqlalchemy", "psutil"),
)

if __name__ == "__main__":
    sys.exit(run(BENCH))
